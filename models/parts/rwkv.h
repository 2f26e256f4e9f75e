#pragma once
// The two parts of an RWKV-7 layer. Both mix each row with the previous one (token shift).
//
// Time mix, with W the matrices, l low-rank pairs W2 act(W1 x) + bias, x_m = x_t + (x_{t-1} - x_t) mix_m:
//   r = Wr x_r;  k = Wk x_k;  v = Wv x_v;  decay = exp(-e^-0.5 sigmoid(l_w(x_w)));  a = sigmoid(l_a(x_a))
//   v = v + (v of the first layer - v) sigmoid(l_v(x_v)), in all layers but the first
//   key = k k_k to unit length, per head;  k = k (1 + (a - 1) k_a)
//   S = diag(decay) S + (a key) (-key^T S) + k v^T;  o = r^T S
//   out = Wo ((norm of each head(o) + (r k r_k summed over the head) v) l_g(x_g))
// Tensors: `name`.mix [r w k v a g: 6, hidden]; r_proj, k_proj, v_proj, o_proj [hidden, hidden]; w1, a1, v1,
// g1 [rank, hidden]; w2, a2, v2, g2 [hidden, rank], all but g2 with a bias; k_k, k_a, r_k [hidden]; g_norm
// and its bias [hidden].
// State per sequence, f32: the previous row [hidden], and S [heads, head_dim of keys, head_dim of values].
//
// Channel mix: value(relu(key(x_k))^2). Tensors: `name`.mix [hidden], key [intermediate, hidden], value
// [hidden, intermediate]. State per sequence, f32: the previous row [hidden].

#include <cstddef>
#include <string>

#include "models/parts/part.h"

namespace reprise::models {

/// Epsilon of the norm of each head, in every model, independent of its other norms.
inline constexpr float kTimeMixNormEps = 64e-5F;

struct TimeMixSpec {
  std::string name{};
  std::size_t hidden = 0;
  std::size_t head_dim = 0;  // divides hidden
  std::size_t decay_rank = 0;
  std::size_t rate_rank = 0;
  std::size_t value_rank = 0;
  std::size_t gate_rank = 0;
  bool is_first = false;  // in the model's first layer: passes its v to later layers, has no v1 and v2

  std::size_t heads() const { return hidden / head_dim; }

  bool operator==(const TimeMixSpec&) const = default;
};

struct ChannelMixSpec {
  std::string name{};
  std::size_t hidden = 0;
  std::size_t intermediate = 0;

  bool operator==(const ChannelMixSpec&) const = default;
};

void add_tensors(TensorList& tensors, const TimeMixSpec& part, const std::string& block);
void add_tensors(TensorList& tensors, const ChannelMixSpec& part, const std::string& block);

struct TimeMixOffsets {
  std::size_t row;
  std::size_t matrices;
};

TimeMixOffsets declare_state(const TimeMixSpec& part, StateLayout& state);
/// Returns the offset in a slot of the previous row.
std::size_t declare_state(const ChannelMixSpec& part, StateLayout& state);

std::optional<std::string> gpu_refusal(const TimeMixSpec& part);
PartSizes describe(const TimeMixSpec& part);

inline std::optional<std::string> gpu_refusal(const ChannelMixSpec&) {
  return std::nullopt;
}
PartSizes describe(const ChannelMixSpec& part);

}  // namespace reprise::models
