#pragma once
// SlotBook: the tokens that the last request on each slot has computed, for llama-server's POST /slots/{id}?action=save.
// Slots have no memory of their own here: states are found by their tokens. A slot is a number that a client puts into its
// requests (id_slot; 0 without it), and belongs to its tenant and cache_salt.
//
// Bounds: kMaxTenantBytes of a tenant's tokens and kMaxBytes of all, each slot counted with kMinCharge at least; the slots that
// were written longest ago are forgotten.
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
  std::string model{};  // as the engine called it
  TokenList tokens{};   // of the prompt, and of the first choice of its reply
};

class SlotBook {
 public:
  static constexpr std::uint32_t kMaxSlot = 1023;
  static constexpr std::size_t kMaxTenantBytes = 8u << 20;
  static constexpr std::size_t kMaxBytes = 32u << 20;
  static constexpr std::size_t kMinCharge = 64u << 10;

  /// Replaces what the slot had; contents over a tenant's bound only remove it.
  void put(const SlotKey& key, SlotContents contents);
  std::optional<SlotContents> find(const SlotKey& key) const;
  /// Returns how many tokens it had.
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

/// Where a reply's tokens are noted when it is done.
struct SlotNote {
  std::shared_ptr<SlotBook> book{};
  SlotKey key{};
};
/// Of a request with this body: its id_slot, or llama-server's older slot_id.
SlotNote slot_note(std::shared_ptr<SlotBook> book, const Json& body, std::string_view tenant);

/// The same replies, noted.
std::unique_ptr<Reply> noted_whole(std::unique_ptr<Reply> reply, SlotNote note);
std::unique_ptr<StreamedReply> noted_stream(std::unique_ptr<StreamedReply> reply, SlotNote note);

}  // namespace reprise::protocol
