// The fast product of quantised formats on x86-64, with the bits of its definition (int8_product.h): the weight's bytes
// are turned into panels whose lanes are outputs, 256 elements of k at a time, and multiplied by four elements of a row
// of x at once. Included by kernel sources for x86-64, with internal linkage.
//
// What multiplies bytes, by what the source is compiled for:
//   VNNI        VPDPBUSD: unsigned x signed into int32, which does not saturate
//   without     VPMADDUBSW adds pairs of unsigned x signed in int16, which saturates. |x| <= 127 by the form of x, so a
//               pair of small bytes is at most 2 * 63 * 127 < 2^15, and as many pairs are added as stay below that
//               (kRun). Numbers of eight bits: |w| <= 128 times x with w's sign, at most 2 * 128 * 127 < 2^15.
// Bytes have kZero added; a sum of products begins at -kZero times the sum of those x.
//
// The panels of a group of outputs stay in L2 while all rows pass; few rows are not worth panels (int8_few_rows.h).
// Nothing is kept between calls.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "gpu/cpu/formats.h"
#include "gpu/cpu/int8_bytes.h"
#include "gpu/cpu/int8_few_rows.h"
#include "gpu/cpu/int8_product.h"
#include "gpu/cpu/int8_vectors.h"
#include "gpu/cpu/x86_vectors.h"

namespace reprise::gpu {
namespace {

#if defined(__AVX512F__)
inline constexpr int kByteRows = kHasDotOfBytes ? 6 : 4;  // of a tile: sums and operands fit the registers
inline constexpr int kByteVectors = 2;
#else
inline constexpr int kByteRows = 4;
inline constexpr int kByteVectors = 1;
#endif
inline constexpr std::size_t kBytePanels = 16;  // of a group
inline constexpr std::size_t kByteDepth = 256;

/// What a tile's code depends on, of a format.
template <class Quant>
struct ByteShapeOf {
  static constexpr std::size_t kBlock = Quant::kFormat.block_size;
  static constexpr std::size_t kGroup = Quant::kGroup;
  static constexpr bool kHasOffsets = Quant::kHasOffsets;
  static constexpr bool kSigned = Bytes<Quant>::kSigned;
  static constexpr int kMost = static_cast<int>(kGroup) / 4;
  static constexpr int kRun =
      kHasDotOfBytes || kSigned
          ? 1
          : std::min(kMost, static_cast<int>(std::bit_floor(32767U / (254U * Bytes<Quant>::kLargest))));
};
template <std::size_t kBlockOf, std::size_t kGroupOf, bool kHasOffsetsOf, bool kSignedOf, int kRunOf>
struct ByteShape {
  static constexpr std::size_t kBlock = kBlockOf;
  static constexpr std::size_t kGroup = kGroupOf;
  static constexpr bool kHasOffsets = kHasOffsetsOf;
  static constexpr bool kSigned = kSignedOf;
  static constexpr int kRun = kRunOf;  // products of four that are added in int16
};
template <class Quant>
using ShapeOf =
    ByteShape<ByteShapeOf<Quant>::kBlock, ByteShapeOf<Quant>::kGroup, ByteShapeOf<Quant>::kHasOffsets,
              ByteShapeOf<Quant>::kSigned, ByteShapeOf<Quant>::kRun>;

/// 256 elements of k of kWide outputs.
struct BytePanel {
  alignas(64) std::uint32_t q[kByteDepth / 4][kWide];  // four k of each output
  alignas(64) std::uint32_t words[32][kWide];          // as BytesOfRow's
  alignas(64) float scale[kWide];
  alignas(64) float offset[kWide];
};

/// 256 elements of k of a row of x.
struct ByteRow {
  alignas(64) std::int8_t q[kByteDepth];
  std::int32_t start[16];  // of a group: what its sum begins at
  std::int16_t sums[16];   // of sixteen elements
  float scales[8];         // of blocks; of a block of 256 the first
  float float_sums[8];     // of blocks of 32
};

/// sums[i][v] += the products of kWords words, four bytes each, from word `first`.
template <class Shape, int kRows, int kVectors>
inline void add_group(const ByteRow* x, const BytePanel* w, std::size_t first,
                      WideBits (&sums)[kRows][kVectors]) {
  constexpr int kWords = static_cast<int>(Shape::kGroup) / 4;
  for (int run = 0; run < kWords; run += Shape::kRun) {
    [[maybe_unused]] WideBits pairs[kRows][kVectors];
    for (int step = 0; step < Shape::kRun; ++step) {
      const std::size_t word = first + static_cast<std::size_t>(run + step);
      WideBits bytes[kVectors];
      for (int v = 0; v < kVectors; ++v) bytes[v] = load_bits(w[v].q[word]);
      for (int i = 0; i < kRows; ++i) {
        const WideBits four = word_of(x[i].q + 4 * word);
        for (int v = 0; v < kVectors; ++v) {
          if constexpr (kHasDotOfBytes) {
            sums[i][v] = dot_of_bytes(sums[i][v], bytes[v], four);
          } else {
            const WideBits pair =
                Shape::kSigned ? signed_pairs_of_8(bytes[v], four) : pairs_of_8(bytes[v], four);
            pairs[i][v] = step == 0 ? pair : add_16(pairs[i][v], pair);
          }
        }
      }
    }
    if constexpr (!kHasDotOfBytes) {
      for (int i = 0; i < kRows; ++i) {
        for (int v = 0; v < kVectors; ++v) {
          sums[i][v] = add_32(sums[i][v], pairs_of_16(pairs[i][v], ones_of_16()));
        }
      }
    }
  }
}

/// One block of 256: y[kRows, kVectors * kWide].
template <class Shape, int kRows, int kVectors>
inline void large_block_tile(const ByteRow* x, const BytePanel* w, bool add, float* y, std::size_t y_stride) {
  constexpr std::size_t kGroups = 256 / Shape::kGroup;
  WideBits products[kRows][kVectors];
  for (std::size_t g = 0; g < kGroups; ++g) {
    WideBits sums[kRows][kVectors];
    for (int i = 0; i < kRows; ++i) {
      const WideBits start = word_of(x[i].start + g);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = start;
    }
    add_group<Shape>(x, w, g * Shape::kGroup / 4, sums);
    for (int v = 0; v < kVectors; ++v) {
      const WideBits scale = load_bits(w[v].words[g]);
      for (int i = 0; i < kRows; ++i) {
        const WideBits scaled = multiply_32(sums[i][v], scale);
        products[i][v] = g == 0 ? scaled : add_32(products[i][v], scaled);
      }
    }
  }
  for (int i = 0; i < kRows; ++i, y += y_stride) {
    for (int v = 0; v < kVectors; ++v) {
      Wide t = Wide::load(w[v].scale) * to_floats(products[i][v]);
      if constexpr (Shape::kHasOffsets) {
        WideBits offsets = pairs_of_16(word_of(x[i].sums), load_bits(w[v].words[kGroups]));
        for (std::size_t pair = 1; pair < 8; ++pair) {
          offsets = add_32(offsets,
                           pairs_of_16(word_of(x[i].sums + 2 * pair), load_bits(w[v].words[kGroups + pair])));
        }
        t = fma(Wide::load(w[v].offset), to_floats(offsets), t);
      }
      float* to = y + v * static_cast<int>(kWide);
      fma(Wide::set(x[i].scales[0]), t, add ? Wide::load(to) : Wide::set(0.0F)).store(to);
    }
  }
}

/// `blocks` blocks of 32: y[kRows, kVectors * kWide].
template <class Shape, int kRows, int kVectors>
inline void small_blocks_tile(const ByteRow* x, const BytePanel* w, std::size_t blocks, bool add, float* y,
                              std::size_t y_stride) {
  Wide totals[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      totals[i][v] =
          add ? Wide::load(y + static_cast<std::size_t>(i) * y_stride + v * static_cast<int>(kWide))
              : Wide::set(0.0F);
    }
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    WideBits sums[kRows][kVectors];
    for (int i = 0; i < kRows; ++i) {
      const WideBits start = word_of(x[i].start + b);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = start;
    }
    add_group<Shape>(x, w, b * 8, sums);
    for (int v = 0; v < kVectors; ++v) {
      const Wide scale = as_floats(load_bits(w[v].words[b]));
      for (int i = 0; i < kRows; ++i) {
        Wide t = scale * to_floats(sums[i][v]);
        if constexpr (Shape::kHasOffsets) {
          t = fma(as_floats(load_bits(w[v].words[8 + b])), Wide::set(x[i].float_sums[b]), t);
        }
        totals[i][v] = fma(Wide::set(x[i].scales[b]), t, totals[i][v]);
      }
    }
  }
  for (int i = 0; i < kRows; ++i, y += y_stride) {
    for (int v = 0; v < kVectors; ++v) totals[i][v].store(y + v * static_cast<int>(kWide));
  }
}

template <class Shape, int kRows, int kVectors>
void byte_tile(const ByteRow* x, const BytePanel* w, std::size_t blocks, bool add, float* y,
               std::size_t y_stride) {
  if constexpr (Shape::kBlock == 256) {
    large_block_tile<Shape, kRows, kVectors>(x, w, add, y, y_stride);
  } else {
    small_blocks_tile<Shape, kRows, kVectors>(x, w, blocks, add, y, y_stride);
  }
}

/// The tiles of 1, 2, ... rows.
template <class Shape, int kVectors>
constexpr auto kByteTiles = []<int... kRows>(std::integer_sequence<int, kRows...>) {
  return std::array{byte_tile<Shape, kRows + 1, kVectors>...};
}
(std::make_integer_sequence<int, kByteRows>());

/// Elements [k, k + 256) of kWide rows of the weight, of which `outputs` exist; the others repeat the last.
template <class Quant>
inline void fill_bytes(const std::byte* first, std::size_t row_bytes, std::size_t outputs, std::size_t blocks,
                       BytesOfRow (&rows)[kWide], BytePanel& to) {
  const std::size_t next = kWide * row_bytes;  // to the same place of the outputs that come next
  for (std::size_t r = 0; r < kWide; ++r) {
    const std::byte* row = first + std::min(r, outputs - 1) * row_bytes;
    for (std::size_t line = 0; line < blocks * sizeof(typename Quant::Block); line += 64) {
      ask_for(row, next + line);
    }
    unpack_bytes<Quant>(reinterpret_cast<const typename Quant::Block*>(row), blocks, rows[r]);
    to.scale[r] = rows[r].scale;
    to.offset[r] = rows[r].offset;
  }
  constexpr std::size_t kElements = Quant::kFormat.block_size;
  for (std::size_t word = 0; word < blocks * kElements / 4; word += kWide) {
    turn_words([&](std::size_t r) { return rows[r].q + 4 * word; }, to.q + word);
  }
  constexpr std::size_t kWords =
      kElements == 32 ? (Quant::kHasOffsets ? 16 : 8) : 256 / Quant::kGroup + (Quant::kHasOffsets ? 8 : 0);
  for (std::size_t word = 0; word < kWords; word += kWide) {
    turn_words([&](std::size_t r) { return rows[r].words + word; }, to.words + word);
  }
}

/// Elements [k, k + depth) of a row of x.
template <class Quant>
inline void fill_row(const ActivationsOf<Quant>& x, std::size_t row, std::size_t k, std::size_t depth,
                     ByteRow& to) {
  constexpr std::size_t kElements = Quant::kFormat.block_size;
  constexpr int kZero = Bytes<Quant>::kZero;
  if (depth == kByteDepth) {
    std::memcpy(to.q, x.q(row) + k, kByteDepth);
  } else {
    std::memcpy(to.q, x.q(row) + k, depth);
  }
  const std::int16_t* sums = x.sums(row) + k / ActivationsOf<Quant>::kSumOf;
  const float* scales = x.scales(row) + k / kElements;
  if constexpr (kElements == 256) {
    to.scales[0] = *scales;
    std::memcpy(to.sums, sums, sizeof(to.sums));
    for (std::size_t g = 0; g < 256 / Quant::kGroup; ++g) {
      to.start[g] = -kZero * (Quant::kGroup == 16 ? sums[g] : sums[2 * g] + sums[2 * g + 1]);
    }
  } else {
    for (std::size_t b = 0; b < depth / 32; ++b) {
      to.scales[b] = scales[b];
      to.start[b] = -kZero * sums[b];
      to.float_sums[b] = static_cast<float>(sums[b]);
    }
  }
}

/// Rows of x by the panels of a group, of which `outputs` outputs exist.
template <class Shape>
inline void multiply_panels_of_bytes(const ByteRow* x, std::size_t rows, const BytePanel* panels,
                                     std::size_t outputs, std::size_t blocks, bool add, float* y,
                                     std::size_t y_stride) {
  std::size_t n = 0;
  const auto one = kByteTiles<Shape, 1>[rows - 1];
  if constexpr (kByteVectors > 1) {
    const auto several = kByteTiles<Shape, kByteVectors>[rows - 1];
    for (; n + kByteVectors * kWide <= outputs; n += kByteVectors * kWide) {
      several(x, panels + n / kWide, blocks, add, y + n, y_stride);
    }
  }
  for (; n + kWide <= outputs; n += kWide) one(x, panels + n / kWide, blocks, add, y + n, y_stride);
  if (n == outputs) return;
  float whole[kByteRows][kWide] = {};
  const std::size_t bytes = (outputs - n) * sizeof(float);
  if (add) {
    for (std::size_t i = 0; i < rows; ++i) std::memcpy(whole[i], y + i * y_stride + n, bytes);
  }
  one(x, panels + n / kWide, blocks, add, whole[0], kWide);
  for (std::size_t i = 0; i < rows; ++i) std::memcpy(y + i * y_stride + n, whole[i], bytes);
}

/// More than kFewByteRows rows.
template <class Quant>
void multiply_many_by_bytes(RowList listed, std::size_t m, const WeightView& w, float* y,
                            std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  constexpr std::size_t kElements = Quant::kFormat.block_size;
  const ActivationsOf<Quant> x(listed, w.columns);
  constexpr std::size_t kGroupOutputs = kBytePanels * kWide;
  const std::size_t tiles = (m + kByteRows - 1) / kByteRows;
  BytePanel panels[kBytePanels];
  BytesOfRow unpacked[kWide] = {};
  ByteRow some[kByteRows] = {};
  for (std::size_t n = n_begin; n < n_end; n += kGroupOutputs) {
    const std::size_t outputs = std::min(kGroupOutputs, n_end - n);
    for (std::size_t k = 0; k < w.columns; k += kByteDepth) {
      const std::size_t depth = std::min(kByteDepth, w.columns - k);
      const std::size_t blocks = depth / kElements;
      for (std::size_t lanes = 0; lanes < outputs; lanes += kWide) {
        fill_bytes<Quant>(w.row(n + lanes) + k / kElements * Quant::kFormat.block_bytes, w.row_bytes(),
                          outputs - lanes, blocks, unpacked, panels[lanes / kWide]);
      }
      for (std::size_t tile = 0; tile < tiles; ++tile) {
        const std::size_t first = m * tile / tiles;
        const std::size_t rows = m * (tile + 1) / tiles - first;
        for (std::size_t i = 0; i < rows; ++i) fill_row<Quant>(x, first + i, k, depth, some[i]);
        multiply_panels_of_bytes<ShapeOf<Quant>>(some, rows, panels, outputs, blocks, k != 0,
                                                 y + first * y_stride + n, y_stride);
      }
    }
  }
}

/// Few rows as int8_few_rows.h has it, more of them by kMany.
template <class Quant, MultiplyRows kMany>
void multiply_by_bytes(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                       std::size_t n_begin, std::size_t n_end) {
  if (m == 0) return;
  if (m > kFewByteRows) return kMany(listed, m, w, y, y_stride, n_begin, n_end);
  constexpr auto kFew = []<int... kRows>(std::integer_sequence<int, kRows...>) {
    return std::array{multiply_few_by_bytes<Quant, kRows + 1>...};
  }
  (std::make_integer_sequence<int, kFewByteRows>());
  kFew[m - 1]({listed, w.columns}, w, y, y_stride, n_begin, n_end);
}

/// These products, of all formats that are quantised.
constexpr auto products_by_bytes() {
  return products_of_quants([]<class Quant>() {
    return product_of_whole_numbers<Quant, multiply_by_bytes<Quant, multiply_many_by_bytes<Quant>>>(2 *
                                                                                                    kWide);
  });
}

}  // namespace
}  // namespace reprise::gpu
