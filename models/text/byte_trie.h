#pragma once
// ByteTrie: finds the longest of many strings that a text has at a given place, or all of them.
//
// Threading: immutable once built; const access from any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/text/tokenizer_spec.h"

namespace reprise::models {

class ByteTrie {
 public:
  ByteTrie() { roots_.fill(kNone); }

  /// Of equal strings the last counts. An empty string is left out.
  void add(std::string_view text, TokenId id);

  bool is_empty() const { return nodes_.empty(); }

  /// Whether a string begins with this byte.
  bool can_begin(char byte) const { return roots_[static_cast<unsigned char>(byte)] != kNone; }

  struct Match {
    TokenId id = -1;         // -1: none
    std::size_t length = 0;  // bytes
  };

  /// The longest string at text[at] for whose id `accept` is true.
  template <typename Accept>
  Match longest(std::string_view text, std::size_t at, Accept accept) const {
    Match best;
    std::uint32_t node = at < text.size() ? roots_[static_cast<unsigned char>(text[at])] : kNone;
    for (std::size_t length = 1; node != kNone; ++length) {
      const TokenId id = nodes_[node].id;
      if (id >= 0 && accept(id)) best = {id, length};
      node = at + length < text.size() ? child(node, text[at + length]) : kNone;
    }
    return best;
  }

  /// Calls visit(id, length) for every string at text[at], from the shortest to the longest.
  template <typename Visit>
  void each(std::string_view text, std::size_t at, Visit visit) const {
    std::uint32_t node = at < text.size() ? roots_[static_cast<unsigned char>(text[at])] : kNone;
    for (std::size_t length = 1; node != kNone; ++length) {
      if (nodes_[node].id >= 0) visit(nodes_[node].id, length);
      node = at + length < text.size() ? child(node, text[at + length]) : kNone;
    }
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Node {
    char byte;
    TokenId id = -1;
    std::uint32_t first_child = kNone;
    std::uint32_t sibling = kNone;
  };

  std::uint32_t child(std::uint32_t node, char byte) const {
    node = nodes_[node].first_child;
    while (node != kNone && nodes_[node].byte != byte) node = nodes_[node].sibling;
    return node;
  }

  std::array<std::uint32_t, 256> roots_;
  std::vector<Node> nodes_;
};

}  // namespace reprise::models
