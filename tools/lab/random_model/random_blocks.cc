#include "tools/lab/random_model/random_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace reprise::tools {
namespace {

Draw normal_around(float mean, float scale) {
  return [=](Random& random) { return mean + scale * random.normal(); };
}

}  // namespace

float scale_for(const models::TensorSpec& spec, const models::ModelConfig& config) {
  const auto ends = [&](std::string_view end) { return spec.name.ends_with(end); };
  if (ends("embed_tokens.weight") || ends("lm_head.weight")) return 0.02F;
  const float scale = 1.0F / std::sqrt(static_cast<float>(spec.shape.back()));
  if (ends("o_proj.weight") || ends("out_proj.weight") || ends("down_proj.weight") || ends("down_proj")) {
    return scale / std::sqrt(2.0F * static_cast<float>(config.layers.size()));  // added to the residual
  }
  return scale;
}

Draw draw_for(const models::TensorSpec& spec, const models::ModelConfig& config) {
  const auto ends = [&](std::string_view end) { return spec.name.ends_with(end); };
  if (ends("A_log")) return [](Random& random) { return std::log(1.0F + 15.0F * random.uniform()); };
  if (ends("dt_bias")) {
    // Inverse softplus of steps from 0.001 to 0.1, log-uniform.
    return [](Random& random) {
      const float step = std::exp(std::log(0.001F) + random.uniform() * std::log(100.0F));
      return std::log(std::expm1(step));
    };
  }
  if (ends(".bias")) return normal_around(0.0F, 0.01F);
  if (ends("linear_attn.norm.weight")) return normal_around(1.0F, 0.05F);
  if (ends("norm.weight")) return normal_around(1.0F - config.final_norm.kind.offset, 0.05F);
  return normal_around(0.0F, scale_for(spec, config));
}

namespace {

using models::DType;

void put_f16(std::byte* to, float value) {
  const std::uint16_t bits = to_f16(value);
  std::memcpy(to, &bits, sizeof bits);
}

void put_bits(Random& random, std::byte* to, std::size_t size) {
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t bits = random.next();
    std::memcpy(to + i, &bits, std::min<std::size_t>(8, size - i));
  }
}

/// Returns a value between 0.75 and 1.25, so that scales vary by block.
float jitter(Random& random) {
  return 0.75F + 0.5F * random.uniform();
}

float random_sign(Random& random) {
  return (random.next() & 1) != 0 ? 1.0F : -1.0F;
}

// Returns the root mean square of uniform integers low ... high.
float rms(int low, int high) {
  double sum = 0;
  for (int i = low; i <= high; ++i) sum += double(i) * i;
  return static_cast<float>(std::sqrt(sum / (high - low + 1)));
}

/// Packs the eight 6-bit scales and minima of Q4_K and Q5_K into 12 bytes.
void put_scales_and_minima(std::byte* to, const std::array<int, 8>& scale,
                           const std::array<int, 8>& minimum) {
  std::array<int, 12> bytes{};
  for (int j = 0; j < 4; ++j) {
    bytes[j] = scale[j] | (scale[j + 4] >> 4) << 6;
    bytes[j + 4] = minimum[j] | (minimum[j + 4] >> 4) << 6;
    bytes[j + 8] = (scale[j + 4] & 15) | (minimum[j + 4] & 15) << 4;
  }
  for (int j = 0; j < 12; ++j) to[j] = static_cast<std::byte>(bytes[j]);
}

// Q4_K and Q5_K: d * s * q - dmin * m, q in [0, most]. With m = s and dmin = d * most / 2 the mean is 0.
void put_scaled_with_minima(std::byte* block, float deviation, int most, Random& random) {
  const float typical = 47.5F * rms(0, most) / 2;  // mean of s times about the standard deviation of q
  const float d = deviation / typical * jitter(random);
  put_f16(block, d);
  put_f16(block + 2, d * static_cast<float>(most) / 2);
  std::array<int, 8> scales{};
  for (int& scale : scales) scale = 32 + static_cast<int>(random.next() & 31);
  put_scales_and_minima(block + 4, scales, scales);
}

void fix_scales(DType type, float deviation, Random& random, std::byte* block) {
  const float scale = deviation * jitter(random);
  const auto signed_scale = [&](float typical) { return scale / typical * random_sign(random); };
  switch (type) {
    case DType::kQ8_0:
      return put_f16(block, scale / rms(-128, 127));
    case DType::kQ4_0:
      return put_f16(block, signed_scale(rms(-8, 7)));
    case DType::kQ5_0:
      return put_f16(block, signed_scale(rms(-16, 15)));
    case DType::kQ4_1:
    case DType::kQ5_1: {  // d * q + m
      const int most = type == DType::kQ4_1 ? 15 : 31;
      const float d = scale / (rms(0, most) / 2);
      put_f16(block, d);
      return put_f16(block + 2, -d * static_cast<float>(most) / 2);
    }
    case DType::kQ2_K: {  // d * s * q - dmin * m, with s and m in each scale byte
      for (int j = 0; j < 16; ++j) {
        const int s = 8 + static_cast<int>(random.next() & 7);
        block[j] = static_cast<std::byte>(s | s << 4);
      }
      const float d = scale / (11.5F * 1.118F);
      put_f16(block + 80, d);
      return put_f16(block + 82, 1.5F * d);
    }
    case DType::kQ3_K:
      return put_f16(block + 108, scale / (rms(-32, 31) * rms(-4, 3)));
    case DType::kQ4_K:
      return put_scaled_with_minima(block, deviation, 15, random);
    case DType::kQ5_K:
      return put_scaled_with_minima(block, deviation, 31, random);
    case DType::kQ6_K:
      return put_f16(block + 208, scale / (rms(-128, 127) * rms(-32, 31)));
    case DType::kIQ4_NL:
      return put_f16(block, signed_scale(74.0F));  // typical size of the type's sixteen values
    case DType::kIQ4_XS:
      return put_f16(block, scale / (rms(-32, 31) * 74.0F));
    case DType::kMXFP4: {  // a power of two times half of 0, 1, 2, 3, 4, 6, 8, 12
      const int exponent = static_cast<int>(std::lround(std::log2(deviation / 2.9F)));
      block[0] = static_cast<std::byte>(std::max(1, 127 + exponent));
      return;
    }
    default:
      REPRISE_CHECK(false, "the type has no generator of random blocks");
  }
}

template <class Word>
void fill_words(std::span<std::byte> blocks, float deviation, Random& random, Word (*round)(float)) {
  for (std::size_t i = 0; i + sizeof(Word) <= blocks.size(); i += sizeof(Word)) {
    const Word word = round(deviation * random.normal());
    std::memcpy(blocks.data() + i, &word, sizeof(Word));
  }
}

}  // namespace

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

std::uint16_t to_f16(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::min(std::abs(value), 65504.0F);
  if (size < 0x1p-14F) return sign | static_cast<std::uint16_t>(std::lround(size * 0x1p24F));
  int exponent = 0;
  const float mantissa = std::frexp(size, &exponent);  // in [0.5, 1)
  const auto rounded = static_cast<std::uint32_t>(std::lround(mantissa * 2048));
  // 2048 carries correctly into the exponent.
  return static_cast<std::uint16_t>(sign | ((static_cast<std::uint32_t>(exponent + 13) << 10) + rounded));
}

bool has_random_blocks(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kMXFP4:
      return true;
    default:
      return false;
  }
}

void random_blocks(DType type, float deviation, Random& random, std::span<std::byte> blocks) {
  if (type == DType::kF32) {
    return fill_words<float>(blocks, deviation, random, [](float value) { return value; });
  }
  if (type == DType::kF16) return fill_words<std::uint16_t>(blocks, deviation, random, to_f16);
  if (type == DType::kBF16) return fill_words<std::uint16_t>(blocks, deviation, random, to_bf16);
  put_bits(random, blocks.data(), blocks.size());
  const std::size_t size = models::info(type).block_bytes;
  for (std::size_t at = 0; at + size <= blocks.size(); at += size) {
    fix_scales(type, deviation, random, blocks.data() + at);
  }
}

std::uint8_t to_e4m3(float value) {
  constexpr float kMax = 448;
  constexpr int kMin = -6;  // exponent below which steps do not shrink
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::min(std::abs(value), kMax);
  int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), kMin) : kMin;
  auto eighths =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));  // 8 ... 16, less if subnormal
  if (eighths == 16) {
    eighths = 8;
    ++exponent;
  }
  const int biased = eighths < 8 ? 0 : exponent + 7;
  return static_cast<std::uint8_t>(sign | biased << 3 | (eighths & 7));
}

}  // namespace reprise::tools
