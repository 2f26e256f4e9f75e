// Every weight format of every table, and two that only tests have, compared with reference GEMMs and
// dequantization. A new format needs a line in naive_weight(); a quantized one goes in naive_quants.h.

#include <functional>

#include "gpu/weights/host_weight.h"
#include "tests/gpu/kernel_inputs.h"
#include "tests/gpu/naive_quants.h"
#include "tests/gpu/naive_scaled.h"
#include "tests/gpu/test_formats.h"

namespace reprise::gpu::test {
namespace {

Threads& one_thread() {
  static Threads threads(1);
  return threads;
}

struct Case {
  const Kernels* table;
  const FormatKernels* format;

  std::string label() const { return test::label(*table) + ", " + std::string(format->format->name); }
};

std::vector<Case> all_cases() {
  std::vector<const Kernels*> tables = all_tables();
  tables.push_back(&table_with_test_formats());
  std::vector<Case> cases;
  for (const Kernels* table : tables) {
    for (const FormatKernels& format : table->formats) cases.push_back({table, &format});
  }
  return cases;
}

/// A weight with random bytes, and their values by the format's definition.
struct NaiveWeight {
  std::shared_ptr<void> bytes;
  WeightView view;
  std::vector<float> values;  // [rows, columns]
};

NaiveWeight naive_weight(Random& random, const WeightFormat& format, std::size_t rows, std::size_t columns) {
  if (&format == &kF32Format || &format == &kF16Format || &format == &kBF16Format) {
    auto weight = std::make_shared<OwnedMatrix>(random.matrix(format, rows, columns));
    return {weight, weight->view(), weight->values};
  }
  if (&format == &kTestBlocks || &format == &kTestTiles) {
    auto weight = std::make_shared<TestWeight>(random, format, rows, columns);
    return {weight, weight->view, weight->values};
  }
  if (const NaiveQuant* quant = naive_quant(format); quant != nullptr) {
    auto weight = std::make_shared<QuantWeight>(random, *quant, rows, columns);
    return {weight, weight->view, weight->values};
  }
  if (ScaledWeight::knows(format)) {
    auto weight = std::make_shared<ScaledWeight>(random, format, rows, columns);
    return {weight, weight->view, weight->values};
  }
  ADD_FAILURE() << "this test has no naive " << format.name;
  return {};
}

/// About this many columns, in whole blocks.
std::size_t columns_of(const WeightFormat& format, std::size_t about) {
  return std::max<std::size_t>(1, about / format.block_size) * format.block_size;
}

class Prepared {
 public:
  Prepared(const Product& product, const std::vector<float>& x, std::size_t m, std::size_t columns) : x_(x) {
    if (product.activations->prepare == nullptr) return;
    bytes_.resize(m * product.activations->row_bytes(columns) / sizeof(float));
    product.activations->prepare(x.data(), m, columns, reinterpret_cast<std::byte*>(bytes_.data()));
  }
  const void* data() const { return bytes_.empty() ? x_.data() : bytes_.data(); }

 private:
  const std::vector<float>& x_;
  std::vector<float> bytes_;
};

std::vector<float> multiply(const Case& which, Compute compute, const WeightView& view,
                            const std::vector<float>& x, std::size_t m) {
  HostWeight weight(view);
  const Product& product = weight.prepare(*which.table, compute, one_thread());
  const Prepared prepared(product, x, m, view.columns);
  std::vector<float> y(m * view.rows);
  product.multiply(prepared.data(), m, weight.view(), y.data(), view.rows, 0, view.rows);
  return y;
}

TEST(WeightFormats, EveryTableHasThemAll) {
  for (const Kernels* table : fast_tables()) {
    ASSERT_EQ(table->formats.size(), plain().formats.size()) << label(*table);
    for (const FormatKernels& row : plain().formats) {
      EXPECT_EQ(table->format(*row.format).format, row.format) << label(*table);
      EXPECT_EQ(format_named(row.format->name), row.format);
    }
  }
  EXPECT_EQ(format_named("TEST8"), nullptr);
  EXPECT_EQ(plain().find(kTestBlocks), nullptr);
  EXPECT_NE(table_with_test_formats().find(kTestBlocks), nullptr);
}

TEST(WeightFormats, RowsAreReadAsTheyAreDefined) {
  Random random(1);
  for (const Case& which : all_cases()) {
    for (const std::size_t about : {1, 16, 77, 320, 800}) {
      const std::size_t columns = columns_of(*which.format->format, about);
      const NaiveWeight weight = naive_weight(random, *which.format->format, 5, columns);
      for (std::size_t row = 0; row < 5; ++row) {
        std::vector<float> y(columns);
        which.format->widen_row(weight.view, row, y.data());
        const std::vector<float> expected(
            weight.values.begin() + static_cast<std::ptrdiff_t>(row * columns),
            weight.values.begin() + static_cast<std::ptrdiff_t>((row + 1) * columns));
        EXPECT_TRUE(same_bits(expected, y)) << which.label() << ", row " << row << " of " << columns;
      }
    }
  }
}

// The exact GEMM has the error bound of f32 sums. A fast one may round activations: to 16 bits per element
// (two bf16), or to 8 bits relative to a block's largest, half a step per element.
TEST(WeightFormats, ProductsAreTheNaiveOnes) {
  Random random(2);
  for (const Case& which : all_cases()) {
    for (const Compute compute : {Compute::kF32, Compute::kAuto}) {
      for (const std::size_t about : {1, 64, 320, 800}) {
        const std::size_t columns = columns_of(*which.format->format, about);
        const std::size_t m = 5;
        const std::size_t rows = 9;
        const NaiveWeight weight = naive_weight(random, *which.format->format, rows, columns);
        const std::vector<float> x = random.floats(m * columns);
        const std::vector<float> y = multiply(which, compute, weight.view, x, m);
        const std::size_t block = which.format->product(compute).activations->int8_block;
        for (std::size_t i = 0; i < m; ++i) {
          std::vector<double> half_steps(columns, 0.0);  // of the rounding of x
          for (std::size_t k = 0; block != 0 && k < columns; ++k) {
            float largest = 0;
            for (std::size_t other = k / block * block; other < std::min(columns, (k / block + 1) * block);
                 ++other) {
              largest = std::max(largest, std::abs(x[i * columns + other]));
            }
            half_steps[k] = largest / 127 / 2 * 1.001;
          }
          for (std::size_t n = 0; n < rows; ++n) {
            double sum = 0;
            double magnitudes = 0;
            double rounding = 0;
            for (std::size_t k = 0; k < columns; ++k) {
              const double w = weight.values[n * columns + k];
              sum += x[i * columns + k] * w;
              magnitudes += std::abs(x[i * columns + k] * w);
              rounding += std::abs(w) * half_steps[k];
            }
            double bound = 2 * kUlp * std::sqrt(static_cast<double>(columns)) * magnitudes;
            if (compute == Compute::kAuto) bound += 0x1p-17 * magnitudes;
            bound += rounding;
            EXPECT_LE(std::abs(y[i * rows + n] - sum), bound) << which.label() << ", depth " << columns;
          }
        }
      }
    }
  }
}

// The order of summation documented in gpu/kernels.h, implemented again: exact GEMMs of every format must
// match bitwise.
TEST(WeightFormats, ExactProductsHaveThePromisedOrder) {
  Random random(3);
  for (const Case& which : all_cases()) {
    const std::size_t columns = columns_of(*which.format->format, 77);
    const NaiveWeight weight = naive_weight(random, *which.format->format, 7, columns);
    const std::vector<float> x = random.floats(3 * columns);
    std::vector<float> expected;
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t n = 0; n < 7; ++n) {
        float lanes[kLanes] = {};
        for (std::size_t k = 0; k < columns; ++k) {
          float& lane = lanes[k % kLanes];
          lane = std::fma(x[i * columns + k], weight.values[n * columns + k], lane);
        }
        for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
          for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
        }
        expected.push_back(lanes[0]);
      }
    }
    EXPECT_TRUE(same_bits(expected, multiply(which, Compute::kF32, weight.view, x, 3))) << which.label();
  }
}

TEST(WeightFormats, RowsDependOnNeitherBatchNorRanges) {
  Random random(4);
  constexpr std::size_t kMax = 13;
  for (const Case& which : all_cases()) {
    for (const Compute compute : {Compute::kF32, Compute::kAuto}) {
      const std::size_t columns = columns_of(*which.format->format, 96);
      const std::size_t rows = 22;
      const NaiveWeight naive = naive_weight(random, *which.format->format, rows, columns);
      const std::vector<float> x = random.floats(kMax * columns);
      const std::vector<float> all = multiply(which, compute, naive.view, x, kMax);
      HostWeight weight(naive.view);
      const Product& product = weight.prepare(*which.table, compute, one_thread());
      for (std::size_t row = 0; row < kMax; ++row) {
        for (std::size_t m = 1; row + m <= kMax; m += 3) {
          const std::vector<float> some(x.begin() + static_cast<std::ptrdiff_t>(row * columns),
                                        x.begin() + static_cast<std::ptrdiff_t>((row + m) * columns));
          const Prepared prepared(product, some, m, columns);
          std::vector<float> y(m * rows, -1.0F);
          const std::size_t cut = random.size(0, rows);
          product.multiply(prepared.data(), m, weight.view(), y.data(), rows, cut, rows);
          product.multiply(prepared.data(), m, weight.view(), y.data(), rows, 0, cut);
          ASSERT_EQ(std::memcmp(y.data(), all.data() + row * rows, y.size() * sizeof(float)), 0)
              << which.label() << ", row " << row << " of " << m << ", cut at " << cut;
        }
      }
    }
  }
}

// Rows so long that GEMMs process them in parts: a row's result does not depend on other rows.
TEST(WeightFormats, LongRowsDependOnNoOthers) {
  Random random(5);
  constexpr std::size_t kMany = 21;
  for (const Case& which : all_cases()) {
    const WeightFormat& format = *which.format->format;
    const std::size_t columns = columns_of(format, 4400) + (format.block_size == 1 ? 3 : 0);
    const std::size_t rows = 11;
    const NaiveWeight naive = naive_weight(random, format, rows, columns);
    const std::vector<float> x = random.floats(kMany * columns);
    const std::vector<float> all = multiply(which, Compute::kAuto, naive.view, x, kMany);
    for (const std::size_t row : {std::size_t{0}, std::size_t{7}, kMany - 1}) {
      const std::vector<float> one(x.begin() + static_cast<std::ptrdiff_t>(row * columns),
                                   x.begin() + static_cast<std::ptrdiff_t>((row + 1) * columns));
      const std::vector<float> alone = multiply(which, Compute::kAuto, naive.view, one, 1);
      ASSERT_EQ(std::memcmp(alone.data(), all.data() + row * rows, rows * sizeof(float)), 0)
          << which.label() << ", row " << row;
    }
  }
}

// An expert's matrix in a stacked weight.
TEST(WeightFormats, PartsOfAStackAreWeights) {
  Random random(5);
  for (const Case& which : all_cases()) {
    for (const Compute compute : {Compute::kF32, Compute::kAuto}) {
      const std::size_t columns = columns_of(*which.format->format, 64);
      const std::size_t rows = std::max<std::size_t>(6, which.format->format->scales.rows);  // whole tiles
      const NaiveWeight stack = naive_weight(random, *which.format->format, 4 * rows, columns);
      const std::vector<float> x = random.floats(3 * columns);
      const std::vector<float> whole = multiply(which, compute, stack.view, x, 3);
      for (std::size_t expert = 0; expert < 4; ++expert) {
        const std::vector<float> y = multiply(which, compute, stack.view.part(rows * expert, rows), x, 3);
        for (std::size_t i = 0; i < 3; ++i) {
          EXPECT_EQ(
              std::memcmp(y.data() + i * rows, whole.data() + (i * 4 + expert) * rows, rows * sizeof(float)),
              0)
              << which.label() << ", expert " << expert;
        }
      }
    }
  }
}

TEST(HostWeight, PacksOnceAndSaysHowMuch) {
  Random random(6);
  const Kernels& table = table_with_test_formats();
  const TestWeight blocks(random, kTestBlocks, 10, 64);
  HostWeight weight(blocks.view);
  EXPECT_EQ(weight.packed_bytes(), 0U);
  const Product& product = weight.prepare(table, Compute::kAuto, one_thread());
  EXPECT_EQ(weight.packed_bytes(), product.packing->bytes(10, 64));
  EXPECT_EQ(weight.packed_bytes(), 3U * 2 * (4 * 4 + 4 * 32));  // three panels of two blocks
  const void* packed = weight.view().packed;
  EXPECT_EQ(&weight.prepare(table, Compute::kAuto, one_thread()), &product);
  EXPECT_EQ(weight.view().packed, packed);
  // A setting that does not use the packed copy frees it.
  weight.prepare(table, Compute::kF32, one_thread());
  EXPECT_EQ(weight.packed_bytes(), 0U);
  EXPECT_EQ(weight.view().packed, nullptr);
}

}  // namespace
}  // namespace reprise::gpu::test
