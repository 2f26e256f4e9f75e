#pragma once
// Gated DeltaNet over the rows of a batch: causal convolution with SiLU, L2 norm of q and k, gates, the delta
// rule on the f32 state, and the gated norm of its output. gpu/kernels.h (causal_conv, l2_norm, delta_gates,
// delta_rule, rms_norm, gate_silu) is the specification. The state in the slots is updated.
//
// For bf16 rows, prefill uses the chunked delta rule, 64 tokens per chunk on the grid, and decode the
// sequential rule in f32; their bits differ. For f32 rows both use the sequential rule
// (gated_delta_net_precise.cu) and are bitwise identical.

#include <cstddef>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

struct GatedDeltaNetShape {
  int key_heads = 0;
  int value_heads = 0;          // value head h uses key head h / (value_heads / key_heads)
  int key_dim = 0;              // 16, 32, 64 or 128
  int value_dim = 0;            // a multiple of 16, at most 128
  int taps = 0;                 // 2 to 4
  std::size_t conv_offset = 0;  // bytes in a slot: [taps - 1, channels] f32, the inputs before the next token
  std::size_t state_offset = 0;  // bytes in a slot: [value_heads, key_dim, value_dim] f32

  int channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
  int value_size() const { return value_heads * value_dim; }
};

struct GatedDeltaNetWeights {
  const float* conv;     // [taps, channels]
  const float* decay;    // [value_heads]: exp(A_log)
  const float* dt_bias;  // [value_heads]
  const float* norm;     // [value_dim]
  float norm_eps;
};

template <class Row>
struct GatedDeltaNetPass {
  const Row* projected;  // [rows] rows of `stride`: q | k | v [channels], z [value_size],
                         // b [value_heads], a [value_heads]
  int stride;
  Row* out;              // [rows, value_size]
  std::byte* workspace;  // gated_delta_net_workspace() bytes, aligned to 256
  SlotExports exports{};
};

bool gated_delta_net_supports(const GatedDeltaNetShape& shape);
/// Returns the workspace bytes to prefill or decode `rows` rows of Row in `tiles` tiles.
template <class Row = Bf16>
std::size_t gated_delta_net_workspace(const GatedDeltaNetShape& shape, int rows, int tiles);
template <>
std::size_t gated_delta_net_workspace<Bf16>(const GatedDeltaNetShape& shape, int rows, int tiles);
template <>
std::size_t gated_delta_net_workspace<float>(const GatedDeltaNetShape& shape, int rows, int tiles);

/// Requires: the batch has tiles.
void gated_delta_net_prefill(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights,
                             const Batch& batch, const GatedDeltaNetPass<Bf16>& pass, StreamHandle stream);
void gated_delta_net_prefill(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights,
                             const Batch& batch, const GatedDeltaNetPass<float>& pass, StreamHandle stream);
/// Requires: every slice has one row.
void gated_delta_net_decode(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights,
                            const Batch& batch, const GatedDeltaNetPass<Bf16>& pass, StreamHandle stream);
void gated_delta_net_decode(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights,
                            const Batch& batch, const GatedDeltaNetPass<float>& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
