#pragma once
// Token lookup by text: StringTable finds a whole string, ByteTrie finds strings that are prefixes of a text.
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

/// A fast hash of a short string. Not resistant to collision attacks; only for tables with trusted contents.
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

/// Strings numbered from 0 in one block of memory, and lookup by text.
class StringTable {
 public:
  static constexpr std::int32_t kNone = -1;

  StringTable() = default;

  /// Among equal strings, find() returns the last. Empty strings are kept but not found. Without `with_find`,
  /// find() always returns kNone.
  explicit StringTable(const std::vector<std::string>& strings, bool with_find = true);

  std::size_t size() const { return ends_.size(); }
  std::size_t longest() const { return longest_; }  // bytes

  /// Requires: 0 <= number < size().
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
  std::vector<Slot> slots_;  // open addressing, size a power of two, at most half full
  std::size_t longest_ = 0;
};

/// Finds strings that occur at a given offset of a text: the longest, or all.
class ByteTrie {
 public:
  ByteTrie() { roots_.fill(kNone); }

  /// Replaces an equal string added before. Ignores an empty one.
  void add(std::string_view text, TokenId id);

  bool is_empty() const { return nodes_.empty(); }

  /// True if a string begins with this byte.
  bool can_begin(char byte) const { return roots_[static_cast<unsigned char>(byte)] != kNone; }

  struct Match {
    TokenId id = -1;         // -1: none
    std::size_t length = 0;  // bytes
  };

  /// The longest string at text[at] whose id `accept` returns true for.
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

  /// Calls visit(id, length) for every string at text[at], shortest first.
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
