#pragma once
// The Real-Gated Linear Recurrent Unit over the rows of a batch, behind its gates (gpu/cuda/small_products.h), with the
// branch that it is multiplied by. gpu/kernels.h (RgLru) and gpu/kernels.h (gate_gelu) are the specification.
//
// Prefill takes the tiles of a batch all at once (gpu/cuda/scan_tiles.cuh), decode one token at a time; their bits
// differ.
//
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

struct RgLruShape {
  int channels = 0;
  std::size_t state_offset = 0;  // in a slot: h f32 [channels]
};

/// Row: the element of rows, Bf16 or float.
template <class Row>
struct RgLruPass {
  const float* x;          // [rows, channels]: after the convolution
  float* input_gate;       // [rows, channels]: before their sigmoid; both are used up
  float* recurrence_gate;  // [rows, channels]
  const float* rate;       // [channels]: at most 0
  const Row* branch;       // [rows] rows of `branch_stride`: before gelu
  int branch_stride;
  Row* out;                        // [rows, channels]: h gelu(branch)
  std::byte* workspace = nullptr;  // rg_lru_workspace() bytes, aligned to 4
  SlotExports exports{};           // of a prefill
};

/// Enough for a batch of so many tiles: 2 * channels floats for each. None for decode.
std::size_t rg_lru_workspace(const RgLruShape& shape, int tiles);

/// A batch with tiles is a prefill. The slots hold h after the slices' rows then.
void rg_lru(const RgLruShape& shape, const Batch& batch, const RgLruPass<Bf16>& pass, StreamHandle stream);
void rg_lru(const RgLruShape& shape, const Batch& batch, const RgLruPass<float>& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
