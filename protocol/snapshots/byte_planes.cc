#include "protocol/snapshots/byte_planes.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>

namespace reprise::protocol::snapshots {
namespace {

constexpr std::size_t kSampled = 64u << 10;  // bytes examined to guess the width of a value
constexpr std::uint32_t kAsItIs = 1u << 31;
constexpr int kLevel = 1;
constexpr double kWorthBits = 7.6;  // entropy in bits per byte above which a plane is not compressed

/// Returns the entropy of a byte plane in bits per byte, from the histogram of its values.
double bits_of_plane(std::span<const std::byte> plain, std::size_t width, std::size_t plane) {
  std::array<std::uint32_t, 256> counts{};
  std::size_t total = 0;
  for (std::size_t i = plane; i < plain.size(); i += width, ++total)
    ++counts[static_cast<std::uint8_t>(plain[i])];
  double bits = 0;
  for (const std::uint32_t count : counts) {
    if (count > 0) bits -= count * std::log2(static_cast<double>(count) / static_cast<double>(total));
  }
  return total == 0 ? 0 : bits / static_cast<double>(total);
}

/// Returns bytes from the middle, which represent the data better than the beginning.
std::span<const std::byte> sample_of(std::span<const std::byte> plain) {
  if (plain.size() <= kSampled) return plain;
  return plain.subspan((plain.size() - kSampled) / 2 & ~std::size_t{3}, kSampled);
}

std::size_t width_of_numbers(std::span<const std::byte> sample) {
  std::size_t best = 1;
  double least = 9;
  for (const std::size_t width : {1U, 2U, 4U}) {
    double bits = 0;
    for (std::size_t plane = 0; plane < width; ++plane) bits += bits_of_plane(sample, width, plane);
    bits /= static_cast<double>(width);
    if (bits < least - 0.05) {
      least = bits;
      best = width;
    }
  }
  return best;
}

template <std::size_t kWidth>
void take_plane(std::span<const std::byte> plain, std::size_t plane, std::span<std::byte> to) {
  const std::byte* from = plain.data() + plane;
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[kWidth * i];
}
void take_plane(std::span<const std::byte> plain, std::size_t width, std::size_t plane,
                std::span<std::byte> to) {
  if (width == 1) return take_plane<1>(plain, plane, to);
  if (width == 2) return take_plane<2>(plain, plane, to);
  take_plane<4>(plain, plane, to);
}

template <std::size_t kWidth>
void join_planes(const std::array<const std::byte*, 4>& planes, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t plane = 0; plane < kWidth; ++plane) to[kWidth * i + plane] = planes[plane][i];
  }
}

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

std::optional<std::vector<std::byte>> pack_numbers(std::span<const std::byte> plain) {
  if (plain.empty() || plain.size() > kMaxPacked) return std::nullopt;
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  if (!context) return std::nullopt;
  const auto sample = sample_of(plain);
  const std::size_t width = width_of_numbers(sample);
  const std::size_t count = plain.size() / width;
  const std::size_t most = plain.size() - plain.size() / 20;
  std::vector<std::byte> packed(1 + width * (4 + ZSTD_compressBound(count)) + width);
  std::vector<std::byte> plane(count);
  packed[0] = static_cast<std::byte>(width);
  std::size_t end = 1;
  for (std::size_t i = 0; i < width; ++i) {
    take_plane(plain, width, i, plane);
    std::byte* const to = packed.data() + end + 4;
    std::size_t length = count;
    if (bits_of_plane(sample, width, i) < kWorthBits) {
      length = ZSTD_compressCCtx(context.get(), to, packed.size() - end - 4, plane.data(), count, kLevel);
      if (ZSTD_isError(length) != 0) length = count;
    }
    auto stated = static_cast<std::uint32_t>(length);
    if (length >= count) {
      length = count;
      stated = static_cast<std::uint32_t>(count) | kAsItIs;
      std::memcpy(to, plane.data(), count);
    }
    std::memcpy(packed.data() + end, &stated, 4);
    end += 4 + length;
    if (end > most) return std::nullopt;
  }
  const std::size_t rest = plain.size() - width * count;
  std::memcpy(packed.data() + end, plain.data() + width * count, rest);
  packed.resize(end + rest);
  return packed.size() <= most ? std::optional(std::move(packed)) : std::nullopt;
}

bool unpack_numbers(std::span<const std::byte> packed, std::span<std::byte> plain) {
  if (packed.empty() || plain.size() > kMaxPacked) return false;
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (!context) return false;
  const auto width = static_cast<std::size_t>(packed[0]);
  if (width != 1 && width != 2 && width != 4) return false;
  const std::size_t count = plain.size() / width;
  std::vector<std::byte> opened(width * count);
  std::array<const std::byte*, 4> planes{};
  packed = packed.subspan(1);
  for (std::size_t i = 0; i < width; ++i) {
    std::uint32_t stated = 0;
    if (packed.size() < 4) return false;
    std::memcpy(&stated, packed.data(), 4);
    packed = packed.subspan(4);
    const std::size_t length = stated & ~kAsItIs;
    if (packed.size() < length) return false;
    if ((stated & kAsItIs) != 0) {
      if (length != count) return false;
      planes[i] = packed.data();
    } else {
      std::byte* const to = opened.data() + i * count;
      if (ZSTD_decompressDCtx(context.get(), to, count, packed.data(), length) != count) return false;
      planes[i] = to;
    }
    packed = packed.subspan(length);
  }
  if (packed.size() != plain.size() - width * count) return false;
  if (width == 1) join_planes<1>(planes, count, plain.data());
  if (width == 2) join_planes<2>(planes, count, plain.data());
  if (width == 4) join_planes<4>(planes, count, plain.data());
  std::copy(packed.begin(), packed.end(), plain.end() - static_cast<std::ptrdiff_t>(packed.size()));
  return true;
}

}  // namespace reprise::protocol::snapshots
