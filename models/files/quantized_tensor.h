#pragma once
// A quantized matrix of a Hugging Face model, which is several tensors in the files: elements, scales, and
// others that depend on the scheme. The names in the files decide whether a matrix is quantized: one with a
// plain `weight` is not, whatever the scheme says.
//
//   scheme                elements                     scales                   zero points          groups
//   FP8                   weight e4m3 [N, K]           weight_scale_inv, weight_scale
//   AWQ                   qweight i32 [K, N/8]         scales [K/g, N]          qzeros i32 [K/g, N/8]
//   GPTQ                  qweight i32 [K/8, N]         scales [K/g, N]          qzeros i32 [K/g, N/8]  g_idx i32 [K]
//   compressed-tensors    weight_packed i32 [N, K/8]   weight_scale [N, K/g]    weight_zero_point      weight_g_idx
//
// An i32 has eight elements of 4 bits, the first in the lowest bits; AWQ has them in the order 0, 2, 4, 6, 1,
// 3, 5, 7. The value of an element is (q - zero) * scale; without zero points zero is 8.
//
// FP8 is used as in the file, with scales widened to f32, per tile of 128 x 128 (DType::kF8E4M3) or per row
// (DType::kF8E4M3Rows). Elements of 4 bits are repacked into rows of blocks (DType::kInt4) with the file's
// integers and scales. If the columns of a group are not contiguous ("act order"), they are made so, and the
// new order is returned.
//
// Threading: thread-safe; repack() starts its own threads.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "models/files/quant_scheme.h"
#include "models/files/tensor_source.h"

namespace reprise::models {

struct QuantizedTensor {
  enum class Layout : std::uint8_t { kFp8, kAwq, kGptq, kPackedRows };

  Layout layout;
  DType type;                    // type in memory
  Shape shape;                   // [N, K]
  const StoredTensor* elements;  // these point into the TensorSource
  const StoredTensor* scales;
  const StoredTensor* zeros = nullptr;   // null: none
  const StoredTensor* groups = nullptr;  // null: the columns of a group are contiguous
  std::size_t group_columns = 0;         // columns per scale, for 4 bits
  bool zeros_less_one = false;

  /// Returns the bytes of all its tensors in the files.
  std::uint64_t stored_bytes() const;
};

/// Returns the matrix "….weight" if the files have it quantized; nullopt: it is plain or absent. Throws a
/// LoadError with tensor and scheme for unsupported ones: other bits, groups that are not multiples of 32,
/// NVFP4, int8.
std::optional<QuantizedTensor> find_quantized(const TensorSource& source, std::string_view name,
                                              const QuantScheme& scheme);

struct RepackedTensor {
  std::shared_ptr<const std::byte[]> data;  // blocks of kInt4
  std::size_t size = 0;
  // The original column at each index of a row; empty: unchanged.
  std::vector<std::uint32_t> column_order;
};

/// Repacks a matrix of 4 bits. Throws LoadError if a scale is not a 16-bit float or the groups do not fit.
RepackedTensor repack(const QuantizedTensor& tensor, const TensorSource& source);

struct WidenedScales {
  std::shared_ptr<const std::byte[]> data;  // f32
  std::size_t size = 0;
};

/// Returns the scales of rows [first_row, first_row + rows) of an FP8 matrix. Throws LoadError if first_row
/// is inside a tile.
WidenedScales widen_scales(const QuantizedTensor& tensor, const TensorSource& source, std::size_t first_row,
                           std::size_t rows);

}  // namespace reprise::models
