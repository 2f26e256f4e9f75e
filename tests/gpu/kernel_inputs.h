#pragma once
// Random inputs for kernel tests, and the kernel tables this machine can run.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu/cpu/tables.h"
#include "gpu/kernels.h"
#include "gpu/state/kv_rows.h"

namespace reprise::gpu::test {

inline constexpr double kUlp = 0x1p-23;  // ulp of 1.0F

inline const Kernels& plain() {
  return cpu_kernels(Isa::kPlain);
}

/// All tables that can run here except the plain one.
inline std::vector<const Kernels*> fast_tables() {
  std::vector<const Kernels*> tables;
  for (const Isa isa : available_isas()) {
    if (isa != Isa::kPlain) tables.push_back(&cpu_kernels(isa));
  }
  return tables;
}

inline std::vector<const Kernels*> all_tables() {
  std::vector<const Kernels*> tables = fast_tables();
  tables.push_back(&plain());
  return tables;
}

inline std::string label(const Kernels& table) {
  const bool is_own = is_available(table.isa) && &cpu_kernels(table.isa) == &table;
  return std::string(name_of(table.isa)) + (is_own ? "" : " of a test");
}

template <class T>
testing::AssertionResult same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << "sizes " << a.size() << " and " << b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) {
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Requires: finite.
inline float from_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                        : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

struct OwnedMatrix {
  const WeightFormat* format;
  std::size_t rows;
  std::size_t columns;
  std::vector<float> values;
  std::vector<std::uint16_t> halves;  // empty for f32

  WeightView view() const {
    const void* data = format == &kF32Format ? static_cast<const void*>(values.data()) : halves.data();
    return {.format = format, .rows = rows, .columns = columns, .data = data};
  }
};

class RowsForProduct {
 public:
  RowsForProduct(const Product& product, const std::vector<float>& x, std::size_t depth)
      : x_(x), stride_(depth * sizeof(float)) {
    if (product.activations->prepare == nullptr) return;
    stride_ = product.activations->row_bytes(depth);
    prepared_.resize(x.size() / depth * stride_ / sizeof(float));
    product.activations->prepare(x.data(), x.size() / depth, depth,
                                 reinterpret_cast<std::byte*>(prepared_.data()));
  }
  const void* row(std::size_t index) const {
    const std::vector<float>& rows = prepared_.empty() ? x_ : prepared_;
    return reinterpret_cast<const std::byte*>(rows.data()) + index * stride_;
  }

 private:
  const std::vector<float>& x_;
  std::size_t stride_;  // bytes
  std::vector<float> prepared_;
};

/// True if the bf16 GEMM takes x as sums of two bf16 instead of unchanged.
inline bool takes_two_parts(const FormatKernels& bf16) {
  return bf16.fast.activations->prepare != nullptr;
}

/// Rows of x as pairs of bf16 for a GEMM (gpu/cpu/two_bf16.h).
struct TwoParts {
  std::size_t group;   // elements per group: their high parts, then their low parts
  std::size_t stride;  // elements from row to row
  std::vector<std::uint16_t> parts;

  TwoParts(const Product& product, const std::vector<float>& x, std::size_t depth)
      : group(product.activations->row_bytes(1) / 4),
        stride(product.activations->row_bytes(depth) / 2),
        parts(x.size() / depth * stride) {
    product.activations->prepare(x.data(), x.size() / depth, depth,
                                 reinterpret_cast<std::byte*>(parts.data()));
  }

  const std::uint16_t* row(std::size_t index) const { return parts.data() + index * stride; }
  float high(std::size_t index, std::size_t k) const {
    return from_bf16(row(index)[k / group * 2 * group + k % group]);
  }
  float low(std::size_t index, std::size_t k) const {
    return from_bf16(row(index)[k / group * 2 * group + group + k % group]);
  }
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}

  /// Returns a value in [least, most].
  std::size_t size(std::size_t least, std::size_t most) { return least + bits_() % (most - least + 1); }
  bool coin() { return (bits_() & 1) != 0; }

  std::vector<float> floats(std::size_t count, float scale = 1.0F) {
    std::normal_distribution<float> normal(0.0F, scale);
    std::vector<float> values(count);
    for (float& value : values) value = normal(bits_);
    return values;
  }
  std::vector<float> between(std::size_t count, float least, float most) {
    std::uniform_real_distribution<float> uniform(least, most);
    std::vector<float> values(count);
    for (float& value : values) value = uniform(bits_);
    return values;
  }
  /// Values of all magnitudes, including zeros and denormals.
  std::vector<float> odd_floats(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) {
      const auto sign = static_cast<std::uint32_t>(bits_() & 1) << 31;
      const auto fraction = static_cast<std::uint32_t>(bits_() & 0x7fffff);
      const std::uint32_t exponents[] = {0, 1, 100, 120, 127, 130, 150};
      const std::uint32_t exponent = exponents[bits_() % 7];
      value = std::bit_cast<float>(sign | exponent << 23 | (bits_() % 5 == 0 ? 0 : fraction));
    }
    return values;
  }

  OwnedMatrix matrix(const WeightFormat& format, std::size_t rows, std::size_t columns) {
    OwnedMatrix out{
        .format = &format, .rows = rows, .columns = columns, .values = floats(rows * columns), .halves = {}};
    if (&format == &kF32Format) return out;
    for (float& value : out.values) {
      if (&format == &kBF16Format) {
        out.halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
        value = from_bf16(out.halves.back());
      } else {
        // any finite exponent, including denormals
        std::uint64_t half = bits_() % 2 << 15;
        half |= bits_() % 18 << 10;
        half |= bits_() & 1023;
        out.halves.push_back(static_cast<std::uint16_t>(half));
        value = from_f16(out.halves.back());
      }
    }
    return out;
  }

 private:
  std::mt19937_64 bits_;
};

inline constexpr KvType kAllKvTypes[] = {KvType::kF32, KvType::kBF16, KvType::kInt8, KvType::kInt4};

/// Keys and values of one sequence and head in pages: K [kPageTokens, head_dim], then V.
struct PagedHead {
  std::vector<std::vector<std::byte>> pages;
  std::vector<const std::byte*> pointers;
  std::vector<float> k;  // [length, head_dim], as stored
  std::vector<float> v;
  std::size_t v_offset = 0;
  KvType kv = KvType::kF32;

  PagedHead(Random& random, std::size_t length, std::size_t head_dim, KvType type)
      : k(random.floats(length * head_dim)), v(random.floats(length * head_dim)), kv(type) {
    store(length, head_dim);
  }

  /// Call after changing k or v.
  void store(std::size_t length, std::size_t head_dim) {
    const std::size_t row_bytes = kv_row_bytes(kv, head_dim);
    v_offset = kPageTokens * row_bytes;
    pages.assign((length + kPageTokens - 1) / kPageTokens, std::vector<std::byte>(2 * v_offset));
    pointers.clear();
    for (const auto& page : pages) pointers.push_back(page.data());
    const auto put = [&](std::vector<float>& values, std::size_t offset) {
      for (std::size_t position = 0; position * head_dim < values.size(); ++position) {
        float* row = values.data() + position * head_dim;
        std::byte* to = pages[position / kPageTokens].data() + offset + position % kPageTokens * row_bytes;
        if (kv == KvType::kF32) {
          std::memcpy(to, row, row_bytes);
        } else if (kv == KvType::kBF16) {
          for (std::size_t i = 0; i < head_dim; ++i) {
            const auto half = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(row[i]) >> 16);
            row[i] = from_bf16(half);
            std::memcpy(to + i * sizeof(half), &half, sizeof(half));
          }
        } else {
          store_quantized_row(kv, row, head_dim, to);
          load_quantized_row(kv, to, head_dim, row);
        }
      }
    };
    put(k, 0);
    put(v, v_offset);
  }

  AttentionRows row(const std::vector<float>& q, std::vector<float>& out, std::size_t head_dim,
                    std::size_t length) const {
    return {.q = q.data(),
            .out = out.data(),
            .group = q.size() / head_dim,
            .head_dim = head_dim,
            .length = length,
            .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
            .pages = pointers.data(),
            .k_offset = 0,
            .v_offset = v_offset,
            .kv = kv};
  }
};

/// Inputs of the gated delta rule for one head, similar to a model's: q and k of unit length, decays below
/// one.
struct DeltaInputs {
  std::size_t key_dim;
  std::size_t value_dim;
  std::size_t tokens;
  std::size_t stride;
  std::vector<float> state, rows, g, beta;

  DeltaInputs(Random& random, std::size_t keys, std::size_t values, std::size_t count)
      : key_dim(keys),
        value_dim(values),
        tokens(count),
        stride(2 * keys + values + 5),
        state(random.floats(keys * values)),
        rows(random.floats(count * stride)),
        g(random.between(2 * count, -3.0F, 0.0F)),
        beta(random.between(2 * count, 0.0F, 1.0F)) {
    for (std::size_t t = 0; t < count; ++t) {
      float* q = rows.data() + t * stride;
      plain().l2_norm(q, 1e-6F, 1.0F, q, 2, keys, keys);
    }
  }

  /// Runs tokens [begin, end) on state `to`; `out` has rows of value_dim for all tokens.
  void run(const Kernels& kernels, std::vector<float>& to, std::vector<float>& out, std::size_t begin,
           std::size_t end) const {
    kernels.delta_rule({.state = to.data(),
                        .key_dim = key_dim,
                        .value_dim = value_dim,
                        .tokens = end - begin,
                        .q = rows.data() + begin * stride,
                        .k = rows.data() + begin * stride + key_dim,
                        .v = rows.data() + begin * stride + 2 * key_dim,
                        .stride = stride,
                        .g = g.data() + 2 * begin,
                        .beta = beta.data() + 2 * begin,
                        .gate_stride = 2,
                        .out = out.data() + begin * value_dim,
                        .out_stride = value_dim});
  }
};

/// One head among others: input rows contain more than its x, B and C.
struct Mamba2Inputs {
  std::size_t state_size;
  std::size_t head_dim;
  std::size_t tokens;
  std::size_t stride;
  float dt_scale, dt_bias, dt_min, dt_max, decay, skip;
  std::vector<float> state, rows, step;

  Mamba2Inputs(Random& random, std::size_t states, std::size_t head, std::size_t count)
      : state_size(states),
        head_dim(head),
        tokens(count),
        stride(2 * states + head + 5),
        dt_scale(random.between(1, 0.5F, 1.5F)[0]),
        dt_bias(random.between(1, -2.0F, 2.0F)[0]),
        dt_min(0.01F),
        dt_max(2.5F),
        decay(random.between(1, 0.1F, 8.0F)[0]),
        skip(random.between(1, -1.0F, 1.0F)[0]),
        state(random.floats(states * head)),
        rows(random.floats(count * stride)),
        step(random.between(3 * count, -6.0F, 4.0F)) {}

  /// Runs tokens [begin, end) on state `to`; `out` has rows of head_dim for all tokens.
  void run(const Kernels& kernels, std::vector<float>& to, std::vector<float>& out, std::size_t begin,
           std::size_t end) const {
    const float* first = rows.data() + begin * stride;
    kernels.mamba2({.state = to.data(),
                    .state_size = state_size,
                    .head_dim = head_dim,
                    .tokens = end - begin,
                    .x = first,
                    .b = first + head_dim,
                    .c = first + head_dim + state_size,
                    .stride = stride,
                    .step = step.data() + 3 * begin,
                    .step_stride = 3,
                    .dt_scale = dt_scale,
                    .dt_bias = dt_bias,
                    .dt_min = dt_min,
                    .dt_max = dt_max,
                    .decay = decay,
                    .skip = skip,
                    .y = out.data() + begin * head_dim,
                    .y_stride = head_dim});
  }
};

}  // namespace reprise::gpu::test
