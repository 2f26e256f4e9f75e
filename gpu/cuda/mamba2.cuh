#pragma once
// What the kernels of Mamba-2's recurrence share: the step of a token, and the workspace of a prefill in chunks. Included
// by CUDA sources alone, with internal linkage.

#include <cuda_bf16.h>

#include <cstddef>

#include "gpu/cuda/activations.cuh"
#include "gpu/cuda/chunk_triangles.cuh"
#include "gpu/cuda/mamba2.h"

namespace reprise::gpu::cuda {
namespace {

/// dt of a token and head; `step` as it was projected. Written so that a NaN stays one.
template <class Row>
__device__ __forceinline__ float ssd_dt(const SsdPass<Row>& pass, float step, float dt_bias) {
  const float raw = softplus_of(fmaf(pass.dt_scale, step, dt_bias));
  const float raised = raw < pass.dt_min ? pass.dt_min : raw;
  return raised > pass.dt_max ? pass.dt_max : raised;
}

constexpr int kProductBlockBytes = 1024;  // two C fragments: 2 x 32 lanes with 16 bytes
constexpr int kChunkProductBytes = kBlocks * kProductBlockBytes;

/// Of a prefill, tile by tile. Rows beyond the end of a slice are zeros, and add nothing to `sums`.
struct SsdSpace {
  SsdShape shape;
  int channels;
  int heads_of_group;
  __nv_bfloat16* b;  // [tiles, groups, 64, state_size]: rounded
  __nv_bfloat16* c;  // as b
  std::byte*
      products;  // [tiles, groups] of kChunkProductBytes: C B^T, the blocks of its lower triangle as C fragments
  float* dt;     // [tiles, heads, 64]
  float* sums;  // [tiles, heads, 64]: of -decay dt, from the chunk's start to the token, itself included
};

}  // namespace
}  // namespace reprise::gpu::cuda
