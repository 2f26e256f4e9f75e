#pragma once
// The recurrent block of Griffin: a branch with a short causal convolution and the Real-Gated Linear
// Recurrent Unit (RG-LRU), multiplied by a GELU branch.
//
//   y = gelu(linear_y(x));  u = conv(linear_x(x)), with a bias and no activation
//   i = sigmoid(u input_gate + bias);  r = sigmoid(u recurrent_gate + bias), each head with its own matrix
//   log_a = -8 r softplus(recurrent_param)
//   h = exp(log_a) h + u i sqrt(1 - exp(2 log_a)), at position 0 h = u i
//   out = linear_out(h y)
//
// Tensors: `name`.linear_x and linear_y [width, hidden], linear_out [hidden, width], all with biases; conv_1d
// [width, 1, conv_kernel] with its bias [width]; `name`.rg_lru.input_gate_weight and recurrent_gate_weight
// [heads, inputs of a head, outputs of a head], input_gate_bias and recurrent_gate_bias [heads, width /
// heads], recurrent_param [width].
// State per sequence, f32: the last inputs of the convolution [conv_kernel - 1, width], and h [width].

#include <cstddef>
#include <string>
#include <vector>

#include "models/parts/part.h"

namespace reprise::models {

class ModelFiles;

struct RgLruSpec {
  std::string name{};
  std::size_t hidden = 0;
  std::size_t width = 0;
  std::size_t heads = 0;  // divides width
  std::size_t conv_kernel = 0;

  std::size_t head_width() const { return width / heads; }
  std::size_t conv_state_size() const { return width * (conv_kernel - 1); }

  bool operator==(const RgLruSpec&) const = default;
};

/// `block` is the prefix that the layer's GGUF names would have; llama.cpp has no such part.
void add_tensors(TensorList& tensors, const RgLruSpec& part, const std::string& block);

struct RgLruOffsets {
  std::size_t conv;
  std::size_t h;
};

RgLruOffsets declare_state(const RgLruSpec& part, StateLayout& state);

/// Returns -8 softplus(recurrent_param) [width]. Throws LoadError.
std::vector<float> load_rg_lru_rates(const ModelFiles& files, const RgLruSpec& spec);

PartSizes describe(const RgLruSpec& part);
inline std::optional<std::string> gpu_refusal(const RgLruSpec&) {
  return std::nullopt;
}

}  // namespace reprise::models
