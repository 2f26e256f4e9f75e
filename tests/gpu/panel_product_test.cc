// Panel GEMMs of x86-64 (gpu/cpu/formats/panel_product.h): their order of summation, implemented again, for depths
// and outputs with full and partial blocks and groups. Nothing to test on other processors.

#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {
namespace {

/// Sums blocks of 256 elements of k, each from zero, and adds the block sums in order.
float promised_sum(const float* x, const float* w, std::size_t depth) {
  float total = 0;
  for (std::size_t block = 0; block < depth; block += 256) {
    float sum = 0;
    for (std::size_t k = block; k < std::min(depth, block + 256); ++k) sum = std::fma(x[k], w[k], sum);
    total = block == 0 ? sum : total + sum;
  }
  return total;
}

bool is_by_panels(const Kernels& table, const FormatKernels& format) {
  return table.isa >= Isa::kAvx2 && format.has_fast() && format.fast.activations == &kAsF32;
}

TEST(PanelProduct, HasThePromisedOrder) {
  Random random(1);
  for (const Kernels* table : all_tables()) {
    for (const WeightFormat* format : {&kF32Format, &kF16Format, &kBF16Format}) {
      const FormatKernels& kernels = table->format(*format);
      if (!is_by_panels(*table, kernels)) continue;
      for (const std::size_t depth : {1, 33, 256, 530}) {
        for (const std::size_t outputs : {1, 17, 150}) {
          for (const std::size_t m : {1, 3, 8, 9, 14, 25}) {
            const OwnedMatrix w = random.matrix(*format, outputs, depth);
            const std::vector<float> x = random.floats(m * depth);
            std::vector<float> expected;
            for (std::size_t i = 0; i < m; ++i) {
              for (std::size_t n = 0; n < outputs; ++n) {
                expected.push_back(promised_sum(&x[i * depth], &w.values[n * depth], depth));
              }
            }
            std::vector<float> y(m * outputs);
            kernels.fast.multiply(x.data(), m, w.view(), y.data(), outputs, 0, outputs);
            ASSERT_TRUE(same_bits(expected, y)) << label(*table) << ", " << format->name << ", depth "
                                                << depth << ", outputs " << outputs << ", rows " << m;
          }
        }
      }
    }
  }
}

// A range writes only its outputs, wherever it begins and ends, in rows with a stride.
TEST(PanelProduct, WritesItsRangeAlone) {
  Random random(2);
  const std::size_t depth = 270;
  const std::size_t outputs = 300;
  const std::size_t m = 13;
  const std::size_t stride = outputs + 5;
  for (const Kernels* table : all_tables()) {
    for (const WeightFormat* format : {&kF32Format, &kF16Format, &kBF16Format}) {
      const FormatKernels& kernels = table->format(*format);
      if (!is_by_panels(*table, kernels)) continue;
      const OwnedMatrix w = random.matrix(*format, outputs, depth);
      const std::vector<float> x = random.floats(m * depth);
      std::vector<float> all(m * stride, -1.0F);
      kernels.fast.multiply(x.data(), m, w.view(), all.data(), stride, 0, outputs);
      for (int round = 0; round < 10; ++round) {
        const std::size_t begin = random.size(0, outputs - 1);
        const std::size_t end = random.size(begin + 1, outputs);
        std::vector<float> expected(m * stride, 7.0F);
        for (std::size_t i = 0; i < m; ++i) {
          for (std::size_t n = begin; n < end; ++n) expected[i * stride + n] = all[i * stride + n];
        }
        std::vector<float> y(m * stride, 7.0F);
        kernels.fast.multiply(x.data(), m, w.view(), y.data(), stride, begin, end);
        ASSERT_TRUE(same_bits(expected, y))
            << label(*table) << ", " << format->name << ", " << begin << " to " << end;
      }
    }
  }
}

// GEMMs with another kernel for few rows are bitwise identical to many rows, including denormals and
// overflow.
TEST(FastProducts, DoNotDependOnTheBatchAtAnyMagnitude) {
  Random random(3);
  const std::size_t outputs = 37;
  const std::size_t m = 35;
  const auto bits_of = [](float value) {
    return std::isnan(value) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value);
  };
  for (const Kernels* table : all_tables()) {
    const FormatKernels& bf16 = table->format(kBF16Format);
    for (const std::size_t depth : {32, 77, 300}) {
      std::vector<std::uint16_t> bytes(outputs * depth);
      for (std::uint16_t& value : bytes) {
        do {
          value = static_cast<std::uint16_t>(random.size(0, 0xffff));
        } while ((value & 0x7f80) == 0x7f80);
      }
      const WeightView w{.format = &kBF16Format, .rows = outputs, .columns = depth, .data = bytes.data()};
      const std::vector<float> x = random.odd_floats(m * depth);
      const RowsForProduct prepared(bf16.fast, x, depth);
      std::vector<float> all(m * outputs);
      bf16.fast.multiply(prepared.row(0), m, w, all.data(), outputs, 0, outputs);
      for (std::size_t rows = 1; rows <= 12; ++rows) {
        for (std::size_t first = 0; first + rows <= m; first += rows) {
          std::vector<float> some(rows * outputs);
          bf16.fast.multiply(prepared.row(first), rows, w, some.data(), outputs, 0, outputs);
          for (std::size_t i = 0; i < some.size(); ++i) {
            ASSERT_EQ(bits_of(some[i]), bits_of(all[first * outputs + i]))
                << label(*table) << ", depth " << depth << ", " << rows << " rows from " << first << ": "
                << some[i] << " and " << all[first * outputs + i];
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::test
