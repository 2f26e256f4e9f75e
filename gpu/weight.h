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

inline constexpr std::uint32_t kNoGgmlId = UINT32_MAX;

struct WeightFormat {
  std::string_view name;    // as files call it: "BF16", "Q4_K"
  std::size_t block_size;   // elements of a row that are stored together
  std::size_t block_bytes;  // what they take
  std::size_t alignment;    // of the first byte of a weight
  ScaleTiles scales = {};
  std::uint32_t ggml_id = kNoGgmlId;       // of the type in GGUF files
  std::string_view safetensors_name = {};  // of the type in safetensors files; empty: it is in none
  bool kept_on_gpu = false;                // in this size; the others are bf16 there (gpu/cuda/formats.cc)
};

/// FP8 e4m3 of safetensors files: f32 scales for tiles, or for rows.
inline constexpr ScaleTiles kF8Tiles{.rows = 128, .columns = 128, .bytes = 4};
inline constexpr ScaleTiles kF8Rows{.rows = 1, .columns = std::size_t{1} << 40, .bytes = 4};

/// 32 elements of 4 bits, two in a byte, the first in its lower half: (element - zero) * scale.
struct Int4Block {
  static constexpr std::uint32_t kZeroMask = 31;

  std::uint32_t scale_and_zero;  // the bits of an f32 whose last five are the zero point, 0 to 16
  std::uint8_t elements[16];

  float scale() const { return std::bit_cast<float>(scale_and_zero & ~kZeroMask); }
  int zero() const { return static_cast<int>(scale_and_zero & kZeroMask); }
};

// The formats that are computed with. From Q8_0 to MXFP4 those of GGUF files that are integers of a few bits with scales
// among them (gpu/cpu/quants.h).
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

/// All of them, in the order of every CPU's table (gpu/cpu/formats.h).
inline constexpr const WeightFormat* kWeightFormats[] = {
    &kF32Format,  &kF16Format,    &kBF16Format,   &kF8TileFormat, &kF8RowFormat, &kQ8_0Format, &kQ4_0Format,
    &kQ4_1Format, &kQ5_0Format,   &kQ5_1Format,   &kQ2_KFormat,   &kQ3_KFormat,  &kQ4_KFormat, &kQ5_KFormat,
    &kQ6_KFormat, &kIQ4_NLFormat, &kIQ4_XSFormat, &kMXFP4Format,  &kInt4Format};

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
