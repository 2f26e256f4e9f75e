#pragma once
// What the kernels of Gated DeltaNet share: sizes, the workspace of a prefill, gates and sums. Included by CUDA sources
// alone; what kernels call has internal linkage.

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/activations.cuh"
#include "gpu/cuda/batch.h"
#include "gpu/cuda/chunk_triangles.cuh"
#include "gpu/cuda/delta_net.h"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda {

constexpr float kUnitEps = 1e-6F;  // of the unit length of q and k
constexpr int kMostTaps = 4;
constexpr int kLargestGroup = 8;  // value heads of a key head
constexpr unsigned kWholeWarp = 0xffffffffU;

/// DeltaNetShape for kernels.
struct DeltaNetSizes {
  int key_heads;
  int value_heads;
  int group;  // value heads of a key head
  int key_dim;
  int value_dim;
  int taps;
  int channels;
  int value_size;
  std::size_t conv_offset;
  std::size_t state_offset;

  explicit DeltaNetSizes(const DeltaNetShape& shape)
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

/// The triangular matrices of a chunk and head, as A fragments (chunk_triangles.cuh): T high, T low, P high, P low.
constexpr int kChunkMatrixBytes = 4 * kBlocks * kBlockBytes;

/// Of a prefill, tile by tile. Rows beyond the end of a slice are zeros in all but `out`.
struct PrefillSpace {
  __nv_bfloat16* q;     // [tiles, key_heads, 64, key_dim]: unit length, times key_dim^-1/2
  __nv_bfloat16* k;     // as q: unit length
  __nv_bfloat16* v;     // [tiles, value_heads, 64, value_dim]
  float* g;             // [tiles, value_heads, 64]: logarithms of decays
  float* sums;          // [tiles, value_heads, 64]: their sums from the chunk's start
  float* beta;          // [tiles, value_heads, 64]
  std::byte* matrices;  // [tiles, value_heads] of kChunkMatrixBytes
  float* out;           // [tiles, value_heads, 64, value_dim]: before the gated norm
};

/// The delta rule in chunks of 64 tokens, on what is in `space` beside `sums`, `matrices` and `out` (delta_net_chunks.cu).
void delta_net_chunks(const DeltaNetSizes& sizes, const Batch& batch, const SlotExports& exports,
                      const PrefillSpace& space, StreamHandle stream);

namespace {

__device__ inline float log_decay(float a, float decay, float dt_bias) {
  return -decay * softplus_of(a + dt_bias);
}

/// The same bits in every lane.
__device__ inline float warp_sum(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(kWholeWarp, x, distance);
  return x;
}
/// warp_sum() of kCount numbers, a power of two, with the same bits: that of number i in the kCount-th part i of the lanes.
/// Halves of the lanes share out the numbers as they go, so that there is less to exchange.
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
/// What the lanes with number i of warp_sums() have.
template <int kCount>
__device__ inline float of_number(float x, int i) {
  return __shfl_sync(kWholeWarp, x, i * (32 / kCount));
}

/// The slice of a tile; a single one without a wait for the tile.
__device__ inline BatchSlice slice_of_tile(const Batch& batch, const BatchTile& tile) {
  return batch.slices[batch.slice_count == 1 ? 0 : tile.slice];
}

}  // namespace
}  // namespace reprise::gpu::cuda
