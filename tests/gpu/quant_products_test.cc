// GEMMs of quantized weights with every ISA of this machine: fast ones are bitwise identical to the
// definition (gpu/cpu/formats/int8_product.h) for any number of rows, ranges and threads, for extreme block contents,
// and for x that is not finite.

#include <algorithm>
#include <limits>

#include "gpu/weights/host_weight.h"
#include "tests/gpu/kernel_inputs.h"
#include "tests/gpu/naive_quants.h"

namespace reprise::gpu::test {
namespace {

using Floats = std::vector<float>;

class PreparedRows {
 public:
  PreparedRows(const Product& product, const Floats& x, std::size_t m, std::size_t columns)
      : prepared_(m * product.activations->row_bytes(columns) / sizeof(float)) {
    product.activations->prepare(x.data(), m, columns, reinterpret_cast<std::byte*>(prepared_.data()));
  }
  const void* data() const { return prepared_.data(); }

 private:
  Floats prepared_;
};

/// Computes y [m, rows of the weight] in ranges that begin at multiples of `step`. Checks that nothing after
/// it is written.
Floats fast_product(const Kernels& table, const WeightView& view, const Floats& x, std::size_t step) {
  const Product& product = table.format(*view.format).fast;
  const std::size_t m = x.size() / view.columns;
  const PreparedRows prepared(product, x, m, view.columns);
  Floats y((m + 1) * view.rows, -1.0F);
  for (std::size_t n = 0; n < view.rows; n += step) {
    product.multiply(prepared.data(), m, view, y.data(), view.rows, n, std::min(view.rows, n + step));
  }
  const auto end = y.begin() + static_cast<std::ptrdiff_t>(m * view.rows);
  EXPECT_TRUE(std::all_of(end, y.end(), [](float guard) { return guard == -1.0F; }))
      << view.format->name << ", " << m << " rows: written behind the last";
  y.resize(m * view.rows);
  return y;
}

std::string told(const NaiveQuant& quant, const Kernels& table) {
  return label(table) + ", " + std::string(quant.format->name);
}

TEST(QuantProducts, BitsDependOnNeitherTableNorNumberOfRows) {
  Random random(1);
  for (const NaiveQuant& quant : naive_quants()) {
    const std::size_t block = quant.format->block_size;
    for (const std::size_t blocks : {1, 2, 5}) {
      const std::size_t columns = blocks * block;
      const QuantWeight weight(random, quant, 13, columns);
      const Floats x = random.floats(70 * columns);
      const Floats all = fast_product(plain(), weight.view, x, 13);
      for (const Kernels* table : all_tables()) {
        for (const std::size_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 70}) {
          const std::size_t first = random.size(0, 70 - m);
          const Floats some(x.begin() + static_cast<std::ptrdiff_t>(first * columns),
                            x.begin() + static_cast<std::ptrdiff_t>((first + m) * columns));
          const Floats expected(all.begin() + static_cast<std::ptrdiff_t>(first * 13),
                                all.begin() + static_cast<std::ptrdiff_t>((first + m) * 13));
          const std::size_t step = random.size(1, 13);
          EXPECT_TRUE(same_bits(expected, fast_product(*table, weight.view, some, step)))
              << told(quant, *table) << ", " << m << " rows, " << blocks << " blocks, ranges of " << step;
        }
      }
    }
  }
}

TEST(QuantProducts, HaveTheSameBitsForEveryNumberOfThreads) {
  Random random(2);
  for (const NaiveQuant& quant : naive_quants()) {
    const std::size_t columns = 2 * quant.format->block_size;
    const QuantWeight weight(random, quant, 300, columns);
    for (const Kernels* table : all_tables()) {
      const Product& product = table->format(*quant.format).fast;
      for (const std::size_t m : {1, 12}) {
        const Floats x = random.floats(m * columns);
        const Floats expected = fast_product(*table, weight.view, x, 300);
        const PreparedRows prepared(product, x, m, columns);
        for (const unsigned count : {1U, 2U, 3U}) {
          Threads threads(count);
          Floats y(expected.size());
          threads.for_ranges(300, product.outputs_at_once, [&](std::size_t begin, std::size_t end) {
            product.multiply(prepared.data(), m, weight.view, y.data(), 300, begin, end);
          });
          EXPECT_TRUE(same_bits(expected, y)) << told(quant, *table) << ", " << count << " threads";
        }
      }
    }
  }
}

/// Error bound relative to exact arithmetic on the rounded x.
void expect_close(const NaiveQuant& quant, const Kernels& table, const QuantWeight& weight, const Floats& x,
                  const Floats& y) {
  const std::size_t columns = weight.view.columns;
  const std::size_t rows = weight.view.rows;
  const std::size_t block = quant.format->block_size;
  for (std::size_t i = 0; i < x.size() / columns; ++i) {
    for (std::size_t n = 0; n < rows; ++n) {
      double sum = 0;
      double bound = std::numeric_limits<float>::denorm_min() * static_cast<double>(columns);
      for (std::size_t k = 0; k < columns; ++k) {
        float largest = 0;
        for (std::size_t other = k / block * block; other < (k / block + 1) * block; ++other) {
          largest = std::max(largest, std::abs(x[i * columns + other]));
        }
        const double w = weight.values[n * columns + k];
        sum += w * x[i * columns + k];
        bound += std::abs(w) * largest * (0.5 / 127 * 1.001 + 0x1p-20);
      }
      // Offsets may cancel against products; the error is of their size.
      ASSERT_LE(std::abs(y[i * rows + n] - sum), 2 * bound + 1e-3 * std::abs(sum))
          << told(quant, table) << ", row " << i << ", output " << n;
    }
  }
}

// Blocks of identical bytes with largest, smallest and zero scales, times the largest quantized x: nothing
// saturates or wraps.
TEST(QuantProducts, AreRightAtTheEndsOfWhatBlocksHold) {
  Random random(3);
  for (const NaiveQuant& quant : naive_quants()) {
    const std::size_t block = quant.format->block_size;
    const std::size_t columns = 2 * block;
    std::vector<int> bytes = {0x00, 0xff, 0x80, 0x7f, 0x88, 0xf0, 0x0f};
    for (const std::size_t half : {0x7bff, 0xfbff, 0x0001, 0x8001, 0x03ff, 0x0000, 0x3c00}) {
      QuantWeight weight(random, quant, bytes.size(), columns);
      for (std::size_t at = 0; at < weight.bytes.size(); ++at) {
        weight.bytes[at] = static_cast<std::uint8_t>(bytes[at / weight.view.row_bytes()]);
      }
      for (std::size_t at = 0; at < weight.bytes.size(); at += quant.format->block_bytes) {
        for (const std::size_t offset : quant.halves) weight.set_half(at + offset, half);
        if (quant.halves.empty())
          weight.bytes[at] = static_cast<std::uint8_t>(half % 200);  // keeps results finite
      }
      weight.read(quant);
      Floats x(6 * columns);
      for (std::size_t k = 0; k < columns; ++k) {
        x[k] = 1.0F;
        x[columns + k] = -1.0F;
        x[2 * columns + k] = weight.values[columns + k] < 0 ? -1.0F : 1.0F;
        x[3 * columns + k] = k % 2 == 0 ? 1.0F : -1.0F;
        x[4 * columns + k] = 0.0F;
        x[5 * columns + k] = k % block == 0 ? 1e6F : 0.0F;
      }
      const Floats expected = fast_product(plain(), weight.view, x, 3);
      expect_close(quant, plain(), weight, x, expected);
      for (const Kernels* table : all_tables()) {
        EXPECT_TRUE(same_bits(expected, fast_product(*table, weight.view, x, 5)))
            << told(quant, *table) << ", scales " << half;
        for (std::size_t row = 0; row < 6; ++row) {  // single rows use another code path
          const Floats one(x.begin() + static_cast<std::ptrdiff_t>(row * columns),
                           x.begin() + static_cast<std::ptrdiff_t>((row + 1) * columns));
          const Floats y = fast_product(*table, weight.view, one, 7);
          EXPECT_EQ(std::memcmp(y.data(), expected.data() + row * bytes.size(), y.size() * sizeof(float)), 0)
              << told(quant, *table) << ", scales " << half << ", row " << row;
        }
      }
    }
  }
}

TEST(QuantProducts, OfWhatIsNotFiniteAreNotANumber) {
  Random random(4);
  for (const NaiveQuant& quant : naive_quants()) {
    const std::size_t columns = 3 * quant.format->block_size;
    const QuantWeight weight(random, quant, 9, columns);
    for (const float broken :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      for (const std::size_t m : {1, 10}) {
        Floats x = random.floats(m * columns);
        const Floats whole = fast_product(plain(), weight.view, x, 9);
        const std::size_t row = random.size(0, m - 1);
        x[row * columns + random.size(0, columns - 1)] = broken;
        for (const Kernels* table : all_tables()) {
          const Floats y = fast_product(*table, weight.view, x, 4);
          for (std::size_t i = 0; i < m; ++i) {
            for (std::size_t n = 0; n < 9; ++n) {
              if (i == row) {
                EXPECT_TRUE(std::isnan(y[i * 9 + n])) << told(quant, *table);
              } else {
                EXPECT_EQ(y[i * 9 + n], whole[i * 9 + n]) << told(quant, *table);
              }
            }
          }
        }
      }
    }
  }
}

TEST(QuantProducts, OfTinyAndHugeRowsAreFinite) {
  Random random(5);
  for (const NaiveQuant& quant : naive_quants()) {
    const std::size_t columns = 2 * quant.format->block_size;
    const QuantWeight weight(random, quant, 5, columns);
    for (const float scale : {1e-44F, 1e-38F, 1e-33F, 1e-28F, 1e30F}) {
      const Floats x = random.floats(3 * columns, scale);
      const Floats expected = fast_product(plain(), weight.view, x, 5);
      for (const float y : expected) {
        EXPECT_TRUE(std::isfinite(y)) << quant.format->name << ", " << scale;
        EXPECT_EQ(y == 0.0F, scale < 0x1p-105F)
            << quant.format->name << ", " << scale;  // below 2^-100: zeros
      }
      for (const Kernels* table : all_tables()) {
        EXPECT_TRUE(same_bits(expected, fast_product(*table, weight.view, x, 5))) << told(quant, *table);
      }
    }
  }
}

// Rows with a few outliers, mixed with others: outliers are multiplied with 16-bit precision and do not
// affect the rest.
TEST(QuantProducts, OfRowsWithFewLargeElementsAreCloser) {
  Random random(7);
  for (const NaiveQuant& quant : naive_quants()) {
    if (quant.format->block_size != 256) continue;
    const std::size_t columns = 512;
    const QuantWeight weight(random, quant, 7, columns);
    Floats x = random.floats(9 * columns);
    for (const std::size_t row : {0, 4, 8}) {
      for (std::size_t k = 0; k < columns; k += 64) x[row * columns + k] *= 40;
    }
    const Floats expected = fast_product(plain(), weight.view, x, 7);
    for (const std::size_t row : {0, 4, 8}) {
      for (std::size_t n = 0; n < 7; ++n) {
        double sum = 0;
        double magnitudes = 0;
        for (std::size_t k = 0; k < columns; ++k) {
          const double product = static_cast<double>(weight.values[n * columns + k]) * x[row * columns + k];
          sum += product;
          magnitudes += std::abs(product);
        }
        EXPECT_LE(std::abs(expected[row * 7 + n] - sum), 5e-4 * magnitudes) << quant.format->name;
      }
    }
    for (const Kernels* table : all_tables()) {
      EXPECT_TRUE(same_bits(expected, fast_product(*table, weight.view, x, 3))) << told(quant, *table);
      for (std::size_t row = 0; row < 9; ++row) {
        const Floats one(x.begin() + static_cast<std::ptrdiff_t>(row * columns),
                         x.begin() + static_cast<std::ptrdiff_t>((row + 1) * columns));
        const Floats y = fast_product(*table, weight.view, one, 2);
        EXPECT_EQ(std::memcmp(y.data(), expected.data() + row * 7, y.size() * sizeof(float)), 0)
            << told(quant, *table) << ", row " << row;
      }
    }
  }
}

// The definition implemented again in 64-bit integers, from dequantized blocks with scale one.
TEST(QuantProducts, AreTheDefinitions) {
  Random random(6);
  for (const NaiveQuant& quant : naive_quants()) {
    if (quant.halves.size() == 2) continue;  // its two sums cannot be separated here
    const std::size_t block = quant.format->block_size;
    const std::size_t columns = 3 * block;
    QuantWeight weight(random, quant, 6, columns);
    for (std::size_t at = 0; at < weight.bytes.size(); at += quant.format->block_bytes) {
      for (const std::size_t half : quant.halves) weight.set_half(at + half, 0x3c00);
      if (quant.halves.empty()) weight.bytes[at] = 128;  // scale exponent of one: the elements are doubled
    }
    weight.read(quant);
    const Floats x = random.floats(4 * columns);
    Floats expected;
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t n = 0; n < 6; ++n) {
        float sum = 0;
        for (std::size_t first = 0; first < columns; first += block) {
          float largest = 0;
          for (std::size_t k = first; k < first + block; ++k) {
            largest = std::max(largest, std::abs(x[i * columns + k]));
          }
          std::int64_t products = 0;
          for (std::size_t k = first; k < first + block; ++k) {
            const auto q = static_cast<std::int64_t>(std::nearbyint(x[i * columns + k] * (127.0F / largest)));
            products += q * static_cast<std::int64_t>(weight.values[n * columns + k]);
          }
          sum = std::fma(largest / 127.0F, static_cast<float>(products), sum);
        }
        expected.push_back(sum);
      }
    }
    for (const Kernels* table : all_tables()) {
      EXPECT_TRUE(same_bits(expected, fast_product(*table, weight.view, x, 6))) << told(quant, *table);
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::test
