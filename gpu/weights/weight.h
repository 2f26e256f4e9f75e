#pragma once
// Storage formats of weights, and a view of one weight.
//
// A format describes the memory layout of a matrix; each device has a table of the formats that it can
// multiply by (gpu/kernels.h, gpu/cuda/gemm/formats.h). Formats are compared by address. The tensors of one
// model may have different formats.
//
// A row (one output) is a whole number of blocks; blocks and rows are contiguous. So a stack of matrices with
// equal columns is one weight with all their rows, and part() returns one of them.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace reprise::gpu {

/// Scales stored separately from the elements: a row-major array with one scale per tile of `rows` x
/// `columns` elements, partial tiles at the edges included.
struct ScaleTiles {
  std::size_t rows = 0;  // 0: the format has no separate scales
  std::size_t columns = 0;
  std::size_t bytes = 0;  // size of a scale
};

inline constexpr std::uint32_t kNoGgmlId = UINT32_MAX;

struct WeightFormat {
  std::string_view name;    // as in files: "BF16", "Q4_K"
  std::size_t block_size;   // elements per block
  std::size_t block_bytes;  // bytes per block
  std::size_t alignment;    // alignment of a weight's first byte
  ScaleTiles scales = {};
  std::uint32_t ggml_id = kNoGgmlId;       // type number in GGUF files
  std::string_view safetensors_name = {};  // type name in safetensors files; empty: not used there
  bool kept_on_gpu = false;                // false: a GPU stores it as bf16 (gpu/cuda/gemm/formats.cc)
};

/// Scales of FP8 e4m3 weights of safetensors files: one f32 per tile, or per row.
inline constexpr ScaleTiles kF8Tiles{.rows = 128, .columns = 128, .bytes = 4};
inline constexpr ScaleTiles kF8Rows{.rows = 1, .columns = std::size_t{1} << 40, .bytes = 4};

/// 32 elements of 4 bits, two per byte, the first in the low half. Value: (element - zero) * scale.
struct Int4Block {
  static constexpr std::uint32_t kZeroMask = 31;

  std::uint32_t scale_and_zero;  // f32 scale whose low five bits are the zero point, 0 to 16
  std::uint8_t elements[16];

  float scale() const { return std::bit_cast<float>(scale_and_zero & ~kZeroMask); }
  int zero() const { return static_cast<int>(scale_and_zero & kZeroMask); }
};

// The formats that kernels support. Q8_0 to MXFP4 are GGUF's quantized formats, with scales inside the blocks
// (gpu/cpu/formats/quants.h).
// clang-format off
//                                              name             block  bytes  alignment  scales         ggml  safetensors  kept on a GPU
inline constexpr WeightFormat kF32Format        {"F32",             1,     4,         4,  {},              0,  "F32",       false};
inline constexpr WeightFormat kF16Format        {"F16",             1,     2,         2,  {},              1,  "F16",       false};
inline constexpr WeightFormat kBF16Format       {"BF16",            1,     2,         2,  {},             30,  "BF16",      false};
inline constexpr WeightFormat kF8TileFormat     {"F8_E4M3",         1,     1,         1,  kF8Tiles, kNoGgmlId,  "F8_E4M3",   true};
inline constexpr WeightFormat kF8RowFormat      {"F8_E4M3_ROWS",    1,     1,         1,  kF8Rows,  kNoGgmlId,  "",          true};
inline constexpr WeightFormat kQ8_0Format       {"Q8_0",           32,    34,         2,  {},              8,  "",          true};
inline constexpr WeightFormat kQ4_0Format       {"Q4_0",           32,    18,         2,  {},              2,  "",          true};
inline constexpr WeightFormat kQ4_1Format       {"Q4_1",           32,    20,         2,  {},              3,  "",          false};
inline constexpr WeightFormat kQ5_0Format       {"Q5_0",           32,    22,         2,  {},              6,  "",          false};
inline constexpr WeightFormat kQ5_1Format       {"Q5_1",           32,    24,         2,  {},              7,  "",          false};
inline constexpr WeightFormat kQ2_KFormat       {"Q2_K",          256,    84,         2,  {},             10,  "",          false};
inline constexpr WeightFormat kQ3_KFormat       {"Q3_K",          256,   110,         2,  {},             11,  "",          false};
inline constexpr WeightFormat kQ4_KFormat       {"Q4_K",          256,   144,         2,  {},             12,  "",          true};
inline constexpr WeightFormat kQ5_KFormat       {"Q5_K",          256,   176,         2,  {},             13,  "",          true};
inline constexpr WeightFormat kQ6_KFormat       {"Q6_K",          256,   210,         2,  {},             14,  "",          true};
inline constexpr WeightFormat kIQ4_NLFormat     {"IQ4_NL",         32,    18,         2,  {},             20,  "",          false};
inline constexpr WeightFormat kIQ4_XSFormat     {"IQ4_XS",        256,   136,         2,  {},             23,  "",          true};
inline constexpr WeightFormat kMXFP4Format      {"MXFP4",          32,    17,         1,  {},             39,  "",          false};
inline constexpr WeightFormat kInt4Format       {"INT4",           32,    20,         4,  {},       kNoGgmlId,  "",          false};
// clang-format on
static_assert(sizeof(Int4Block) == kInt4Format.block_bytes && alignof(Int4Block) == kInt4Format.alignment);

/// All formats, in the order of every CPU table (gpu/cpu/formats/formats.h).
inline constexpr const WeightFormat* kWeightFormats[] = {
    &kF32Format,  &kF16Format,    &kBF16Format,   &kF8TileFormat, &kF8RowFormat, &kQ8_0Format, &kQ4_0Format,
    &kQ4_1Format, &kQ5_0Format,   &kQ5_1Format,   &kQ2_KFormat,   &kQ3_KFormat,  &kQ4_KFormat, &kQ5_KFormat,
    &kQ6_KFormat, &kIQ4_NLFormat, &kIQ4_XSFormat, &kMXFP4Format,  &kInt4Format};

struct WeightView {
  const WeightFormat* format = &kF32Format;
  std::size_t rows = 0;     // outputs
  std::size_t columns = 0;  // inputs, a multiple of the block size
  const void* data = nullptr;
  const void* scales = nullptr;  // null: the format has no separate scales
  const void* packed = nullptr;  // packed copy for a product (Packing, gpu/weights/products.h); null: none

  std::size_t row_bytes() const { return columns / format->block_size * format->block_bytes; }
  std::size_t bytes() const { return rows * row_bytes(); }
  const std::byte* row(std::size_t index) const {
    return static_cast<const std::byte*>(data) + index * row_bytes();
  }

  /// Bytes of a row of scale tiles; 0 if the format has no separate scales.
  std::size_t scale_row_bytes() const {
    const ScaleTiles& tiles = format->scales;
    return tiles.rows == 0 ? 0 : (columns + tiles.columns - 1) / tiles.columns * tiles.bytes;
  }
  /// The scales of the tiles that cover this row. Requires separate scales.
  const std::byte* scale_row(std::size_t index) const {
    return static_cast<const std::byte*>(scales) + index / format->scales.rows * scale_row_bytes();
  }

  /// Returns rows [first, first + count) as a weight, without the packed copy. `first` must be the first row
  /// of a scale tile.
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
