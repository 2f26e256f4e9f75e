#include "models/files/gguf_layout.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/check.h"
#include "gpu/kernels.h"

namespace reprise::models {
namespace {

// True if within 2 ulp, by which implementations of exp may differ.
bool nearly_equal(float a, float b) {
  if (a == b) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  const auto order = [](float x) {
    const auto bits = std::bit_cast<std::int32_t>(x);
    return bits < 0 ? std::int64_t{INT32_MIN} - bits : std::int64_t{bits};
  };
  return std::abs(order(a) - order(b)) <= 2;
}

// Rounds to `bits` bits of mantissa, including the leading one.
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

void undo_moves(const GgufLayout& layout, DType type, const Shape& shape, std::span<const std::byte> bytes,
                std::byte* out) {
  if (layout.axis == GgufLayout::Axis::kNone) {
    std::memcpy(out, bytes.data(), bytes.size());
    return;
  }
  const bool rows = layout.axis == GgufLayout::Axis::kRows;
  const std::uint64_t along = rows ? shape.front() : shape.back();
  if (layout.skip + layout.batch * layout.outer * layout.inner * layout.unit != along) {
    throw std::invalid_argument("the heads do not fill the tensor");
  }
  // A line is one run along the axis: the whole tensor for rows, each row for columns.
  const DTypeInfo& block = info(type);
  const std::size_t line = rows ? bytes.size() : along / block.block_size * block.block_bytes;
  if (!can_move(layout, type)) {
    throw std::invalid_argument("heads of " + std::to_string(layout.unit) +
                                " columns are not whole blocks of " + std::string(block.name));
  }
  const auto bytes_of = [&](std::size_t elements) {
    return rows ? line / along * elements : elements / block.block_size * block.block_bytes;
  };
  const std::size_t skip = bytes_of(layout.skip);
  const std::size_t unit = bytes_of(layout.unit);
  for (std::size_t at = 0; at < bytes.size(); at += line) {
    std::memcpy(out + at, bytes.data() + at, skip);
    reorder(layout, unit, bytes.data() + at + skip, out + at + skip);
  }
}

}  // namespace

bool can_move(const GgufLayout& layout, DType type) {
  const std::size_t block = info(type).block_size;
  return layout.axis != GgufLayout::Axis::kColumns || (layout.unit % block == 0 && layout.skip % block == 0);
}

std::vector<std::uint32_t> file_columns(const GgufLayout& layout, std::size_t columns) {
  REPRISE_CHECK(layout.skip + layout.batch * layout.outer * layout.inner * layout.unit == columns,
                "the layout does not cover the columns of the row");
  std::vector<std::uint32_t> out(columns);
  std::iota(out.begin(), out.end(), 0U);
  const std::size_t units = layout.batch * layout.outer * layout.inner;
  for (std::size_t index = 0; index < units; ++index) {  // [batch][outer][inner]
    const std::size_t i = index % layout.inner;
    const std::size_t o = index / layout.inner % layout.outer;
    const std::size_t b = index / layout.inner / layout.outer;
    const std::size_t head = (b * layout.inner + i) * layout.outer + o;
    for (std::size_t j = 0; j < layout.unit; ++j) {
      out[layout.skip + index * layout.unit + j] =
          static_cast<std::uint32_t>(layout.skip + head * layout.unit + j);
    }
  }
  return out;
}

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
  std::shared_ptr<std::byte[]> moved(new std::byte[bytes.size()]);
  if (!bytes.empty()) undo_moves(layout, type, shape, bytes, moved.get());
  if (layout.values == GgufLayout::Values::kSame) return {type, bytes.size(), std::move(moved)};

  const gpu::WeightFormat* format = format_of(type);
  if (format == nullptr) {
    throw std::invalid_argument("the type " + std::string(info(type).name) + " has no plain values");
  }
  const gpu::WeightView line{.format = format,
                             .rows = 1,
                             .columns = bytes.size() / format->block_bytes * format->block_size,
                             .data = moved.get()};
  std::shared_ptr<std::byte[]> changed(new std::byte[line.columns * sizeof(float)]);
  auto* values = reinterpret_cast<float*>(changed.get());
  gpu::cpu_kernels(gpu::Isa::kPlain).format(*format).widen_row(line, 0, values);
  for (std::size_t i = 0; i < line.columns; ++i) {
    values[i] =
        layout.values == GgufLayout::Values::kPlusOne ? values[i] - 1.0f : undo_negative_exp(values[i]);
  }
  return {DType::kF32, line.columns * sizeof(float), std::move(changed)};
}

}  // namespace reprise::models
