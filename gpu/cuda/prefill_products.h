#pragma once
// Two kinds of products of a prefill, with weights of bf16, by warpgroups (compute capability 9.0): those of a gate with what it
// gates, where the gate is taken on the way, and those with few outputs, which are added to rows of f32.
//
// Exactness: whatever the number of rows and the tiles that are chosen for it, an output of a gated product is one sum over the
// columns, sixteen at a time from the first on; an output of an added one is two such sums, over half of the columns each.
//
// Why halves: few outputs are few tiles, and small ones bring more bytes than they are worth. Of few rows each half is a block's,
// which then has a tile of twice the size.
//
// Threading: no state.

#include "gpu/cuda/gemm.h"

namespace reprise::gpu::cuda {

/// Rows of bf16 [outputs, columns].
struct PrefillWeight {
  const Bf16* rows;
  int outputs;
  int columns;
  bool stays;  // no kernel of the stream has written it
};

/// Rows up to which gates are taken on the way: of more, cuBLASLt's product and a kernel for the gates are as fast.
inline constexpr int kMostGatedRows = 512;

/// Whether this thread's GPU has them for weights of these sizes.
bool gated_prefill_suits(int outputs, int columns);
bool halved_prefill_suits(int outputs, int columns);

/// x bf16 [m, columns], to.y bf16 [m, outputs / 2]: the first half of the weights are gates'. m is a multiple of kGrid.
void multiply_gated_prefill(const Bf16* x, int m, const PrefillWeight& weight, const GatedRows& to,
                            StreamHandle stream);

/// y f32 [m, outputs] += x bf16 [m, columns] W^T. m is a multiple of kGrid.
void add_halved_prefill(const Bf16* x, int m, const PrefillWeight& weight, float* y, StreamHandle stream);

}  // namespace reprise::gpu::cuda
