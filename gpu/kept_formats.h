#pragma once
// Which formats of weights a GPU keeps in the size that they have in files; the others lie there as bf16. Known without a
// GPU, for plans of its memory; gpu/cuda/formats.h has the kernels.
//
// Threading: pure functions.

#include <cstdint>

#include "gpu/weight.h"

namespace reprise::gpu {

inline bool is_kept_on_gpu(const WeightFormat& format) {
  return format.kept_on_gpu;
}

/// What a matrix takes there: whole groups of eight rows, and of 256 columns where it is kept.
inline std::uint64_t gpu_weight_bytes(const WeightFormat& format, std::uint64_t rows, std::uint64_t columns) {
  constexpr std::uint64_t kRows = 8;
  constexpr std::uint64_t kColumns = 256;
  rows = (rows + kRows - 1) / kRows * kRows;
  if (!is_kept_on_gpu(format)) return rows * columns * 2;
  columns = (columns + kColumns - 1) / kColumns * kColumns;
  const std::uint64_t scales = format.scales.rows == 0 ? 0 : rows * (columns / 128) * sizeof(float);
  return rows * (columns / format.block_size) * format.block_bytes + scales;
}

}  // namespace reprise::gpu
