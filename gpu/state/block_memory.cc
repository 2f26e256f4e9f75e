#include "gpu/state/block_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/machine.h"

namespace reprise::gpu {
namespace {

// A copy that computes a checksum and checks for finite values in the same pass, at nearly the speed of
// memcpy. The checksum combines sums of 64-bit words and sums of these sums (as Fletcher's), in eight lanes.

constexpr std::size_t kBlock = 64;  // bytes per iteration
constexpr std::uint32_t kExponent = 0x7f800000;

using Words = std::uint64_t __attribute__((vector_size(16)));
using Halves = std::uint32_t __attribute__((vector_size(16)));

struct Sums {
  std::array<Words, kBlock / 16> sum{};
  std::array<Words, kBlock / 16> weighted{};  // sums of sums: detect reordered words
  Halves infinite{};                          // nonzero: a lane had the exponent of inf and NaN

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

/// Requires: `bytes` is a multiple of 4; `to` and `from` do not overlap. If !kCopy, nothing is written.
template <bool kCopy>
CopyFigures look_and_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
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

constexpr std::align_val_t kAligned{BlockMemory::kAlignment};

void copy_all(std::span<const BlockMemory::Copy> copies) {
  for (const BlockMemory::Copy& copy : copies) {
    if (copy.bytes != 0) std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

}  // namespace

std::byte* HostMemory::take(std::size_t bytes) {
  if (bytes < kMapped) return static_cast<std::byte*>(::operator new(bytes, kAligned, std::nothrow));
  void* block =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return block == MAP_FAILED ? nullptr : static_cast<std::byte*>(block);
}

void HostMemory::give(std::byte* block, std::size_t bytes) {
  if (bytes < kMapped) {
    ::operator delete(block, kAligned);
  } else {
    REPRISE_CHECK(munmap(block, bytes) == 0, "munmap failed: the block was not mapped");
  }
}

void HostMemory::fill(std::byte* to, int value, std::size_t bytes) {
  if (bytes != 0) std::memset(to, value, bytes);
}

void HostMemory::copy(std::span<const Copy> copies, std::span<CopyFigures> figures) {
  for (std::size_t i = 0; i < copies.size(); ++i) {
    figures[i] = look_and_copy<true>(copies[i].to, copies[i].from, copies[i].bytes);
  }
}

CopyFigures HostMemory::look_at(const std::byte* bytes, std::size_t size) {
  return look_and_copy<false>(const_cast<std::byte*>(bytes), bytes, size);
}

void HostMemory::look_at_all(std::span<const std::byte* const> blocks, std::size_t size,
                             std::span<CopyFigures> figures) {
  constexpr std::size_t kShare = 32 << 20;  // bytes per thread, at least: some milliseconds
  constexpr std::size_t kMaxThreads = 8;    // these read nearly as fast as the memory allows
  static const std::size_t kProcessors = available_processors();
  const std::size_t count = std::clamp<std::size_t>(
      std::min<std::size_t>(blocks.size() * size / kShare, kProcessors), 1, kMaxThreads);
  std::atomic<std::size_t> next = 0;  // relaxed: hands out indices; join() publishes the figures
  const auto look = [&] {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < blocks.size();) {
      figures[i] = look_at(blocks[i], size);
    }
  };
  std::vector<std::jthread> helpers;
  helpers.reserve(count - 1);
  try {
    while (helpers.size() + 1 < count) helpers.emplace_back(look);
  } catch (const std::system_error&) {  // no more threads: those that there are read it all
  }
  look();
}

void HostMemory::to_host(std::span<const Copy> copies) {
  copy_all(copies);
}

void HostMemory::from_host(std::span<const Copy> copies) {
  copy_all(copies);
}

BlockMemory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace reprise::gpu
