// Latent attention of rows of f32, in f32: a block has one token and four heads (gpu/cuda/attention_precise.cuh), whether the row
// is prefilled or decoded.
#include <type_traits>

#include "base/check.h"
#include "gpu/cuda/attention_precise.cuh"
#include "gpu/cuda/latent_prepare.cuh"
#include "gpu/gpu_limits.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kPreciseHeads = 4;   // of a block
constexpr int kLatentsOfLane = 2;  // eights of a latent
static_assert(kMostLatent == 32 * 8 * kLatentsOfLane, "a lane's columns of the sum are in its registers");

/// Blocks are (row, the last first: it has the most keys; some heads).
template <KvType kKv>
__global__ void __launch_bounds__(kPreciseThreads)
    attend_latent_rows(LatentShape shape, Batch batch, LatentPass<float> pass, int compared) {
  using Kept = KvRow<kKv, 8>;  // of which eights are read
  __shared__ PreciseShared<static_cast<int>(kMostLatent)> shared;
  __shared__ __align__(16) float queries[kPreciseHeads * static_cast<int>(kMostStored)];
  const int row = batch.rows - 1 - static_cast<int>(blockIdx.x);
  const int slice_index = batch.row_slice[row];
  if (slice_index == kNoSlice) return;
  const BatchSlice slice = batch.slices[slice_index];
  const int stored = shape.rank + shape.turned_dim;
  const int head = static_cast<int>(blockIdx.y) * kPreciseHeads;
  const int present = min(kPreciseHeads, shape.heads - head);
  const std::size_t place = static_cast<std::size_t>(row) * shape.heads + head;
  for (int i = static_cast<int>(threadIdx.x); i < kPreciseHeads * stored; i += kPreciseThreads) {
    const int query = i / stored;
    queries[i] = query < present ? pass.compared[(place + query) * compared + i % stored] : 0.0F;
  }
  __syncthreads();

  const PreciseKeys keys{.first = 0,
                         .last = slice.stored + row - slice.first_row,
                         .key_chunks = stored / 8,
                         .value_chunks = (shape.rank + 7) / 8,
                         .row_bytes = stored / 8 * Kept::kBytes,
                         .scale = shape.score_scale};
  const auto step_at = [&](int step) -> PreciseStep {
    const std::byte* latents = slice.pages[step * kKeysOfStep / kGrid] + shape.offset +
                               static_cast<std::size_t>(step * kKeysOfStep % kGrid) * keys.row_bytes;
    return {.keys = latents, .values = latents};
  };
  attend_precisely<Kept, kPreciseHeads, 32, kLatentsOfLane>(
      shared, queries, keys, step_at, [&](int query, int column, float result) {
        if (query >= present || column >= shape.rank) return;
        pass.out[(place + query) * shape.rank + column] = result;
      });
}

}  // namespace

void latent_attention(const LatentShape& shape, const Batch& batch, const LatentPass<float>& pass,
                      StreamHandle stream) {
  if (batch.rows == 0) return;
  REPRISE_CHECK(latent_supports<float>(shape), "latent attention has no kernel for this shape");
  const auto launch = [&](auto kv, auto kept) {
    prepare_latent_rows<float, decltype(kept)>(shape, batch, pass, stream);
    const dim3 blocks(static_cast<unsigned>(batch.rows),
                      static_cast<unsigned>((shape.heads + kPreciseHeads - 1) / kPreciseHeads));
    attend_latent_rows<decltype(kv)::value>
        <<<blocks, kPreciseThreads, 0, stream>>>(shape, batch, pass, shape.compared());
    check_launch("latent attention of rows of f32");
  };
  if (shape.kv == KvType::kF32) return launch(std::integral_constant<KvType, KvType::kF32>(), float{});
  launch(std::integral_constant<KvType, KvType::kBF16>(), Bf16{});
}

}  // namespace reprise::gpu::cuda
