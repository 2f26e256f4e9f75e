#pragma once
// Gated DeltaNet over the rows of a batch: causal convolution with SiLU, unit-length q and k, gates, the
// delta rule on the f32 state, and the gated norm of its output. gpu/kernels.h (causal_conv, l2_norm,
// delta_gates, delta_rule, rms_norm, gate_silu) is the specification.
//
// Of rows of bf16, prefill takes the rule in chunks of 64 tokens on the grid, decode one token at a time in f32; their bits
// differ. Of rows of f32, both go token after token in f32 (gpu/cuda/delta_net_precise.cu), with the same bits.
// Exactness: as gpu/cuda/batch.h.
//
// Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

struct DeltaNetShape {
  int key_heads = 0;
  int value_heads = 0;           // value head h goes with key head h / (value_heads / key_heads)
  int key_dim = 0;               // 16, 32, 64 or 128
  int value_dim = 0;             // a multiple of 16, at most 128
  int taps = 0;                  // 2 to 4
  std::size_t conv_offset = 0;   // in a slot: [taps - 1, channels] f32, the inputs before the next token
  std::size_t state_offset = 0;  // in a slot: [value_heads, key_dim, value_dim] f32

  int channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
  int value_size() const { return value_heads * value_dim; }
};

struct DeltaNetWeights {
  const float* conv;     // [taps, channels]
  const float* decay;    // [value_heads]: exp(A_log)
  const float* dt_bias;  // [value_heads]
  const float* norm;     // [value_dim]
  float norm_eps;
};

/// Row: the element of rows, Bf16 or float.
template <class Row>
struct DeltaNetPass {
  const Row* projected;  // [rows] rows of `stride`: q | k | v [channels], z [value_size],
                         // b [value_heads], a [value_heads]
  int stride;
  Row* out;               // [rows, value_size]
  std::byte* workspace;   // delta_net_workspace() bytes, aligned to 256
  SlotExports exports{};  // of a prefill
};

bool delta_net_supports(const DeltaNetShape& shape);
/// Enough for prefill and decode of so many rows in so many tiles, whose elements are `Row`.
template <class Row = Bf16>
std::size_t delta_net_workspace(const DeltaNetShape& shape, int rows, int tiles);
template <>
std::size_t delta_net_workspace<Bf16>(const DeltaNetShape& shape, int rows, int tiles);
template <>
std::size_t delta_net_workspace<float>(const DeltaNetShape& shape, int rows, int tiles);

/// Of a batch with tiles. The slots hold the state after the slices' rows then.
void delta_net_prefill(const DeltaNetShape& shape, const DeltaNetWeights& weights, const Batch& batch,
                       const DeltaNetPass<Bf16>& pass, StreamHandle stream);
void delta_net_prefill(const DeltaNetShape& shape, const DeltaNetWeights& weights, const Batch& batch,
                       const DeltaNetPass<float>& pass, StreamHandle stream);
/// Of a batch whose slices have one row each.
void delta_net_decode(const DeltaNetShape& shape, const DeltaNetWeights& weights, const Batch& batch,
                      const DeltaNetPass<Bf16>& pass, StreamHandle stream);
void delta_net_decode(const DeltaNetShape& shape, const DeltaNetWeights& weights, const Batch& batch,
                      const DeltaNetPass<float>& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
