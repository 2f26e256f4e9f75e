#pragma once
// The delta rule with a decay for every channel of the keys (Kimi Delta Attention), of one head over consecutive tokens
// of one sequence:
//
//   decay_i = exp(-rate softplus(f_i + dt_bias_i));  beta = sigmoid(b)
//   S = diag(decay) S;  S += k (beta (v - k^T S));  o = q^T S
//
// The gates of all heads are one operation, ChannelGates; the rule takes what it made.
//
// Threading: any thread, on disjoint outputs.

#include <cstddef>

namespace reprise::gpu {

/// Of one token.
struct ChannelGates {
  float* decay;          // [heads, size]: f, turned into the decay
  float* beta;           // [heads]: b, turned into beta
  const float* rate;     // [heads], positive
  const float* dt_bias;  // [heads, size]
  std::size_t heads;
  std::size_t size;  // of the keys of a head
};

struct ChannelDeltaRule {
  float* state;  // S [key_dim, value_dim], updated
  std::size_t key_dim;
  std::size_t value_dim;  // a multiple of kLanes
  std::size_t tokens;
  const float* q;      // [tokens] rows of key_dim, `stride` apart: normalised and scaled
  const float* k;      // as q: normalised
  const float* v;      // [tokens] rows of value_dim, `stride` apart
  const float* decay;  // [tokens] rows of key_dim, `stride` apart
  std::size_t stride;
  const float* beta;  // [tokens], `beta_stride` apart
  std::size_t beta_stride;
  float* out;  // [tokens] rows of value_dim, `stride` apart
};

}  // namespace reprise::gpu
