#pragma once
// SlotRecords records the tokens of the last request on each slot, for llama-server's POST
// /slots/{id}?action=save. Slots have no memory of their own here: states are found by their tokens. A slot
// is a number that a client sets in its requests (id_slot, default 0), and belongs to its tenant and
// cache_salt.
//
// Bounds: at most kMaxTenantBytes of tokens per tenant and kMaxBytes in total, counting each slot as at least
// kMinCharge; the slots written longest ago are dropped first.
//
// Threading: any thread.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/token.h"
#include "protocol/api/endpoint.h"
#include "protocol/named_snapshots.h"

namespace reprise::protocol {

struct SlotKey {
  NameOwner owner{};
  std::uint32_t slot = 0;

  auto operator<=>(const SlotKey&) const = default;
};
struct SlotContents {
  std::string model{};
  TokenList tokens{};  // prompt and first choice of the reply
};

class SlotRecords {
 public:
  static constexpr std::uint32_t kMaxSlot = 1023;
  static constexpr std::size_t kMaxTenantBytes = 8u << 20;
  static constexpr std::size_t kMaxBytes = 32u << 20;
  static constexpr std::size_t kMinCharge = 64u << 10;

  /// Replaces the slot's contents; contents above the tenant's bound only clear the slot.
  void put(const SlotKey& key, SlotContents contents);
  std::optional<SlotContents> find(const SlotKey& key) const;
  /// Clears the slot; returns the number of tokens it had.
  std::size_t erase(const SlotKey& key);

 private:
  struct Entry {
    SlotKey key;
    SlotContents contents;
  };
  static std::size_t size_of(const Entry& entry);
  std::size_t bytes_of(const std::string& tenant) const;
  void drop_oldest(const std::string* tenant);
  std::size_t take(const SlotKey& key);

  mutable std::mutex mutex_;
  std::list<Entry> entries_{};  // guarded by mutex_; written longest ago first
  std::size_t bytes_ = 0;       // guarded by mutex_
};

/// The slot that records a reply's tokens when it is done.
struct SlotNote {
  std::shared_ptr<SlotRecords> records{};
  SlotKey key{};
};
/// Returns the slot named in the body: id_slot, or llama-server's older slot_id.
SlotNote slot_note(std::shared_ptr<SlotRecords> records, const Json& body, std::string_view tenant);

/// Wraps a reply so that its tokens are recorded in the slot.
std::unique_ptr<Reply> noted_whole(std::unique_ptr<Reply> reply, SlotNote note);
std::unique_ptr<StreamedReply> noted_stream(std::unique_ptr<StreamedReply> reply, SlotNote note);

}  // namespace reprise::protocol
