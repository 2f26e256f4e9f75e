#pragma once
// A weight as it is stored: a format, and a view of one tensor in it.
//
// A format says how the elements of a matrix lie in memory, and nothing of how they are computed with: each
// device has a table of the formats that it can multiply by (gpu/kernels.h for the CPU, gpu/cuda/formats.h).
// Two formats are the same if they are the same object. Formats are told apart per tensor: the tensors of a
// model may have many.
//
// A row (one output) is a whole number of blocks, one after another; rows follow each other without gaps. So a
// stack of matrices with equal columns is one weight of all their rows, and part() is one of them.
//
// Threading: values. A view does not own its bytes.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace reprise::gpu {

/// Scales that lie apart from the elements: one for each tile of `rows` x `columns` elements, row-major, rounded
/// up where the weight ends inside a tile.
struct ScaleTiles {
  std::size_t rows = 0;  // 0: the format has no scales apart
  std::size_t columns = 0;
  std::size_t bytes = 0;  // of one scale
};

struct WeightFormat {
  std::string_view name;    // as files call it: "BF16", "Q4_K"
  std::size_t block_size;   // elements of a row that are stored together
  std::size_t block_bytes;  // what they take
  std::size_t alignment;    // of the first byte of a weight
  ScaleTiles scales = {};
};

inline constexpr WeightFormat kF32Format{.name = "F32", .block_size = 1, .block_bytes = 4, .alignment = 4};
inline constexpr WeightFormat kF16Format{.name = "F16", .block_size = 1, .block_bytes = 2, .alignment = 2};
inline constexpr WeightFormat kBF16Format{.name = "BF16", .block_size = 1, .block_bytes = 2, .alignment = 2};

/// FP8 e4m3 of safetensors files: f32 scales for tiles, or for rows.
inline constexpr WeightFormat kF8TileFormat{.name = "F8_E4M3",
                                            .block_size = 1,
                                            .block_bytes = 1,
                                            .alignment = 1,
                                            .scales = {.rows = 128, .columns = 128, .bytes = 4}};
inline constexpr WeightFormat kF8RowFormat{
    .name = "F8_E4M3_ROWS",
    .block_size = 1,
    .block_bytes = 1,
    .alignment = 1,
    .scales = {.rows = 1, .columns = std::size_t{1} << 40, .bytes = 4}};

/// 32 elements of 4 bits, two in a byte, the first in its lower half: (element - zero) * scale.
struct Int4Block {
  static constexpr std::uint32_t kZeroMask = 31;

  std::uint32_t scale_and_zero;  // the bits of an f32 whose last five are the zero point, 0 to 16
  std::uint8_t elements[16];

  float scale() const { return std::bit_cast<float>(scale_and_zero & ~kZeroMask); }
  int zero() const { return static_cast<int>(scale_and_zero & kZeroMask); }
};
inline constexpr WeightFormat kInt4Format{
    .name = "INT4", .block_size = 32, .block_bytes = sizeof(Int4Block), .alignment = alignof(Int4Block)};

// The quantised formats of GGUF files: whole numbers of a few bits, with scales among them (gpu/cpu/quants.h).
// clang-format off
inline constexpr WeightFormat kQ8_0Format{.name = "Q8_0", .block_size = 32, .block_bytes = 34, .alignment = 2};
inline constexpr WeightFormat kQ4_0Format{.name = "Q4_0", .block_size = 32, .block_bytes = 18, .alignment = 2};
inline constexpr WeightFormat kQ4_1Format{.name = "Q4_1", .block_size = 32, .block_bytes = 20, .alignment = 2};
inline constexpr WeightFormat kQ5_0Format{.name = "Q5_0", .block_size = 32, .block_bytes = 22, .alignment = 2};
inline constexpr WeightFormat kQ5_1Format{.name = "Q5_1", .block_size = 32, .block_bytes = 24, .alignment = 2};
inline constexpr WeightFormat kQ2_KFormat{.name = "Q2_K", .block_size = 256, .block_bytes = 84, .alignment = 2};
inline constexpr WeightFormat kQ3_KFormat{.name = "Q3_K", .block_size = 256, .block_bytes = 110, .alignment = 2};
inline constexpr WeightFormat kQ4_KFormat{.name = "Q4_K", .block_size = 256, .block_bytes = 144, .alignment = 2};
inline constexpr WeightFormat kQ5_KFormat{.name = "Q5_K", .block_size = 256, .block_bytes = 176, .alignment = 2};
inline constexpr WeightFormat kQ6_KFormat{.name = "Q6_K", .block_size = 256, .block_bytes = 210, .alignment = 2};
inline constexpr WeightFormat kIQ4_NLFormat{.name = "IQ4_NL", .block_size = 32, .block_bytes = 18, .alignment = 2};
inline constexpr WeightFormat kIQ4_XSFormat{.name = "IQ4_XS", .block_size = 256, .block_bytes = 136, .alignment = 2};
inline constexpr WeightFormat kMXFP4Format{.name = "MXFP4", .block_size = 32, .block_bytes = 17, .alignment = 1};
// clang-format on

struct WeightView {
  const WeightFormat* format = &kF32Format;
  std::size_t rows = 0;     // outputs
  std::size_t columns = 0;  // inputs: whole blocks
  const void* data = nullptr;
  const void* scales = nullptr;  // null: the format has none apart
  const void* packed = nullptr;  // the copy that a product asked for (Packing, gpu/products.h); null: none

  std::size_t row_bytes() const { return columns / format->block_size * format->block_bytes; }
  std::size_t bytes() const { return rows * row_bytes(); }
  const std::byte* row(std::size_t index) const {
    return static_cast<const std::byte*>(data) + index * row_bytes();
  }

  /// Bytes of a row of scales; 0 where there are none apart.
  std::size_t scale_row_bytes() const {
    const ScaleTiles& tiles = format->scales;
    return tiles.rows == 0 ? 0 : (columns + tiles.columns - 1) / tiles.columns * tiles.bytes;
  }
  /// The scales of a row's tiles. Only where the format has them.
  const std::byte* scale_row(std::size_t index) const {
    return static_cast<const std::byte*>(scales) + index / format->scales.rows * scale_row_bytes();
  }

  /// Rows [first, first + count) as a weight of its own, without the packed copy. `first` must be where tiles of
  /// scales begin.
  WeightView part(std::size_t first, std::size_t count) const {
    REPRISE_CHECK(first + count <= rows, "a part of a weight ends after the weight");
    WeightView out{.format = format, .rows = count, .columns = columns, .data = row(first)};
    if (format->scales.rows != 0) {
      REPRISE_CHECK(first % format->scales.rows == 0, "a part of a weight starts inside a tile of scales");
      out.scales = scale_row(first);
    }
    return out;
  }
};

}  // namespace reprise::gpu
