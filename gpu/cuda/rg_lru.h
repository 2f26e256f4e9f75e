#pragma once
// The Real-Gated Linear Recurrent Unit over the rows of a batch, behind its gates (gpu/cuda/block_product.h), with the
// branch that it is multiplied by. gpu/rg_lru.h (RgLru) and gpu/kernels.h (gate_gelu) are the specification. What does
// not look along the sequence is computed for all rows at once; the sum itself token after token, by the same kernels
// in prefill and decode.
//
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/slot_exports.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

struct RgLruShape {
  int channels = 0;
  std::size_t state_offset = 0;  // in a slot: h f32 [channels]
};

struct RgLruPass {
  const float* x;          // [rows, channels]: after the convolution
  float* input_gate;       // [rows, channels]: before their sigmoid; both are used up
  float* recurrence_gate;  // [rows, channels]
  const float* rate;       // [channels]: at most 0
  const Bf16* branch;      // [rows] rows of `branch_stride`: before gelu
  int branch_stride;
  Bf16* out;              // [rows, channels]: h gelu(branch)
  SlotExports exports{};  // of a prefill
};

/// The slots hold h after the slices' rows then.
void rg_lru(const RgLruShape& shape, const Batch& batch, const RgLruPass& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
