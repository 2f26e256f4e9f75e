#pragma once
// Where tokens are looked up by their text: StringTable finds a whole string, ByteTrie those that a text begins with.
//
// Threading: immutable once built; const access from any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace reprise::models {

/// A quick hash of a short string; only for tables that nobody else can fill.
inline std::uint64_t hash_of(std::string_view text) {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15u;
  const char* at = text.data();
  std::size_t left = text.size();
  std::uint64_t hash = left * kFactor;
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t block;
    std::memcpy(&block, at, 8);
    hash = (hash ^ block) * kFactor;
    hash ^= hash >> 32;
  }
  if (left > 0) {
    std::uint64_t block = 0;
    std::memcpy(&block, at, left);
    hash = (hash ^ block) * kFactor;
    hash ^= hash >> 32;
  }
  hash *= kFactor;
  return hash ^ hash >> 29;
}

/// Numbered strings in one block of memory, and the number of a string.
class StringTable {
 public:
  static constexpr std::int32_t kNone = -1;

  StringTable() = default;

  /// Of equal strings find() gives the last. Empty strings are kept but not found; no string is without
  /// `with_find`.
  explicit StringTable(const std::vector<std::string>& strings, bool with_find = true);

  std::size_t size() const { return ends_.size(); }
  std::size_t longest() const { return longest_; }  // bytes

  /// Needs 0 <= number < size().
  std::string_view operator[](std::size_t number) const {
    const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(bytes_).substr(begin, ends_[number] - begin);
  }

  /// The number of `text`, or kNone.
  std::int32_t find(std::string_view text) const;

 private:
  struct Slot {
    std::uint32_t tag = 0;
    std::int32_t number = kNone;
  };

  std::string bytes_;
  std::vector<std::size_t> ends_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  std::size_t longest_ = 0;
};

/// Finds the longest of many strings that a text has at a given place, or all of them.
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
