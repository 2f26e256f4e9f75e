#pragma once
// What RWKV-7 has between its products, over the rows of a batch: the mix of a token with the one before it, the functions
// inside its low-rank pairs, the gates, the recurrence, and the norm, bonus and gate behind it. gpu/kernels.h is the
// specification; the same kernels serve prefill and decode (gpu/cuda/scan.cuh).
//
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

/// Row: the element of rows, Bf16 or float.
template <class Row>
struct TokenShiftPass {
  const Row* x;  // [rows, size]
  int size;
  const float* mix;  // [mixes, size]
  int mixes;
  Row* y;  // [mixes] tables of rows [rows, size], `table` elements apart
  std::size_t table;
  std::size_t state_offset;  // in a slot: f32 [size], the row before the next token
  SlotExports exports{};     // of a prefill
};

/// The slots hold the slices' last rows then.
void token_shift(const Batch& batch, const TokenShiftPass<Bf16>& pass, StreamHandle stream);
void token_shift(const Batch& batch, const TokenShiftPass<float>& pass, StreamHandle stream);

enum class PairFunction { kNone, kTanh, kSigmoid };

/// y [rows] rows of `stride` = act(x), x f32 [rows, size]; zeros behind the `size` elements of a row.
void activate_rows(const float* x, int rows, int size, PairFunction act, Bf16* y, int stride,
                   StreamHandle stream);
void activate_rows(const float* x, int rows, int size, PairFunction act, float* y, int stride,
                   StreamHandle stream);

struct WkvShape {
  int heads = 0;
  int head_dim = 0;
  std::size_t state_offset = 0;  // in a slot: f32 [heads, head_dim of keys, head_dim of values]

  int size() const { return heads * head_dim; }
};

/// All f32 [rows, heads, head_dim] unless it is said otherwise.
template <class Row>
struct WkvPass {
  const float* r;
  float* decay;  // as it was projected; used up, as are rate, k and v
  float* rate;
  float* k;
  float* v;
  float* key;               // made here
  const float* mix;         // of v with that of the first layer, as it was projected; null: this is the first
  float* first;             // v of the first layer, which writes it
  const float* key_scale;   // [heads, head_dim]
  const float* rate_scale;  // [heads, head_dim]
  const float* norm;        // [heads, head_dim]
  const float* norm_bias;   // [heads, head_dim]
  float norm_eps;
  const float* bonus;  // [heads, head_dim]
  const float* gate;
  float* made;            // of the recurrence
  Row* out;               // (norm(made) + v (r . k . bonus summed over the head)) gate
  SlotExports exports{};  // of a prefill
};

bool wkv_supports(const WkvShape& shape);

/// The slots hold the state after the slices' rows then.
void wkv(const WkvShape& shape, const Batch& batch, const WkvPass<Bf16>& pass, StreamHandle stream);
void wkv(const WkvShape& shape, const Batch& batch, const WkvPass<float>& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
