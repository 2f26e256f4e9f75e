#pragma once
// StringTable: numbered strings in one block of memory, and the number of a string.
//
// Threading: immutable once built; const access from any thread.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace reprise::models
