#pragma once
// Digest: a 64-bit hash of byte strings (XXH3), equal on all machines. Not collision-resistant against an
// attacker.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace reprise {

std::uint64_t digest_of(std::span<const std::byte> bytes);

/// Hashes a sequence of items with their lengths, so that "ab", "c" and "a", "bc" differ.
class Digest {
 public:
  Digest& add(std::span<const std::byte> bytes) {
    return add(std::uint64_t{bytes.size()}).add(digest_of(bytes));
  }
  Digest& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  Digest& add(std::uint64_t number) {
    static_assert(std::endian::native == std::endian::little);
    const std::uint64_t both[] = {value_, number};
    value_ = digest_of(std::as_bytes(std::span(both)));
    return *this;
  }

  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace reprise
