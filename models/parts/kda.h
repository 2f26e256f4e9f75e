#pragma once
// Kimi Delta Attention (KDA): short causal convolutions of q, k and v, then the delta rule on a state matrix
// per head, with a decay for each key channel (gpu/kernels.h).
//
//   q, k, v = silu(conv(proj(x))), q and k of each head to unit length
//   decay = exp(-exp(A_log) softplus(f_b(f_a(x)) + dt_bias));  beta = sigmoid(b_proj(x))
//   y = o_proj(norm(o) * sigmoid(g_b(g_a(x)))), the norm over each head
//
// Tensors: `name`.q_proj, k_proj, v_proj [size, hidden]; q_conv1d, k_conv1d, v_conv1d [size, 1, conv_kernel];
// b_proj [heads, hidden]; f_a_proj and g_a_proj [head_dim, hidden], f_b_proj and g_b_proj [size, head_dim];
// A_log [1, 1, heads, 1], dt_bias [size], o_norm [head_dim], o_proj [hidden, size].
// State per sequence, f32: the last inputs of the three convolutions, each [conv_kernel - 1, size], and the
// matrices [heads, head_dim, head_dim].

#include <cstddef>
#include <string>
#include <vector>

#include "models/parts/part.h"

namespace reprise::models {

class ModelFiles;

struct KdaSpec {
  std::string name{};
  std::size_t hidden = 0;
  std::size_t heads = 0;
  std::size_t head_dim = 0;  // of keys and values; also the rank of the gates' projections
  std::size_t conv_kernel = 0;
  NormKind norm{};  // of each head of the output, before its gate

  std::size_t size() const { return heads * head_dim; }
  std::size_t state_size() const { return heads * head_dim * head_dim; }
  std::size_t conv_state_size() const { return size() * (conv_kernel - 1); }  // per convolution

  bool operator==(const KdaSpec&) const = default;
};

void add_tensors(TensorList& tensors, const KdaSpec& kda, const std::string& block);

struct KdaOffsets {
  std::size_t conv;  // q, k and v, one after another
  std::size_t matrices;
};

KdaOffsets declare_state(const KdaSpec& kda, StateLayout& state);

inline constexpr float kKdaUnitEps = 1e-6F;  // epsilon when q and k are normalized to unit length

/// Returns exp(A_log) [heads]. Throws LoadError.
std::vector<float> load_kda_rates(const ModelFiles& files, const KdaSpec& spec);

std::optional<std::string> gpu_refusal(const KdaSpec& kda);
PartSizes describe(const KdaSpec& kda);

}  // namespace reprise::models
