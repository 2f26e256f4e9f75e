#pragma once
// The Real-Gated Linear Recurrent Unit over the rows of a batch, from after its gate projections
// (gemm/small_products.h), and the product with the other branch. gpu/kernels.h (RgLru, gate_gelu) is the
// specification.
//
// Prefill scans the tiles of a batch in parallel (scan_tiles.cuh), decode one token at a time; their bits
// differ.

#include <cstddef>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

struct RgLruShape {
  int channels = 0;
  std::size_t state_offset = 0;  // bytes in a slot: h f32 [channels]
};

template <class Row>
struct RgLruPass {
  const float* x;          // [rows, channels]: after the convolution
  float* input_gate;       // [rows, channels]: gate logits; both gates are overwritten
  float* recurrence_gate;  // [rows, channels]
  const float* rate;       // [channels], at most 0
  const Row* branch;       // [rows] rows of `branch_stride`: before GELU
  int branch_stride;
  Row* out;                        // [rows, channels]: h GELU(branch)
  std::byte* workspace = nullptr;  // rg_lru_workspace() bytes, aligned to 4
  SlotExports exports{};
};

/// Returns 2 * channels floats per tile, in bytes. Decode needs none.
std::size_t rg_lru_workspace(const RgLruShape& shape, int tiles);

/// A batch with tiles is a prefill. Writes out and updates h in the slots.
void rg_lru(const RgLruShape& shape, const Batch& batch, const RgLruPass<Bf16>& pass, StreamHandle stream);
void rg_lru(const RgLruShape& shape, const Batch& batch, const RgLruPass<float>& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
