#pragma once
// What RWKV-7 asks of a device: the mix of a token with the one before it, the recurrence on matrices of state, what
// stands before and behind it, and norms with a mean. Part of the table in gpu/kernels.h, with its rules.
//
// Threading: as gpu/kernels.h.

#include <cstddef>

namespace reprise::gpu {

/// Rows mixed with those before them, for elements [begin, end) of all tokens of one sequence:
///   y_m = x_t + (x_{t-1} - x_t) mix_m, for each of `mixes`
struct TokenShift {
  float* previous;   // [size]: the row before the first token, which is replaced by the last one
  const float* x;    // [tokens, size]
  const float* mix;  // [mixes, size]
  float* y;          // [mixes] tables of rows, `table` floats apart: [tokens, size] of each
  std::size_t size;
  std::size_t mixes;
  std::size_t tokens;
  std::size_t table;
};

/// What the recurrence takes, from the products with x:
///   decay = exp(-e^-0.5 sigmoid(decay));  rate = sigmoid(rate);  key = k key_scale / |k key_scale|, head by head
///   k = k (1 + (rate - 1) rate_scale);  v = v + (first - v) sigmoid(mix)
struct WkvGates {
  float* decay;  // [rows, heads, head_dim], as are all the others but for the scales
  float* rate;
  float* k;
  float* key;  // made
  float* v;
  const float* mix;         // null: v stays
  const float* first;       // v of the first layer
  const float* key_scale;   // [heads, head_dim]
  const float* rate_scale;  // [heads, head_dim]
  std::size_t rows;
  std::size_t heads;
  std::size_t head_dim;
};

/// The recurrence of one head over consecutive tokens of one sequence:
///   S = diag(decay) S + (rate key) (-key^T S) + k v^T;  out = r^T S
/// where key is of unit length. r, k, v, decay, key and rate: [tokens] rows of head_dim, `stride` apart.
struct WkvRule {
  float* state;          // S [head_dim of keys, head_dim of values], updated
  std::size_t head_dim;  // a multiple of kLanes
  std::size_t tokens;
  const float* r;
  const float* k;
  const float* v;
  const float* decay;
  const float* key;
  const float* rate;
  std::size_t stride;
  float* out;  // as r
};

/// What stands behind the recurrence and its norm: y = (y + v (r . k . bonus summed over the head)) gate
struct WkvOutput {
  float* y;  // [rows, heads, head_dim], as are r, k, v and gate
  const float* r;
  const float* k;
  const float* v;
  const float* bonus;  // [heads, head_dim]
  const float* gate;   // null: 1
  std::size_t rows;
  std::size_t heads;
  std::size_t head_dim;
};

/// y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, for each of `rows` rows of `size`.
struct LayerNorm {
  const float* x;       // [rows, size]
  const float* weight;  // [groups, size]: row i has those of group i mod groups
  const float* bias;    // [groups, size]
  float eps;
  float* y;  // [rows, size]; may be x
  std::size_t rows;
  std::size_t groups;
  std::size_t size;
};

}  // namespace reprise::gpu
