#pragma once
// Digest: 64 bits that stand for bytes of any number (XXH3). Equal bytes give equal digests on every machine;
// different ones differ but for chance. It is no defence against somebody who looks for two that agree.
//
// Threading: plain values and pure functions.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace reprise {

std::uint64_t digest_of(std::span<const std::byte> bytes);

/// Of several things, one after the other. What is added has its length added as well, so that "ab", "c" and
/// "a", "bc" differ.
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
