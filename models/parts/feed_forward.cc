#include "models/parts/feed_forward.h"

namespace reprise::models {

void add_tensors(TensorList& tensors, const SwiGluSpec& part, const std::string& block) {
  tensors.add_linear(part.name + ".gate_proj", part.intermediate, part.hidden, block + ".ffn_gate",
                     part.bias);
  tensors.add_linear(part.name + ".up_proj", part.intermediate, part.hidden, block + ".ffn_up", part.bias);
  tensors.add_linear(part.name + ".down_proj", part.hidden, part.intermediate, block + ".ffn_down",
                     part.bias);
}

void add_tensors(TensorList& tensors, const SwiGluSpec& part, const std::string& block,
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

void add_tensors(TensorList& tensors, const MlpSpec& part, const std::string& block) {
  tensors.add_linear(part.name + ".up_proj", part.intermediate, part.hidden, block + ".ffn_up", part.bias);
  tensors.add_linear(part.name + ".down_proj", part.hidden, part.intermediate, block + ".ffn_down",
                     part.bias);
}

PartSizes describe(const SwiGluSpec& part) {
  return {"feed-forward", std::to_string(part.intermediate)};
}

PartSizes describe(const MlpSpec& part) {
  return {"feed-forward", std::to_string(part.intermediate)};
}

}  // namespace reprise::models
