#pragma once
// The Mamba-2 recurrence (SSD) over the rows of a batch, and the gated norm after it. gpu/kernels.h is the
// specification.
//
// Prefill uses the chunked form, 64 tokens per chunk on the grid, if the shape allows it. Decode, other
// shapes and f32 rows use the sequential form in f32 (scan.cuh). The bits of the two differ; the choice
// depends only on the shape, on the element type and on whether the batch has tiles.

#include <cstddef>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

struct Mamba2Shape {
  int heads = 0;
  int head_dim = 0;
  int groups = 0;  // divides heads; consecutive heads form a group and share B and C
  int state_size = 0;
  std::size_t state_offset = 0;  // bytes in a slot: f32 [heads, state_size, head_dim]

  int inner() const { return heads * head_dim; }
  int channels() const { return inner() + 2 * groups * state_size; }
};

template <class Row>
struct Mamba2Pass {
  // [rows, channels] after the convolution: x [heads, head_dim], B [groups, state_size], C (as B)
  const float* mixed;
  const Row* step;  // [rows] rows of `step_stride`: projected dt [heads]
  int step_stride;
  const float* dt_bias;  // [heads]
  const float* decay;    // [heads]: exp(A_log)
  const float* skip;     // [heads]
  float dt_scale = 1;
  float dt_min = 0;
  float dt_max = 0;                // may be infinity
  float* out;                      // [rows, inner]
  std::byte* workspace = nullptr;  // mamba2_workspace() bytes, aligned to 256
  SlotExports exports{};
};

bool mamba2_supports(const Mamba2Shape& shape);
/// Returns the workspace bytes to prefill or decode `rows` rows in `tiles` tiles.
std::size_t mamba2_workspace(const Mamba2Shape& shape, int rows, int tiles);

/// Writes out and updates the state in the slots.
void mamba2(const Mamba2Shape& shape, const Batch& batch, const Mamba2Pass<Bf16>& pass, StreamHandle stream);
void mamba2(const Mamba2Shape& shape, const Batch& batch, const Mamba2Pass<float>& pass, StreamHandle stream);

enum class Mamba2Gating {
  kGateThenNorm,  // norm(silu(z) y)
  kNormThenGate,  // silu(z) norm(y)
  kGateAlone,     // silu(z) y
};

template <class Row>
struct Mamba2GatePass {
  const float* y;  // [rows, groups, size]
  const Row* z;    // [rows] rows of `z_stride`: [groups, size]
  int z_stride;
  float z_scale = 1;
  const float* norm;  // [groups, size]; unused for kGateAlone
  float norm_offset = 0;
  float norm_eps = 0;
  Mamba2Gating gating;
  Row* out;  // [rows, groups, size]
};

/// Gated norm after the recurrence, over the `size` elements of each group.
void gate_mamba2(int rows, int groups, int size, const Mamba2GatePass<Bf16>& pass, StreamHandle stream);
void gate_mamba2(int rows, int groups, int size, const Mamba2GatePass<float>& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
