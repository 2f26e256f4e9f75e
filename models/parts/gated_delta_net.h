#pragma once
// Gated DeltaNet: a short causal convolution, then the gated delta rule on a state matrix per value head.
//
// Tensors: `name`.in_proj_qkv [conv_channels, hidden], in_proj_z [value_size, hidden], in_proj_b and
// in_proj_a [value_heads, hidden], conv1d [conv_channels, 1, conv_kernel], A_log and dt_bias [value_heads],
// norm [value_head_dim], out_proj [hidden, value_size].
// State per sequence, f32: the last inputs of the convolution [conv_kernel - 1, conv_channels], and the
// matrices [value_heads, key_head_dim, value_head_dim].

#include <cstddef>
#include <string>
#include <vector>

#include "models/parts/part.h"

namespace reprise::models {

class ModelFiles;

struct GatedDeltaNetSpec {
  std::string name{};
  std::size_t hidden = 0;
  std::size_t key_heads = 0;
  std::size_t value_heads = 0;  // a multiple of key_heads
  std::size_t key_head_dim = 0;
  std::size_t value_head_dim = 0;
  std::size_t conv_kernel = 0;
  NormKind norm{};  // of each value head of the output, before its gate

  std::size_t group() const { return value_heads / key_heads; }  // value head h uses key head h / group
  std::size_t key_size() const { return key_heads * key_head_dim; }
  std::size_t value_size() const { return value_heads * value_head_dim; }
  std::size_t conv_channels() const { return 2 * key_size() + value_size(); }  // q, k, v
  std::size_t state_size() const { return value_heads * key_head_dim * value_head_dim; }
  std::size_t conv_state_size() const { return conv_channels() * (conv_kernel - 1); }

  bool operator==(const GatedDeltaNetSpec&) const = default;
};

struct GatedDeltaNetInGguf {
  /// Value heads are ordered with the key head as the fastest index (llama.cpp), so those of one key head are
  /// not adjacent; false: they are adjacent (Hugging Face).
  bool tiled_value_heads = true;
};

/// Selects files whose projections are fused and grouped by key head. Hugging Face: `name`.in_proj_qkvz
/// [key_heads: q, k, v of its value heads, z of its value heads] and in_proj_ba [key_heads: b of its value
/// heads, a of its value heads]. llama.cpp's converter splits the first.
struct GatedDeltaNetByKeyHead {};

void add_tensors(TensorList& tensors, const GatedDeltaNetSpec& net, const std::string& block,
                 const GatedDeltaNetInGguf& gguf = {});
void add_tensors(TensorList& tensors, const GatedDeltaNetSpec& net, const std::string& block,
                 const GatedDeltaNetByKeyHead& files);

struct GatedDeltaNetOffsets {
  std::size_t conv;
  std::size_t matrices;
};

GatedDeltaNetOffsets declare_state(const GatedDeltaNetSpec& net, StateLayout& state);

struct GatedDeltaNetParameters {
  std::vector<float> conv;     // [taps, channels]
  std::vector<float> decay;    // [value_heads]: exp(A_log)
  std::vector<float> dt_bias;  // [value_heads]
  std::vector<float> norm;     // [value_head_dim]
};

/// Loads conv1d, A_log, dt_bias and norm. Throws LoadError.
GatedDeltaNetParameters load_gated_delta_net_parameters(const ModelFiles& files,
                                                        const GatedDeltaNetSpec& spec);

PartSizes describe(const GatedDeltaNetSpec& net);
inline std::optional<std::string> gpu_refusal(const GatedDeltaNetSpec&) {
  return std::nullopt;
}

}  // namespace reprise::models
