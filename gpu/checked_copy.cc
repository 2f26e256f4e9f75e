#include "gpu/checked_copy.h"

#include <array>
#include <cstring>

namespace reprise::gpu {
namespace {

constexpr std::size_t kBlock = 64;  // bytes of one round
constexpr std::uint32_t kExponent = 0x7f800000;

using Words = std::uint64_t __attribute__((vector_size(16)));
using Halves = std::uint32_t __attribute__((vector_size(16)));

struct Sums {
  std::array<Words, kBlock / 16> sum{};
  std::array<Words, kBlock / 16> weighted{};  // sums of sums: a word in another place counts otherwise
  Halves infinite{};                          // all ones where an exponent was

  template <bool kCopy>
  void add(std::byte* to, const std::byte* from) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      Words words;
      std::memcpy(&words, from + i * 16, 16);
      if constexpr (kCopy) std::memcpy(to + i * 16, &words, 16);
      sum[i] += words;
      weighted[i] += sum[i];
      const Halves halves = reinterpret_cast<Halves>(words);
      infinite |= reinterpret_cast<Halves>((halves & kExponent) == kExponent);
    }
  }

  CopyFigures figures(std::size_t bytes) const {
    CopyFigures result{.checksum = bytes, .finite = true};
    for (std::size_t i = 0; i < sum.size(); ++i) {
      for (int lane = 0; lane < 2; ++lane) {
        constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
        result.checksum = (result.checksum ^ sum[i][lane]) * kOdd;
        result.checksum = (result.checksum ^ (result.checksum >> 32) ^ weighted[i][lane]) * kOdd;
      }
    }
    for (int lane = 0; lane < 4; ++lane) result.finite &= infinite[lane] == 0;
    return result;
  }
};

template <bool kCopy>
CopyFigures run(std::byte* to, const std::byte* from, std::size_t bytes) {
  Sums sums;
  const std::size_t whole = bytes / kBlock * kBlock;
  for (std::size_t at = 0; at < whole; at += kBlock) sums.add<kCopy>(to + at, from + at);
  if (whole < bytes) {
    std::array<std::byte, kBlock> rest{};
    std::memcpy(rest.data(), from + whole, bytes - whole);
    sums.add<false>(nullptr, rest.data());
    if constexpr (kCopy) std::memcpy(to + whole, rest.data(), bytes - whole);
  }
  return sums.figures(bytes);
}

}  // namespace

CopyFigures checked_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  return run<true>(to, from, bytes);
}

CopyFigures look_at(const std::byte* bytes, std::size_t size) {
  return run<false>(const_cast<std::byte*>(bytes), bytes, size);
}

}  // namespace reprise::gpu
