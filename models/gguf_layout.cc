#include "models/gguf_layout.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace reprise::models {
namespace {

// Within two units in the last place: what one exponential may differ from another.
bool nearly_equal(float a, float b) {
  if (a == b) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  const auto order = [](float x) {
    const auto bits = std::bit_cast<std::int32_t>(x);
    return bits < 0 ? std::int64_t{INT32_MIN} - bits : std::int64_t{bits};
  };
  return std::abs(order(a) - order(b)) <= 2;
}

// Rounded to the nearest number with `bits` bits of mantissa (the leading one included).
float round_to_bits(double value, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits));
}

float undo_negative_exp(float stored) {
  if (!(stored <= 0)) throw std::invalid_argument("-exp(A_log) is not negative");
  const double exact = std::log(-static_cast<double>(stored));
  if (!std::isfinite(exact)) return static_cast<float>(exact);
  for (const int bits : {8, 11}) {  // bf16, f16
    const float candidate = round_to_bits(exact, bits);
    if (nearly_equal(static_cast<float>(-std::exp(static_cast<double>(candidate))), stored)) return candidate;
  }
  return static_cast<float>(exact);
}

std::vector<float> widen(DType type, std::span<const std::byte> bytes) {
  if (!is_usable(type))
    throw std::invalid_argument("the type " + std::string(info(type).name) + " has no plain values");
  const std::size_t width = info(type).block_bytes;
  std::vector<float> out(bytes.size() / width);
  if (type == DType::kF32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * width, width);
    out[i] = type == DType::kF16 ? widen_f16(bits) : widen_bf16(bits);
  }
  return out;
}

// Copies one line of units into Hugging Face's order.
void reorder(const GgufLayout& layout, std::size_t unit_bytes, const std::byte* from, std::byte* to) {
  for (std::size_t b = 0; b < layout.batch; ++b) {
    for (std::size_t o = 0; o < layout.outer; ++o) {
      for (std::size_t i = 0; i < layout.inner; ++i) {
        const std::size_t source = (b * layout.outer + o) * layout.inner + i;
        const std::size_t target = (b * layout.inner + i) * layout.outer + o;
        std::memcpy(to + target * unit_bytes, from + source * unit_bytes, unit_bytes);
      }
    }
  }
}

std::vector<std::byte> undo_moves(const GgufLayout& layout, DType type, const Shape& shape,
                                  std::span<const std::byte> bytes) {
  std::vector<std::byte> out(bytes.begin(), bytes.end());
  if (layout.axis == GgufLayout::Axis::kNone || bytes.empty()) return out;
  const bool rows = layout.axis == GgufLayout::Axis::kRows;
  const std::uint64_t along = rows ? shape.front() : shape.back();
  if (layout.skip + layout.batch * layout.outer * layout.inner * layout.unit != along) {
    throw std::invalid_argument("the heads do not fill the tensor");
  }
  if (rows) {
    const std::size_t row = bytes.size() / along;
    reorder(layout, layout.unit * row, bytes.data() + layout.skip * row, out.data() + layout.skip * row);
    return out;
  }
  const DTypeInfo& block = info(type);
  if (layout.unit % block.block_size != 0 || layout.skip % block.block_size != 0) {
    throw std::invalid_argument("heads of " + std::to_string(layout.unit) +
                                " columns are not whole blocks of " + std::string(block.name));
  }
  const std::size_t line = along / block.block_size * block.block_bytes;
  const std::size_t skip = layout.skip / block.block_size * block.block_bytes;
  const std::size_t unit = layout.unit / block.block_size * block.block_bytes;
  for (std::size_t at = 0; at < bytes.size(); at += line) {
    reorder(layout, unit, bytes.data() + at + skip, out.data() + at + skip);
  }
  return out;
}

}  // namespace

float widen_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float widen_f16(std::uint16_t bits) {
  const bool negative = (bits & 0x8000u) != 0;
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  float value;
  if (exponent == 0x1f) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    value = std::ldexp(static_cast<float>(mantissa + 0x400), exponent - 25);
  }
  return negative ? -value : value;
}

UndoneTensor undo(const GgufLayout& layout, DType type, const Shape& shape,
                  std::span<const std::byte> bytes) {
  UndoneTensor out{type, undo_moves(layout, type, shape, bytes)};
  if (layout.values == GgufLayout::Values::kSame) return out;
  std::vector<float> values = widen(type, out.bytes);
  for (float& value : values) {
    value = layout.values == GgufLayout::Values::kPlusOne ? value - 1.0f : undo_negative_exp(value);
  }
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  out.type = DType::kF32;
  out.bytes.assign(first, first + values.size() * sizeof(float));
  return out;
}

}  // namespace reprise::models
