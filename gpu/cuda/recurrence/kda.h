#pragma once
// Kimi Delta Attention over the rows of a batch, from after its convolutions to before its output projection:
// L2 norm and gates, the delta rule with a decay per key channel, and the gated norm of the output.
// gpu/kernels.h (l2_norm, rms_norm, gate_sigmoid) is the specification.
//
// Prefill uses the chunked delta rule, 64 tokens per chunk on the grid, if the shape allows it
// (kda_prefill.cu). Decode, other shapes, and a prefill with `token_after_token` use the sequential rule in
// f32 (scan.cuh). The bits of the two differ; the choice depends only on the shape, on that option and on
// whether the batch has tiles.

#include <cstddef>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

struct KdaShape {
  int heads = 0;
  int head_dim = 0;              // of keys and of values
  std::size_t state_offset = 0;  // bytes in a slot: f32 [heads, head_dim of keys, head_dim of values]

  int size() const { return heads * head_dim; }
};

/// Arrays are f32 [rows, heads, head_dim] unless stated otherwise.
struct KdaPass {
  float* q;  // after the convolution; overwritten, as are k, decay and beta
  float* k;
  const float* v;
  float* decay;  // projected input of the decay
  float* beta;   // [rows] rows of `beta_stride`: projected b [heads]
  int beta_stride;
  const float* rate;               // [heads]: exp(A_log)
  const float* dt_bias;            // [heads, head_dim]
  float unit_eps;                  // epsilon of the L2 norms of q and k
  bool token_after_token = false;  // sequential f32 rule in prefill too
  float* out;
  std::byte* workspace = nullptr;  // kda_workspace() bytes, aligned to 256
  SlotExports exports{};
};

bool kda_supports(const KdaShape& shape);
/// Returns the workspace bytes to prefill or decode `rows` rows in `tiles` tiles.
std::size_t kda_workspace(const KdaShape& shape, int rows, int tiles);

/// Writes out and updates the state in the slots.
void kda(const KdaShape& shape, const Batch& batch, const KdaPass& pass, StreamHandle stream);

template <class Row>
struct KdaGate {
  const float* y;   // [rows, heads, head_dim]
  const Row* gate;  // [rows] rows of `gate_stride`: [heads, head_dim]
  int gate_stride;
  const float* norm;  // [head_dim]
  float norm_offset;
  float norm_eps;
  Row* out;  // [rows, heads, head_dim]: norm(y) sigmoid(gate), the norm over each head
};

void gate_kda(const KdaShape& shape, int rows, const KdaGate<Bf16>& pass, StreamHandle stream);
void gate_kda(const KdaShape& shape, int rows, const KdaGate<float>& pass, StreamHandle stream);

// -- internal to kda.cu: the chunked rule (kda_prefill.cu)

/// Returns whether the chunked rule has a kernel for the shape: head_dim 16, 32, 64 or 128.
bool can_use_kda_chunks(const KdaShape& shape);

/// Returns the workspace bytes of the chunked rule for `tiles` tiles.
std::size_t kda_chunks_workspace(const KdaShape& shape, int tiles);

/// The chunked rule for a batch with tiles. pass.q, pass.k and pass.beta are the inputs of the delta rule in
/// gpu/kernels.h, pass.decay the logarithms of the decays; all four are overwritten.
void kda_in_chunks(const KdaShape& shape, const Batch& batch, const KdaPass& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
