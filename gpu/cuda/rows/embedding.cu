// Embedding lookup for bf16 tables, a block per row; optionally with the deferred norm of the first GEMM and
// the RoPE tables.

#include "gpu/cuda/rows/embedding.h"

#include "base/check.h"
#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/gemm/decode_outputs.cuh"
#include "gpu/cuda/gemm/decode_product.cuh"
#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/memory/launch.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kThreads = 1024;  // enough loads in flight for a row

/// One block per row. next.to.x null: no deferred norm; rope.pairs 0: no RoPE.
__global__ void __launch_bounds__(kThreads)
    embed_rows(const std::int32_t* tokens, const Bf16* table, int size, float factor, float* y,
               DeferredNormOutput next, RopeRows rope) {
  const int thread = static_cast<int>(threadIdx.x);
  constexpr int kLine = 32;  // weights per cache line
  if (next.to.x != nullptr && thread * kLine < size)
    product::prefetch_line(next.norm.weight + thread * kLine);
  pdl_wait();
  pdl_launch_dependents();
  const Bf16* from = table + static_cast<std::size_t>(tokens[blockIdx.x]) * size;
  for (int i = thread; i < rope.pairs; i += kThreads) put_rope_entry(rope, static_cast<int>(blockIdx.x), i);
  for (int i = thread; i < size; i += kThreads) {
    const std::size_t element = static_cast<std::size_t>(blockIdx.x) * size + i;
    const float value = factor * widen(__ldg(from + i));
    y[element] = value;
    if (next.to.x != nullptr) product::put_deferred_norm(next, element, i, value);
  }
}

void launch(const std::int32_t* tokens, int rows, const DeviceWeight& table, float factor, float* y,
            const DeferredNormOutput& next, const RopeRows& rope, StreamHandle stream) {
  launch_after(embed_rows, {.blocks = dim3(rows), .threads = kThreads}, stream, tokens,
               static_cast<const Bf16*>(table.data), table.columns, factor, y, next, rope);
}

}  // namespace

void embed_bf16(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y,
                StreamHandle stream) {
  launch(tokens, rows, table, 1, y, DeferredNormOutput{}, RopeRows{}, stream);
}

void embed_bf16_to_residual(const std::int32_t* tokens, int rows, const DeviceWeight& table, float factor,
                            float* y, const DeferredNormOutput& next, const RopeRows& rope,
                            StreamHandle stream) {
  REPRISE_CHECK(table.columns % 32 == 0, "the residual's width is not a multiple of 32");
  launch(tokens, rows, table, factor, y, next, rope, stream);
}

}  // namespace reprise::gpu::cuda
