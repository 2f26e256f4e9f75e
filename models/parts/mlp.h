#pragma once
// The feed-forward part down(relu(up(x))^2), as a model describes it: no gate. The CPU builds it in models/cpu/mlp.h. It
// keeps no state.
//
// Tensors: `name`.up_proj [intermediate, hidden], down_proj [hidden, intermediate].
//
// Threading: plain values.

#include <cstddef>
#include <string>

#include "models/parts/tensor_list.h"

namespace reprise::models {

struct MlpSpec {
  std::string name{};  // before ".up_proj"
  std::size_t hidden = 0;
  std::size_t intermediate = 0;
  bool bias = false;  // on both

  bool operator==(const MlpSpec&) const = default;
};

/// `block` is what llama.cpp puts before the names of the layer: "blk.3".
inline void add_tensors(TensorList& tensors, const MlpSpec& part, const std::string& block) {
  tensors.add_linear(part.name + ".up_proj", part.intermediate, part.hidden, block + ".ffn_up", part.bias);
  tensors.add_linear(part.name + ".down_proj", part.hidden, part.intermediate, block + ".ffn_down",
                     part.bias);
}

}  // namespace reprise::models
