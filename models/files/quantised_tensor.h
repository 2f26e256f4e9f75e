#pragma once
// A quantised matrix of a Hugging Face checkpoint, which is several tensors in the files: the elements, their scales,
// and what else the scheme keeps. Whether a matrix is quantised is decided by the names that are there: one that has
// a plain `weight` is plain, whatever the scheme says of it.
//
//   scheme                elements                     scales                   zero points          groups
//   FP8                   weight e4m3 [N, K]           weight_scale_inv, weight_scale
//   AWQ                   qweight i32 [K, N/8]         scales [K/g, N]          qzeros i32 [K/g, N/8]
//   GPTQ                  qweight i32 [K/8, N]         scales [K/g, N]          qzeros i32 [K/g, N/8]  g_idx i32 [K]
//   compressed-tensors    weight_packed i32 [N, K/8]   weight_scale [N, K/g]    weight_zero_point      weight_g_idx
//
// Eight elements of 4 bits in an i32, the first in the lowest bits; AWQ has those of its columns in the order 0, 2, 4,
// 6, 1, 3, 5, 7. An element is (q - zero) * scale; without zero points zero is 8.
//
// FP8 is used as it lies in the file, with its scales widened to f32: one for each tile of 128 x 128
// (DType::kF8E4M3) or for each row (DType::kF8E4M3Rows). Elements of 4 bits are repacked in rows of blocks
// (DType::kInt4) that hold the file's own integers and scales. Where columns of a group do not lie together ("act
// order") they are brought together, and the order is told.
//
// Threading: pure functions of immutable files; repack() uses threads of its own.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "models/files/quant_scheme.h"
#include "models/files/tensor_source.h"

namespace reprise::models {

struct QuantisedTensor {
  enum class Layout : std::uint8_t { kFp8, kAwq, kGptq, kPackedRows };

  Layout layout;
  DType type;                    // what it is kept as
  Shape shape;                   // [N, K]
  const StoredTensor* elements;  // all into the source
  const StoredTensor* scales;
  const StoredTensor* zeros = nullptr;   // null: none
  const StoredTensor* groups = nullptr;  // null: columns of a group lie together
  std::size_t group_columns = 0;         // columns a scale, of 4 bits
  bool zeros_less_one = false;

  /// Of all its tensors in the files.
  std::uint64_t stored_bytes() const;
};

/// The matrix "….weight" where the files have it quantised; nothing: they have it plain, or not at all. LoadError, by
/// tensor and scheme, for what is not read: other bits, groups that are not multiples of 32, NVFP4, int8.
std::optional<QuantisedTensor> find_quantised(const TensorSource& source, std::string_view name,
                                              const QuantScheme& scheme);

struct RepackedTensor {
  std::shared_ptr<const std::byte[]> data;  // blocks of kInt4
  std::size_t size = 0;
  std::vector<std::uint32_t>
      column_order;  // which column stands at each place of a row; empty: each at its own
};

/// A matrix of 4 bits as blocks. LoadError for scales that are no 16-bit numbers and groups that do not fit.
RepackedTensor repack(const QuantisedTensor& tensor, const TensorSource& source);

struct WidenedScales {
  std::shared_ptr<const std::byte[]> data;  // f32
  std::size_t size = 0;
};

/// The scales of rows [first_row, first_row + rows) of an FP8 matrix. LoadError where the first lies inside a tile.
WidenedScales widen_scales(const QuantisedTensor& tensor, const TensorSource& source, std::size_t first_row,
                           std::size_t rows);

}  // namespace reprise::models
