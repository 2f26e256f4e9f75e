#pragma once
// Feed-forward parts: SwiGLU and GeGLU, down(act(gate(x)) * up(x)), and the one without a gate, down(relu(up(x))^2).
// They keep no state.
//
// Tensors: `name`.gate_proj, of those that have a gate, and up_proj [intermediate, hidden], down_proj [hidden, intermediate].

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "models/parts/part.h"

namespace reprise::models {

/// The functions between gate and down.
enum class Activation : std::uint8_t {
  kSilu,  // x sigmoid(x)
  kGelu,  // in its tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
};

struct SwiGluSpec {
  std::string name{};  // before ".gate_proj"
  std::size_t hidden = 0;
  std::size_t intermediate = 0;
  bool bias = false;  // on all three
  Activation activation = Activation::kSilu;
  float gate_multiplier = 1;  // of gate(x)

  bool operator==(const SwiGluSpec&) const = default;
};

/// `block` is what llama.cpp puts before the names of the layer: "blk.3".
void add_tensors(TensorList& tensors, const SwiGluSpec& part, const std::string& block);

/// Files may have it under another name inside of the layer, beside its own: "block_sparse_moe".
struct SwiGluAlias {
  std::string name;
};

void add_tensors(TensorList& tensors, const SwiGluSpec& part, const std::string& block,
                 const SwiGluAlias& alias);

struct MlpSpec {
  std::string name{};  // before ".up_proj"
  std::size_t hidden = 0;
  std::size_t intermediate = 0;
  bool bias = false;  // on both

  bool operator==(const MlpSpec&) const = default;
};

/// `block` is what llama.cpp puts before the names of the layer: "blk.3".
void add_tensors(TensorList& tensors, const MlpSpec& part, const std::string& block);

/// A GPU computes all of them.
inline std::optional<std::string> gpu_refusal(const SwiGluSpec&) {
  return std::nullopt;
}
inline std::optional<std::string> gpu_refusal(const MlpSpec&) {
  return std::nullopt;
}
PartSizes describe(const SwiGluSpec& part);
PartSizes describe(const MlpSpec& part);

}  // namespace reprise::models
