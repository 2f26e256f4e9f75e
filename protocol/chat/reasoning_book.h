#pragma once
// Reasoning of replies, for clients that drop it from their own history: the next request has the reply without its
// reasoning, the template then shows another prompt than the one that was computed, and little of it can be restored.
//
// A reasoning is found by all that was said up to its reply, word for word, and by whose it is: nothing is guessed, and
// nobody gets another's. Reasoning itself is no part of what it is found by.
//
// Bounds: so many replies and bytes; the least recently used go first.
//
// Threading: one owner.

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace reprise::protocol {

struct ReasoningLimits {
  std::size_t replies = 8192;
  std::size_t bytes = 32u << 20;
};

class ReasoningBook {
 public:
  /// Of a conversation up to some message.
  using Key = std::array<std::uint64_t, 2>;

  explicit ReasoningBook(ReasoningLimits limits = {}) : limits_(limits) {}

  /// Gives replies in `messages` that have no reasoning theirs, where it is known. `owner` names who asks, and
  /// what may be shared. Returns how many got one; `history` becomes the key of all messages.
  std::uint32_t reattach(std::string_view owner, Json& messages, Key& history);

  /// Keeps the reasoning of the reply to that history, an assistant's message; nothing where it has none.
  void keep(const Key& history, const Json& reply);

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string reasoning;
    std::list<Key>::iterator place;  // in order_
  };
  static std::size_t size_of(const std::string& reasoning) { return reasoning.size() + 256; }

  const ReasoningLimits limits_;
  std::map<Key, Entry> entries_;
  std::list<Key> order_;  // least recently used first
  std::size_t bytes_ = 0;
};

}  // namespace reprise::protocol
