#pragma once
// wgmma GEMMs for prefill with bf16 weights (compute capability 9.0): one with a gated epilogue
// (prefill_gated.cu), and a split-K one for few outputs that adds to f32 rows (split_k.cu).
//
// Bits: independent of m and of the tile. An output of the gated GEMM is one sum over k in ascending steps of
// 16, an output of the split-K GEMM the sum of two such sums, each over half of k.
//
// Why split-K: few outputs give few tiles, and small tiles load more bytes per output. For small m each half
// of k has its own block, with a tile twice as large.

#include "gpu/cuda/gemm/gemm.h"

namespace reprise::gpu::cuda {

/// bf16 [outputs, columns], row-major.
struct PrefillWeight {
  const Bf16* rows;
  int outputs;
  int columns;
  bool is_constant;  // not written by any kernel of the stream: may be read before the PDL wait
};

/// Above, cuBLASLt and a separate gate kernel are as fast.
inline constexpr int kMaxGatedRows = 512;

bool can_use_gated_prefill(int outputs, int columns);
bool can_use_split_k(int outputs, int columns);

/// to.y bf16 [m, outputs / 2] = gate(x W^T) for x bf16 [m, columns]; the first half of the outputs are gates.
/// Requires: m is a multiple of kGrid.
void multiply_gated_prefill(const Bf16* x, int m, const PrefillWeight& weight, const GatedRows& to,
                            StreamHandle stream);

/// y f32 [m, outputs] += x W^T for x bf16 [m, columns]. Requires: m is a multiple of kGrid.
void add_split_k(const Bf16* x, int m, const PrefillWeight& weight, float* y, StreamHandle stream);

}  // namespace reprise::gpu::cuda
