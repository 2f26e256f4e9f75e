#pragma once
// Kimi Delta Attention over the rows of a batch, between its convolutions and its last product: unit length and gates, the
// delta rule with a decay for every channel of the keys, the norm and gate behind it. gpu/kernels.h and
// gpu/kernels.h (l2_norm, rms_norm, gate_sigmoid) are the specification.
//
// Prefill takes the rule in chunks of 64 tokens on the grid where the shape allows (gpu/cuda/channel_delta_prefill.cu);
// decode, and other shapes, take it token after token in f32 (gpu/cuda/scan.cuh), as does a prefill that is asked to. The
// bits of the two differ; which one it is depends on the shape, on that wish and on whether the batch has tiles, on
// nothing else.
//
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

struct ChannelDeltaShape {
  int heads = 0;
  int head_dim = 0;              // of keys and of values
  std::size_t state_offset = 0;  // in a slot: f32 [heads, head_dim of keys, head_dim of values]

  int size() const { return heads * head_dim; }
};

/// All f32 [rows, heads, head_dim] unless it is said otherwise.
struct ChannelDeltaPass {
  float* q;  // after the convolution; used up, as are k, decay and beta
  float* k;
  const float* v;
  float* decay;  // f as it was projected
  float* beta;   // [rows] rows of `beta_stride`: b [heads] as it was projected
  int beta_stride;
  const float* rate;               // [heads]: exp(A_log)
  const float* dt_bias;            // [heads, head_dim]
  float unit_eps;                  // of the norms that give q and k unit length
  bool token_after_token = false;  // a prefill too: none of it in chunks, whose products are of bf16
  float* out;
  std::byte* workspace = nullptr;  // channel_delta_workspace() bytes, aligned to 256
  SlotExports exports{};           // of a prefill
};

bool channel_delta_supports(const ChannelDeltaShape& shape);
/// Enough for prefill and decode of so many rows in so many tiles.
std::size_t channel_delta_workspace(const ChannelDeltaShape& shape, int rows, int tiles);

/// The slots hold the state after the slices' rows then.
void channel_delta(const ChannelDeltaShape& shape, const Batch& batch, const ChannelDeltaPass& pass,
                   StreamHandle stream);

/// Row: the element of rows, Bf16 or float.
template <class Row>
struct ChannelDeltaGate {
  const float* y;   // [rows, heads, head_dim]
  const Row* gate;  // [rows] rows of `gate_stride`: [heads, head_dim]
  int gate_stride;
  const float* norm;  // [head_dim]
  float norm_offset;
  float norm_eps;
  Row* out;  // [rows, heads, head_dim]: norm(y) sigmoid(gate), the norm over each head
};

void gate_channel_delta(const ChannelDeltaShape& shape, int rows, const ChannelDeltaGate<Bf16>& pass,
                        StreamHandle stream);
void gate_channel_delta(const ChannelDeltaShape& shape, int rows, const ChannelDeltaGate<float>& pass,
                        StreamHandle stream);

// For channel_delta.cu alone: the rule in chunks (channel_delta_prefill.cu).

/// Whether the rule has a kernel in chunks for the shape: head_dim 16, 32, 64 or 128.
bool kda_suits_chunks(const ChannelDeltaShape& shape);

/// Bytes of workspace in chunks, for so many tiles.
std::size_t kda_chunks_workspace(const ChannelDeltaShape& shape, int tiles);

/// The rule in chunks, of a batch with tiles. pass.q, pass.k and pass.beta as the rule takes them (gpu/kernels.h),
/// pass.decay the logarithms of the decays; these are used up.
void kda_in_chunks(const ChannelDeltaShape& shape, const Batch& batch, const ChannelDeltaPass& pass,
                   StreamHandle stream);

}  // namespace reprise::gpu::cuda
