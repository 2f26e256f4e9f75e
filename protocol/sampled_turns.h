#pragma once
// Assistant turns as the model sampled them, kept for clients that send them back.
//
// A client returns a tool call as parsed JSON. Rendering that again changes whitespace and key order, so the
// prompt would diverge from the tokens whose state is cached. A turn that comes back with the same meaning is
// therefore put into the prompt as it was sampled (ChatFormat::show).
//
// Turns are looked up within the request's namespace, by a name that only that client was told: the id of its
// first call or, without calls, the id with which its reasoning was signed.

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/token.h"

namespace reprise::protocol {

struct SampledTurn {
  std::string name{};
  Json message{};      // as sent to the client: content, reasoning_content, tool_calls
  std::string text{};  // decoded tokens
  // the template's header of the turn, what the template opens after it, and the reply without its end token
  TokenList tokens{};
};
using SharedTurn = std::shared_ptr<const SampledTurn>;

/// The message member that names a turn without calls. Set by the APIs that sign reasoning.
inline constexpr const char* kTurnMember = "reprise_turn";

/// Returns the name under which an assistant message's turn is stored; empty: none.
std::string turn_name(const Json& message);

/// Returns the id of a choice's turn; the ids of its calls begin with it.
inline std::string turn_id(const std::string& reply_id, std::uint32_t choice) {
  return reply_id + '_' + std::to_string(choice);
}

/// Serialization for external stores. Reading returns nothing for malformed bytes.
std::vector<std::byte> to_bytes(const SampledTurn& turn);
std::optional<SampledTurn> sampled_turn_of(std::span<const std::byte> bytes);

/// Sampled turns in memory. Bound: `max_bytes`. When it is exceeded, the tenant that uses most memory loses
/// its least recently used turn.
///
/// Threading: any thread.
class TurnCache {
 public:
  static constexpr std::size_t kMaxBytes = 64u << 20;

  explicit TurnCache(std::size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  /// Stores a turn. `model` is the ArchLoaded::identity of the model that sampled it. Turns larger than a
  /// quarter of the bound are not stored.
  void keep(std::string_view tenant, std::uint64_t model, const std::string& name_space, SharedTurn turn);
  /// Returns null if the turn is unknown.
  SharedTurn find(std::uint64_t model, const std::string& name_space, const std::string& name);

  std::size_t bytes() const;

 private:
  struct Key {
    std::uint64_t model;
    std::string name_space, name;
    auto operator<=>(const Key&) const = default;
  };
  struct Tenant {
    std::size_t bytes = 0;
    std::list<Key> order{};  // least recently used first
  };
  struct Entry {
    SharedTurn turn;
    std::map<std::string, Tenant, std::less<>>::iterator tenant;
    std::list<Key>::iterator in_order;
  };
  void drop(std::map<Key, Entry>::iterator entry);

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;                        // guarded by mutex_
  std::map<std::string, Tenant, std::less<>> tenants_;  // guarded by mutex_; tenants with at least one turn
  std::size_t bytes_ = 0;                               // guarded by mutex_
};

}  // namespace reprise::protocol
