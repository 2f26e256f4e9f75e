#pragma once
// Weight formats that a GPU stores at their file size; all others are expanded to bf16. Without CUDA, for
// memory planning; the kernels are in gpu/cuda/gemm/formats.h.

#include <cstdint>

#include "gpu/weights/weight.h"

namespace reprise::gpu {

inline bool is_kept_on_gpu(const WeightFormat& format) {
  return format.kept_on_gpu;
}

/// Returns the GPU memory of a matrix: rows are padded to 8, and columns to 256 if the format is kept.
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
