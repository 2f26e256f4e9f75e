#pragma once
// The recurrence of Mamba-2 over the rows of a batch, and the gate and norm behind it. The specification is gpu/kernels.h.
//
// Prefill takes the recurrence in chunks of 64 tokens on the grid where the shape allows;
// decode, other shapes, and rows of f32 take it token after token in f32 (gpu/cuda/scan.cuh). The bits of the two differ;
// which one it is depends on the shape, on the element of rows and on whether the batch has tiles, on nothing else.
//
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

struct SsdShape {
  int heads = 0;
  int head_dim = 0;
  int groups = 0;  // divides heads; those of a group stand together and share B and C
  int state_size = 0;
  std::size_t state_offset = 0;  // in a slot: f32 [heads, state_size, head_dim]

  int inner() const { return heads * head_dim; }
  int channels() const { return inner() + 2 * groups * state_size; }
};

/// Row: the element of rows, Bf16 or float.
template <class Row>
struct SsdPass {
  const float*
      mixed;        // [rows, channels]: x [heads, head_dim], B [groups, state_size], C, after the convolution
  const Row* step;  // [rows] rows of `step_stride`: dt [heads] as it was projected
  int step_stride;
  const float* dt_bias;  // [heads]
  const float* decay;    // [heads]: exp(A_log)
  const float* skip;     // [heads]
  float dt_scale = 1;
  float dt_min = 0;
  float dt_max = 0;                // may be infinite
  float* out;                      // [rows, inner]
  std::byte* workspace = nullptr;  // ssd_workspace() bytes, aligned to 256
  SlotExports exports{};           // of a prefill
};

bool ssd_supports(const SsdShape& shape);
/// Enough for prefill and decode of so many rows in so many tiles.
std::size_t ssd_workspace(const SsdShape& shape, int rows, int tiles);

/// The slots hold the state after the slices' rows then.
void ssd(const SsdShape& shape, const Batch& batch, const SsdPass<Bf16>& pass, StreamHandle stream);
void ssd(const SsdShape& shape, const Batch& batch, const SsdPass<float>& pass, StreamHandle stream);

enum class SsdGating {
  kGateThenNorm,  // norm(silu(z) y)
  kNormThenGate,  // silu(z) norm(y)
  kGateAlone,     // silu(z) y
};

template <class Row>
struct SsdGatePass {
  const float* y;  // [rows, groups, size]
  const Row* z;    // [rows] rows of `z_stride`: [groups, size]
  int z_stride;
  float z_scale = 1;
  const float* norm;  // [groups, size]; not used where the gate is alone
  float norm_offset = 0;
  float norm_eps = 0;
  SsdGating gating;
  Row* out;  // [rows, groups, size]
};

/// Norms are over the `size` elements of a group.
void gate_ssd(int rows, int groups, int size, const SsdGatePass<Bf16>& pass, StreamHandle stream);
void gate_ssd(int rows, int groups, int size, const SsdGatePass<float>& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
