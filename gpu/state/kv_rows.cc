#include "gpu/state/kv_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "gpu/state/kv_widening.h"

namespace reprise::gpu {
namespace {

constexpr std::uint16_t kNotANumber = 0x7fc0;  // bf16

/// Rounds to bf16 away from zero, so that no quotient exceeds the largest integer.
std::uint16_t scale_above(float value) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + 0xffffU) >> 16);
}
std::uint16_t scale_nearest(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

/// Returns the element of largest magnitude, the first of several, or a non-finite element if there is one.
float farthest(const float* block, std::size_t count) {
  float found = 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(block[i])) return block[i];
    if (std::abs(block[i]) > std::abs(found)) found = block[i];
  }
  return found;
}

/// Rounds value / scale to an integer in [least, most]; 0 if the scale is 0.
int number_of(float value, float scale, int least, int most) {
  if (scale == 0.0F) return 0;
  return std::clamp(static_cast<int>(std::nearbyint(value / scale)), least, most);
}

std::uint16_t store_block8(const float* block, std::size_t count, std::byte* to) {
  const float far = farthest(block, count);
  const bool finite = std::isfinite(far);
  const std::uint16_t scale = finite ? scale_above(std::abs(far) / 127.0F) : kNotANumber;
  for (std::size_t i = 0; i < kKvBlock; ++i) {
    const int number = !finite ? 1 : i < count ? number_of(block[i], widened_scale(scale), -127, 127) : 0;
    to[i] = static_cast<std::byte>(static_cast<std::int8_t>(number));
  }
  return scale;
}

std::uint16_t store_block4(const float* block, std::size_t count, std::byte* to) {
  const float far = farthest(block, count);
  const bool finite = std::isfinite(far);
  const std::uint16_t scale = finite ? scale_nearest(far / -8.0F) : kNotANumber;
  std::uint8_t numbers[kKvBlock];
  for (std::size_t i = 0; i < kKvBlock; ++i) {
    const int number = !finite ? 1 : i < count ? number_of(block[i], widened_scale(scale), -8, 7) : 0;
    numbers[i] = static_cast<std::uint8_t>(number + 8);
  }
  for (std::size_t i = 0; i < kKvBlock / 2; ++i) {
    to[i] = static_cast<std::byte>(numbers[i] | numbers[i + kKvBlock / 2] << 4);
  }
  return scale;
}

constexpr std::pair<KvType, std::string_view> kKvNames[] = {
    {KvType::kF32, "f32"}, {KvType::kBF16, "bf16"}, {KvType::kInt8, "int8"}, {KvType::kInt4, "int4"}};

}  // namespace

std::string_view name_of(KvType kv) {
  return kKvNames[static_cast<std::size_t>(kv)].second;
}

std::optional<KvType> kv_named(std::string_view name) {
  for (const auto& [kv, its_name] : kKvNames) {
    if (its_name == name) return kv;
  }
  return std::nullopt;
}

void store_quantized_row(KvType kv, const float* row, std::size_t elements, std::byte* to) {
  REPRISE_CHECK(is_quantized(kv), "the type of keys and values is not a quantized one");
  const std::size_t blocks = kv_blocks(elements);
  std::byte* numbers = to + blocks * sizeof(std::uint16_t);
  for (std::size_t b = 0; b < blocks; ++b) {
    const float* block = row + b * kKvBlock;
    const std::size_t count = std::min(kKvBlock, elements - b * kKvBlock);
    const std::uint16_t scale = kv == KvType::kInt8 ? store_block8(block, count, numbers + b * kKvBlock)
                                                    : store_block4(block, count, numbers + b * kKvBlock / 2);
    std::memcpy(to + b * sizeof(scale), &scale, sizeof(scale));
  }
}

void load_quantized_row(KvType kv, const std::byte* from, std::size_t elements, float* row) {
  REPRISE_CHECK(is_quantized(kv), "the type of keys and values is not a quantized one");
  if (kv == KvType::kInt8) {
    widen_row8(from, elements, row);
  } else {
    widen_row4(from, elements, row);
  }
}

}  // namespace reprise::gpu
