#pragma once
// Shared by the Gated DeltaNet kernels: sizes, prefill workspace, gates and warp sums.

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/recurrence/chunk_triangles.cuh"
#include "gpu/cuda/recurrence/gated_delta_net.h"
#include "gpu/cuda/rows/activations.cuh"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

constexpr float kUnitEps = 1e-6F;  // epsilon of the L2 norms of q and k
constexpr int kMaxTaps = 4;
constexpr int kMaxGroup = 8;  // max value heads per key head
constexpr unsigned kWholeWarp = 0xffffffffU;

/// GatedDeltaNetShape with derived sizes.
struct GatedDeltaNetSizes {
  int key_heads;
  int value_heads;
  int group;  // value heads per key head
  int key_dim;
  int value_dim;
  int taps;
  int channels;
  int value_size;
  std::size_t conv_offset;
  std::size_t state_offset;

  explicit GatedDeltaNetSizes(const GatedDeltaNetShape& shape)
      : key_heads(shape.key_heads),
        value_heads(shape.value_heads),
        group(shape.value_heads / shape.key_heads),
        key_dim(shape.key_dim),
        value_dim(shape.value_dim),
        taps(shape.taps),
        channels(shape.channels()),
        value_size(shape.value_size()),
        conv_offset(shape.conv_offset),
        state_offset(shape.state_offset) {}
};

/// Bytes of a chunk's triangular matrices of one head, as A fragments (chunk_triangles.cuh): T high, T low, P
/// high, P low.
constexpr int kChunkMatrixBytes = 4 * kBlocks * kBlockBytes;

/// Prefill workspace, tile by tile. Rows past the end of a slice are zero, except in `out`.
struct PrefillSpace {
  __nv_bfloat16* q;     // [tiles, key_heads, 64, key_dim]: L2-normalized, times key_dim^-1/2
  __nv_bfloat16* k;     // as q, L2-normalized
  __nv_bfloat16* v;     // [tiles, value_heads, 64, value_dim]
  float* g;             // [tiles, value_heads, 64]: log decays
  float* sums;          // [tiles, value_heads, 64]: prefix sums of g in the chunk
  float* beta;          // [tiles, value_heads, 64]
  std::byte* matrices;  // [tiles, value_heads] of kChunkMatrixBytes
  float* out;           // [tiles, value_heads, 64, value_dim]: before the gated norm
};

/// The chunked delta rule (gated_delta_net_chunks.cu). Requires: `space` holds q, k, v, g and beta.
void gated_delta_net_chunks(const GatedDeltaNetSizes& sizes, const Batch& batch, const SlotExports& exports,
                            const PrefillSpace& space, StreamHandle stream);

namespace {

__device__ inline float log_decay(float a, float decay, float dt_bias) {
  return -decay * softplus_of(a + dt_bias);
}

/// All lanes get the same bits.
__device__ inline float warp_sum(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(kWholeWarp, x, distance);
  return x;
}
/// warp_sum() of kCount values (a power of two), bitwise the same; the sum of value i is in lanes [i * 32 /
/// kCount, (i + 1) * 32 / kCount). A butterfly that halves the values per lane at each step, to exchange
/// less.
template <int kCount>
__device__ inline float warp_sums(float (&x)[kCount], int lane) {
  int distance = 16;
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float kept = upper ? x[i + half] : x[i];
      const float given = upper ? x[i] : x[i + half];
      x[i] = kept + __shfl_xor_sync(kWholeWarp, given, distance);
    }
    distance /= 2;
  }
#pragma unroll
  for (int left = 32 / kCount; left > 1; left /= 2) {
    x[0] += __shfl_xor_sync(kWholeWarp, x[0], left / 2);
  }
  return x[0];
}
/// Broadcasts sum i of warp_sums().
template <int kCount>
__device__ inline float broadcast_sum(float x, int i) {
  return __shfl_sync(kWholeWarp, x, i * (32 / kCount));
}

/// Returns the slice of a tile; with a single slice without waiting for the load of the tile.
__device__ inline BatchSlice slice_of_tile(const Batch& batch, const BatchTile& tile) {
  return batch.slices[batch.slice_count == 1 ? 0 : tile.slice];
}

}  // namespace
}  // namespace reprise::gpu::cuda
