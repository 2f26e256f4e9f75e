#pragma once
// What comes before latent attention, of rows of either kind: the turned parts of queries, the norm of the new latents, and these
// into their pages. Included by CUDA sources alone, with internal linkage.

#include "gpu/cuda/error.h"
#include "gpu/cuda/latent_attention.h"
#include "gpu/cuda/row_element.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kPrepareWarps = 8;

/// Element i of a turned part x that was turned by a row's angles.
template <class Read>
__device__ __forceinline__ float turned_element(const LatentShape& shape, const Read& x, const float* cosine,
                                                const float* sine, int i) {
  const int half = shape.turned_dim / 2;
  const auto apart = [&](int at) {
    return x(!shape.neighbours ? at : at < half ? 2 * at : 2 * (at - half) + 1);
  };
  const int pairs = shape.rope_pairs;
  if (pairs == 0) return x(i);
  if (i < pairs) return apart(i) * cosine[i] - apart(i + pairs) * sine[i];
  if (i < 2 * pairs) return apart(i) * cosine[i - pairs] + apart(i - pairs) * sine[i - pairs];
  return apart(i);
}

/// A warp for each head of each row, and one for the row's latent. Kept: what latents are stored as.
template <class Row, class Kept>
__global__ void __launch_bounds__(32 * kPrepareWarps)
    prepare_latents(LatentShape shape, Batch batch, LatentPass<Row> pass, int compared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int item = static_cast<int>(blockIdx.x) * kPrepareWarps + static_cast<int>(threadIdx.x) / 32;
  const int row = item / (shape.heads + 1);
  if (row >= batch.rows || batch.row_slice[row] == kNoSlice) return;
  const int head = item % (shape.heads + 1);
  const int stored = shape.rank + shape.turned_dim;
  const float* cosine = pass.rope_cos + static_cast<std::size_t>(row) * shape.rope_pairs;
  const float* sine = pass.rope_sin + static_cast<std::size_t>(row) * shape.rope_pairs;
  if (head < shape.heads) {
    const Row* x = pass.queries + static_cast<std::size_t>(row) * pass.query_stride +
                   head * (shape.plain_dim + shape.turned_dim) + shape.plain_dim;
    Row* to = pass.compared + (static_cast<std::size_t>(row) * shape.heads + head) * compared + shape.rank;
    const auto read = [&](int i) { return load_row(x[i]); };
    for (int i = lane; i < compared - shape.rank; i += 32) {
      store_row(to[i], i < shape.turned_dim ? turned_element(shape, read, cosine, sine, i) : 0.0F);
    }
    return;
  }
  const BatchSlice& slice = batch.slices[batch.row_slice[row]];
  const int position = slice.stored + row - slice.first_row;
  Kept* to = reinterpret_cast<Kept*>(slice.pages[position / kGrid] + shape.offset) +
             static_cast<std::size_t>(position % kGrid) * stored;
  const float* latent = pass.made + static_cast<std::size_t>(row) * pass.made_stride;
  float squares = 0.0F;
  for (int i = lane; i < shape.rank; i += 32) squares = fmaf(latent[i], latent[i], squares);
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffU, squares, step);
  const float scale = 1.0F / sqrtf(squares / static_cast<float>(shape.rank) + shape.norm_eps);
  for (int i = lane; i < shape.rank; i += 32) {
    store_row(to[i], latent[i] * scale * (shape.norm_offset + pass.norm[i]));
  }
  const auto read = [&](int i) { return latent[shape.rank + i]; };
  for (int i = lane; i < shape.turned_dim; i += 32) {
    store_row(to[shape.rank + i], turned_element(shape, read, cosine, sine, i));
  }
}

template <class Row, class Kept>
void prepare_latent_rows(const LatentShape& shape, const Batch& batch, const LatentPass<Row>& pass,
                         StreamHandle stream) {
  const int items = batch.rows * (shape.heads + 1);
  const auto blocks = static_cast<unsigned>((items + kPrepareWarps - 1) / kPrepareWarps);
  prepare_latents<Row, Kept><<<blocks, 32 * kPrepareWarps, 0, stream>>>(shape, batch, pass, shape.compared());
  check_launch("latent attention: its rows");
}

}  // namespace
}  // namespace reprise::gpu::cuda
