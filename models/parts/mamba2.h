#pragma once
// Mamba-2: a short causal convolution, then the state-space recurrence (SSD) on a state matrix per head, a
// gate, and optionally a norm.
//
//   z, xBC, dt = in_proj(u);  x, B, C = silu(conv1d(xBC))
//   dt = clamp(softplus(dt + dt_bias));  S = exp(-exp(A_log) dt) S + B (dt x)^T;  y = C^T S + D x
//   out_proj(gated norm of y by z), or out_proj(silu(z) y)
//
// x and z are [heads, head_dim], B and C [groups, state_size]. The heads of a group are consecutive and share
// B and C; the norm is over the elements of one group.
//
// Tensors: `name`.in_proj [in_proj_rows, hidden]: z, x, B, C, dt; conv1d [conv_channels, 1, conv_kernel],
// optionally with a bias; dt_bias, A_log and D [heads]; optionally norm [inner_size]; out_proj [hidden,
// inner_size].
// State per sequence, f32: the last inputs of the convolution [conv_kernel - 1, conv_channels], and the
// matrices [heads, state_size, head_dim].

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "models/parts/part.h"

namespace reprise::models {

class ModelFiles;

struct Mamba2Spec {
  enum class Gating : std::uint8_t {
    kGateThenNorm,  // norm(silu(z) y)
    kNormThenGate,  // silu(z) norm(y)
    kGateAlone,     // silu(z) y
  };
  /// Factors on the outputs of in_proj.
  struct Multipliers {
    float z = 1;
    float x = 1;
    float b = 1;
    float c = 1;
    float dt = 1;

    bool operator==(const Multipliers&) const = default;
  };

  std::string name{};
  std::size_t hidden = 0;
  std::size_t heads = 0;
  std::size_t head_dim = 0;
  std::size_t groups = 0;  // divides heads
  std::size_t state_size = 0;
  std::size_t conv_kernel = 0;
  bool conv_bias = false;
  bool in_bias = false;
  bool out_bias = false;
  Gating gating = Gating::kGateThenNorm;
  NormKind norm{};
  float dt_min = 0;
  float dt_max = std::numeric_limits<float>::infinity();
  Multipliers multipliers{};

  bool has_norm() const { return gating != Gating::kGateAlone; }
  std::size_t heads_of_group() const { return heads / groups; }
  std::size_t inner_size() const { return heads * head_dim; }
  std::size_t group_size() const { return inner_size() / groups; }
  std::size_t conv_channels() const { return inner_size() + 2 * groups * state_size; }  // x, B, C
  std::size_t in_proj_rows() const { return inner_size() + conv_channels() + heads; }
  std::size_t state_elements() const { return heads * state_size * head_dim; }
  std::size_t conv_state_elements() const { return conv_channels() * (conv_kernel - 1); }

  bool operator==(const Mamba2Spec&) const = default;
};

void add_tensors(TensorList& tensors, const Mamba2Spec& mamba, const std::string& block);

struct Mamba2Offsets {
  std::size_t conv;
  std::size_t matrices;
};

Mamba2Offsets declare_state(const Mamba2Spec& mamba, StateLayout& state);

struct Mamba2Parameters {
  std::vector<float> conv;  // [taps, channels], times the multipliers of x, B and C (it is linear in them)
  std::vector<float> conv_bias;  // [channels]; empty: none
  std::vector<float> dt_bias;    // [heads]
  std::vector<float> decay;      // [heads]: exp(A_log)
  std::vector<float> skip;       // D [heads]
  std::vector<float> norm;       // [inner_size]; empty: none
};

/// Throws LoadError.
Mamba2Parameters load_mamba2_parameters(const ModelFiles& files, const Mamba2Spec& spec);

std::optional<std::string> gpu_refusal(const Mamba2Spec& mamba);
PartSizes describe(const Mamba2Spec& mamba);

}  // namespace reprise::models
