#pragma once
// Turns of the assistant as the model sampled them, for clients that send them back. A client returns a tool call as parsed
// JSON. Rendered again it has other blanks and another order of keys, and the prompt leaves the tokens whose state is cached. A
// turn that comes back with the same meaning is put into the prompt as it was sampled (ChatFormat::show).
//
// A turn is found within the namespace of its request, by a name that was told to that client alone: the id of its first
// call or, where it has no calls, the id that its reasoning was signed with.

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
  Json message{};      // as the client was sent it: content, reasoning_content, tool_calls
  std::string text{};  // bytes of the tokens
  TokenList
      tokens{};  // the template's header of the turn, what it opens behind that, and the reply without its end token
};
using SharedTurn = std::shared_ptr<const SampledTurn>;

/// The member of a message that names its turn where it has no calls: set by the APIs that sign reasoning.
inline constexpr const char* kTurnMember = "reprise_turn";

/// The name by which the turn of an assistant's message is found; empty: it has none.
std::string turn_name(const Json& message);

/// The id of a choice's turn, which ids of its calls begin with.
inline std::string turn_id(const std::string& reply_id, std::uint32_t choice) {
  return reply_id + '_' + std::to_string(choice);
}

/// For a store outside of the process. Reading refuses what is not whole.
std::vector<std::byte> to_bytes(const SampledTurn& turn);
std::optional<SampledTurn> sampled_turn_of(std::span<const std::byte> bytes);

/// Turns in memory. Bound: `max_bytes`; over it the tenant that holds most loses its least recently used turn.
///
/// Threading: any thread.
class TurnBook {
 public:
  static constexpr std::size_t kMaxBytes = 64u << 20;

  explicit TurnBook(std::size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  /// `model`: fingerprint of the model that the tokens are for. A turn larger than a quarter of the bound is not kept.
  void keep(std::string_view tenant, std::uint64_t model, const std::string& name_space, SharedTurn turn);
  /// Null: it is not known.
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
  std::map<std::string, Tenant, std::less<>> tenants_;  // guarded by mutex_; those that hold something
  std::size_t bytes_ = 0;                               // guarded by mutex_
};

}  // namespace reprise::protocol
