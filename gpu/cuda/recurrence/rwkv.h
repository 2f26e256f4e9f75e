#pragma once
// RWKV-7 between its GEMMs, over the rows of a batch: token shift, activations inside the low-rank pairs,
// gates, the recurrence, and the norm, bonus and gate after it. gpu/kernels.h is the specification; the same
// kernels serve prefill and decode.

#include <cstddef>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

template <class Row>
struct TokenShiftPass {
  const Row* x;  // [rows, size]
  int size;
  const float* mix;  // [mixes, size]
  int mixes;
  Row* y;  // [mixes] arrays [rows, size], `table` elements apart
  std::size_t table;
  std::size_t state_offset;  // bytes in a slot: f32 [size], the row before the next token
  SlotExports exports{};
};

/// Mixes each row with the row before it and saves the slices' last rows in the slots.
void token_shift(const Batch& batch, const TokenShiftPass<Bf16>& pass, StreamHandle stream);
void token_shift(const Batch& batch, const TokenShiftPass<float>& pass, StreamHandle stream);

enum class PairFunction { kNone, kTanh, kSigmoid };

/// y [rows] rows of `stride` = act(x) for x f32 [rows, size]; the rest of each row becomes zero.
void activate_rows(const float* x, int rows, int size, PairFunction act, Bf16* y, int stride,
                   StreamHandle stream);
void activate_rows(const float* x, int rows, int size, PairFunction act, float* y, int stride,
                   StreamHandle stream);

struct WkvShape {
  int heads = 0;
  int head_dim = 0;
  std::size_t state_offset = 0;  // bytes in a slot: f32 [heads, head_dim of keys, head_dim of values]

  int size() const { return heads * head_dim; }
};

/// Arrays are f32 [rows, heads, head_dim] unless stated otherwise.
template <class Row>
struct WkvPass {
  const float* r;
  float* decay;  // projected values; overwritten, as are rate, k and v
  float* rate;
  float* k;
  float* v;
  float* key;               // scratch
  const float* mix;         // projected mix of v with the first layer's v; null: this is the first layer
  float* first;             // v of the first layer, which writes it
  const float* key_scale;   // [heads, head_dim]
  const float* rate_scale;  // [heads, head_dim]
  const float* norm;        // [heads, head_dim]
  const float* norm_bias;   // [heads, head_dim]
  float norm_eps;
  const float* bonus;  // [heads, head_dim]
  const float* gate;
  float* made;  // scratch: output of the recurrence
  Row* out;     // (norm(made) + v * sum over the head of (r k bonus)) * gate
  SlotExports exports{};
};

bool wkv_supports(const WkvShape& shape);

/// Writes out and updates the state in the slots.
void wkv(const WkvShape& shape, const Batch& batch, const WkvPass<Bf16>& pass, StreamHandle stream);
void wkv(const WkvShape& shape, const Batch& batch, const WkvPass<float>& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
