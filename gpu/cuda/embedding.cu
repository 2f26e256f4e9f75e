#include "gpu/cuda/embedding.h"

#include "base/check.h"
#include "gpu/cuda/decode_outputs.cuh"
#include "gpu/cuda/decode_product.cuh"
#include "gpu/cuda/dependent_launch.cuh"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLineBytes = 128;

/// A block has a row. Without next.to.x nothing is left.
__global__ void __launch_bounds__(kThreads) embed_rows(const std::int32_t* tokens, const Bf16* table,
                                                       int size, float factor, float* y, NextRows next) {
  const Bf16* from = table + static_cast<std::size_t>(tokens[blockIdx.x]) * size;
  const int thread = static_cast<int>(threadIdx.x);
  constexpr int kOfTable = kLineBytes / sizeof(Bf16);
  constexpr int kOfNorm = kLineBytes / sizeof(float);
  for (int i = thread * kOfTable; i < size; i += kThreads * kOfTable) product::ask_for(from + i);
  if (next.to.x != nullptr) {
    for (int i = thread * kOfNorm; i < size; i += kThreads * kOfNorm) product::ask_for(next.norm.weight + i);
  }
  wait_for_earlier();
  let_next_begin();
  for (int i = thread; i < size; i += kThreads) {
    const std::size_t place = static_cast<std::size_t>(blockIdx.x) * size + i;
    const float value = factor * widen(from[i]);
    y[place] = value;
    if (next.to.x != nullptr) product::leave_element(next, place, i, value);
  }
}

void launch(const std::int32_t* tokens, int rows, const DeviceWeight& table, float factor, float* y,
            const NextRows& next, StreamHandle stream) {
  launch_after(embed_rows, {.blocks = dim3(rows), .threads = kThreads}, stream, tokens,
               static_cast<const Bf16*>(table.data), table.columns, factor, y, next);
}

}  // namespace

void embed_bf16(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y,
                StreamHandle stream) {
  launch(tokens, rows, table, 1, y, NextRows{}, stream);
}

void embed_bf16_to_stream(const std::int32_t* tokens, int rows, const DeviceWeight& table, float factor,
                          float* y, const NextRows& next, StreamHandle stream) {
  REPRISE_CHECK(table.columns % 32 == 0, "a stream that does not go by eights");
  launch(tokens, rows, table, factor, y, next, stream);
}

}  // namespace reprise::gpu::cuda
