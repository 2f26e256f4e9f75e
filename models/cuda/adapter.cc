#include "models/cuda/adapter.h"

#include <new>
#include <vector>

#include "gpu/kernels.h"

namespace reprise::models::cuda {
namespace {

constexpr std::size_t kFloatsAlignment = 64;  // floats; alignment of each matrix in the block

std::size_t rounded(std::size_t floats) {
  return (floats + kFloatsAlignment - 1) / kFloatsAlignment * kFloatsAlignment;
}

/// Writes the matrix as f32 to `to`, transposed if requested.
void widen(const gpu::WeightView& matrix, bool transposed, float* to) {
  const gpu::FormatKernels& format = gpu::cpu_kernels(gpu::Isa::kPlain).format(*matrix.format);
  std::vector<float> row(matrix.columns);
  for (std::size_t i = 0; i < matrix.rows; ++i) {
    format.widen_row(matrix, i, row.data());
    for (std::size_t k = 0; k < matrix.columns; ++k) {
      to[transposed ? k * matrix.rows + i : i * matrix.columns + k] = row[k];
    }
  }
}

std::byte* take(gpu::BlockMemory& memory, std::size_t bytes) {
  std::byte* block = memory.take(bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

std::uint64_t DeviceAdapter::bytes(const Adapter& adapter) {
  std::uint64_t floats = 0;
  for (const AdapterPart& part : adapter.parts()) {
    floats +=
        rounded(part.a.view.rows * part.a.view.columns) + rounded(part.b.view.rows * part.b.view.columns);
  }
  return floats * sizeof(float);
}

DeviceAdapter::DeviceAdapter(const Adapter& adapter, gpu::BlockMemory& memory)
    : memory_(memory), size_(bytes(adapter)), block_(take(memory, size_)) {
  std::size_t at = 0;
  std::vector<float> floats;
  const auto put = [&](const gpu::WeightView& matrix, bool transposed) {
    floats.assign(rounded(matrix.rows * matrix.columns), 0.0F);
    widen(matrix, transposed, floats.data());
    std::byte* to = block_ + at;
    memory_.from_host(to, reinterpret_cast<const std::byte*>(floats.data()), floats.size() * sizeof(float));
    at += floats.size() * sizeof(float);
    return reinterpret_cast<const float*>(to);
  };
  for (const AdapterPart& part : adapter.parts()) {
    const float* a = put(part.a.view, false);
    const float* b = put(part.b.view, true);
    changes_.emplace(part.name, gpu::cuda::LowRank{.a = a,
                                                   .b = b,
                                                   .rank = static_cast<int>(part.rank()),
                                                   .inputs = static_cast<int>(part.a.view.columns),
                                                   .outputs = static_cast<int>(part.b.view.rows),
                                                   .scale = part.scale});
  }
  max_rank_ = static_cast<int>(adapter.max_rank());
}

}  // namespace reprise::models::cuda
