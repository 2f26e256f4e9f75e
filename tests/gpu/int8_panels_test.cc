// Fast GEMMs of quantized formats in every table are bitwise identical to their definition
// (gpu/cpu/formats/int8_product.h), which the plain table implements, for shapes with full and partial tiles, panels,
// groups and blocks of k.

#include "gpu/weights/host_weight.h"
#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {
namespace {

struct RawWeight {
  std::vector<std::uint64_t> words;
  WeightView view;

  RawWeight(const WeightFormat& format, std::size_t rows, std::size_t columns) {
    view = {.format = &format, .rows = rows, .columns = columns};
    words.resize(view.bytes() / sizeof(std::uint64_t) + 1);
    view.data = words.data();
  }
};

/// Bits of the values; all NaNs compare equal.
std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values)
    bits.push_back(std::isnan(value) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value));
  return bits;
}

std::vector<float> fast_product(const Kernels& table, const WeightView& w, const std::vector<float>& x) {
  static Threads one_thread(1);
  HostWeight weight(w);
  const Product& product = weight.prepare(table, Compute::kAuto, one_thread);
  const RowsForProduct prepared(product, x, w.columns);
  const std::size_t m = x.size() / w.columns;
  std::vector<float> y(m * w.rows, -1.0F);
  product.multiply(prepared.row(0), m, weight.view(), y.data(), w.rows, 0, w.rows);
  return y;
}

bool is_quantized(const FormatKernels& format) {
  return format.fast.activations->int8_block != 0;
}

TEST(Int8Products, HaveTheBitsOfTheirDefinition) {
  Random random(1);
  for (const FormatKernels& format : plain().formats) {
    if (!is_quantized(format)) continue;
    for (const std::size_t blocks : {1, 3, 9}) {
      for (const std::size_t outputs : {1, 17, 40, 135}) {
        for (const std::size_t m : {1, 4, 7, 13}) {
          const std::size_t columns = blocks * format.format->block_size;
          RawWeight w(*format.format, outputs, columns);
          // In half of the cases clears the bits that make f16 scales large, so that most results are finite.
          const std::uint64_t mask = random.coin() ? ~std::uint64_t{0} : 0xbbffbbffbbffbbffULL;
          for (std::uint64_t& word : w.words) word = random.size(0, ~std::size_t{0} - 1) & mask;
          const std::vector<float> x = random.floats(m * columns);
          const auto expected = bits_of(fast_product(plain(), w.view, x));
          for (const Kernels* table : fast_tables()) {
            ASSERT_TRUE(is_quantized(table->format(*format.format)));
            ASSERT_EQ(expected, bits_of(fast_product(*table, w.view, x)))
                << label(*table) << ", " << format.format->name << ", " << blocks << " blocks, " << outputs
                << " outputs, " << m << " rows";
          }
        }
      }
    }
  }
}

// All weights and activations have the largest magnitude their bits allow, of both signs, so that saturation
// shows.
TEST(Int8Products, DoNotSaturate) {
  Random random(2);
  const std::size_t outputs = 20;
  for (const FormatKernels& format : plain().formats) {
    if (!is_quantized(format)) continue;
    const std::size_t columns = 2 * format.format->block_size;
    std::vector<float> x(6 * columns);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t row = i / columns;
      const bool negative = row == 1 || (row == 2 && i % 2 == 1) || (row > 2 && random.coin());
      x[i] = negative ? -1.0F : 1.0F;
    }
    for (const std::uint64_t byte : {0x00, 0x01, 0x10, 0x3b, 0x7b, 0x80, 0x81, 0x88, 0xbb, 0xfb}) {
      RawWeight w(*format.format, outputs, columns);
      for (std::uint64_t& word : w.words) word = byte * 0x0101010101010101ULL;
      const auto expected = bits_of(fast_product(plain(), w.view, x));
      for (const Kernels* table : fast_tables()) {
        ASSERT_EQ(expected, bits_of(fast_product(*table, w.view, x)))
            << label(*table) << ", " << format.format->name << ", all bytes " << byte;
      }
    }
  }
}

TEST(Int8Products, DoNotDependOnRowsAndRanges) {
  Random random(3);
  const std::size_t outputs = 150;
  const std::size_t m = 15;
  for (const Kernels* table : fast_tables()) {
    for (const FormatKernels& format : table->formats) {
      if (!is_quantized(format)) continue;
      const std::size_t columns = 256 + format.format->block_size;
      RawWeight w(*format.format, outputs, columns);
      for (std::uint64_t& word : w.words) word = random.size(0, ~std::size_t{0} - 1) & 0xbbffbbffbbffbbffULL;
      const std::vector<float> x = random.floats(m * columns);
      const std::vector<float> all = fast_product(*table, w.view, x);
      HostWeight weight(w.view);
      Threads one_thread(1);
      const Product& product = weight.prepare(*table, Compute::kAuto, one_thread);
      const RowsForProduct prepared(product, x, columns);
      for (std::size_t row = 0; row < m; ++row) {
        const std::size_t rows = random.size(1, m - row);
        const std::size_t cut = random.size(0, outputs);
        std::vector<float> y(rows * outputs);
        product.multiply(prepared.row(row), rows, weight.view(), y.data(), outputs, cut, outputs);
        product.multiply(prepared.row(row), rows, weight.view(), y.data(), outputs, 0, cut);
        const auto from = all.begin() + static_cast<std::ptrdiff_t>(row * outputs);
        const std::vector<float> expected(from, from + static_cast<std::ptrdiff_t>(rows * outputs));
        ASSERT_EQ(bits_of(expected), bits_of(y))
            << label(*table) << ", " << format.format->name << ", row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::test
