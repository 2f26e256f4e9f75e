// f32 attention.
//
// Computes: attention of f32 rows, without tensor cores, after attention_prepare().
//
// Chosen when: rows are f32, for prefill and decode. Mapping: grid (row, up to four query heads of one KV
// head); the block is described in precise_row.cuh. Bits: the order of additions depends only on the row's
// position, so prefill and decode are bitwise identical.

#include <cmath>

#include "gpu/cuda/attention/pages.cuh"
#include "gpu/cuda/attention/parts.h"
#include "gpu/cuda/attention/precise_row.cuh"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kMaxQueries = 4;  // per block

/// Grid: rows, last first because it has the most keys; parts of the query heads.
template <KvType kKv, int kDim, int kQueries>
__global__ void __launch_bounds__(kPreciseThreads)
    attend_rows(AttentionShape shape, Batch batch, AttentionPass<float> pass, const float* q,
                std::byte* prefill_pages, float scale) {
  using Kept = KvRow<kKv, kDim>;
  __shared__ PreciseShared<kDim> shared;
  __shared__ __align__(16) float queries[kQueries * kDim];
  const int row = batch.rows - 1 - static_cast<int>(blockIdx.x);
  const int slice_index = batch.row_slice[row];
  if (slice_index == kNoSlice) return;
  const BatchSlice slice = batch.slices[slice_index];
  const int position = slice.stored + row - slice.first_row;
  const int group = shape.heads / shape.kv_heads;
  const int parts = (group + kQueries - 1) / kQueries;
  const int kv_head = static_cast<int>(blockIdx.y) / parts;
  const int first = static_cast<int>(blockIdx.y) % parts * kQueries;  // head in the group
  const int present = min(kQueries, group - first);
  const int head = kv_head * group + first;

  const std::size_t first_element = (static_cast<std::size_t>(row) * shape.heads + head) * kDim;
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * kDim; i += kPreciseThreads) {
    queries[i] = i < present * kDim ? q[first_element + i] : 0.0F;
  }
  __syncthreads();

  const PreciseKeys keys{.first = first_key(shape, position),
                         .last = position,
                         .key_chunks = kDim / 8,
                         .value_chunks = kDim / 8,
                         .row_bytes = Kept::kBytes,
                         .scale = scale};
  const auto step_at = [&](int step) -> PreciseStep {
    const std::byte* page =
        key_page<kElementInRing<kKv>>(shape, slice, slice_index, prefill_pages, step * kKeysOfStep / kGrid) +
        static_cast<std::size_t>(kv_head * kGrid + step * kKeysOfStep % kGrid) * Kept::kBytes;
    return {.keys = page + shape.k_offset, .values = page + shape.v_offset};
  };
  const float* gates = pass.projected + static_cast<std::size_t>(row) * pass.stride;
  attend_precisely<Kept, kQueries, kDim / 8, 1>(
      shared, queries, keys, step_at, [&](int query, int column, float result) {
        if (query >= present) return;
        if (shape.output_gate) result *= sigmoid_of(gates[(2 * (head + query) + 1) * kDim + column]);
        pass.out[first_element + query * kDim + column] = result;
      });
}

template <KvType kKv, int kDim, int kQueries>
void launch_rows(const AttentionShape& shape, const Batch& batch, const AttentionPass<float>& pass,
                 StreamHandle stream) {
  const int parts = (shape.group() + kQueries - 1) / kQueries;
  const dim3 blocks(static_cast<unsigned>(batch.rows), static_cast<unsigned>(shape.kv_heads * parts));
  const float scale = shape.score_multiplier / std::sqrt(static_cast<float>(shape.head_dim));
  attend_rows<kKv, kDim, kQueries><<<blocks, kPreciseThreads, 0, stream>>>(
      shape, batch, pass, reinterpret_cast<const float*>(pass.workspace), own_pages(shape, batch, pass),
      scale);
  check_launch("attention of rows of f32");
}

void attend(const AttentionShape& shape, const Batch& batch, const AttentionPass<float>& pass,
            StreamHandle stream) {
  if (batch.rows == 0) return;
  attention_prepare(shape, batch, pass, stream);
  with_rows<float>(shape, [&](auto kv, auto dim) {
    constexpr KvType kKv = decltype(kv)::value;
    constexpr int kDim = decltype(dim)::value;
    if (shape.group() == 1) return launch_rows<kKv, kDim, 1>(shape, batch, pass, stream);
    launch_rows<kKv, kDim, kMaxQueries>(shape, batch, pass, stream);
  });
}

}  // namespace

void attention_prefill(const AttentionShape& shape, const Batch& batch, const AttentionPass<float>& pass,
                       StreamHandle stream) {
  attend(shape, batch, pass, stream);
  if (shape.window == 0 || batch.tile_count == 0) return;
  keep_window(shape, batch, pass.exports, own_pages(shape, batch, pass), stream);
}

void attention_decode(const AttentionShape& shape, const Batch& batch, const AttentionPass<float>& pass,
                      StreamHandle stream) {
  REPRISE_CHECK(batch.rows == batch.slice_count, "a decode batch has a slice without exactly one row");
  attend(shape, batch, pass, stream);
}

}  // namespace reprise::gpu::cuda
