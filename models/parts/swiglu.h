#pragma once
// The feed-forward part down(act(gate(x)) * up(x)), as a model describes it: SwiGLU where act is silu, GeGLU where
// it is gelu. The devices build it in models/cpu/swiglu.h and models/cuda/swiglu.cc. It keeps no state.
//
// Tensors: `name`.gate_proj and up_proj [intermediate, hidden], down_proj [hidden, intermediate].
//
// Threading: plain values.

#include <cstddef>
#include <string>

#include "models/parts/activation.h"
#include "models/parts/tensor_list.h"

namespace reprise::models {

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
inline void add_tensors(TensorList& tensors, const SwiGluSpec& part, const std::string& block) {
  tensors.add_linear(part.name + ".gate_proj", part.intermediate, part.hidden, block + ".ffn_gate",
                     part.bias);
  tensors.add_linear(part.name + ".up_proj", part.intermediate, part.hidden, block + ".ffn_up", part.bias);
  tensors.add_linear(part.name + ".down_proj", part.hidden, part.intermediate, block + ".ffn_down",
                     part.bias);
}

/// Files may have it under another name inside of the layer, beside its own: "block_sparse_moe".
struct SwiGluAlias {
  std::string name;
};

inline void add_tensors(TensorList& tensors, const SwiGluSpec& part, const std::string& block,
                        const SwiGluAlias& alias) {
  const std::string other = part.name.substr(0, part.name.rfind('.') + 1) + alias.name;
  const auto add = [&](const std::string& matrix, std::size_t rows, std::size_t columns,
                       const std::string& gguf) {
    tensors.add_linear(part.name + matrix, rows, columns, block + gguf);
    tensors.last().hf.names = {tensors.last().name, other + matrix + ".weight"};
  };
  add(".gate_proj", part.intermediate, part.hidden, ".ffn_gate");
  add(".up_proj", part.intermediate, part.hidden, ".ffn_up");
  add(".down_proj", part.hidden, part.intermediate, ".ffn_down");
}

}  // namespace reprise::models
