#include "models/parts/rg_lru.h"

#include <cmath>

#include "models/weight_tensors.h"

namespace reprise::models {

void add_tensors(TensorList& tensors, const RgLruSpec& part, const std::string& block) {
  const std::size_t size = part.head_width();
  const auto add_gate = [&](const std::string& gate) {
    const std::string name = ".rg_lru." + gate;
    tensors.add(part.name + name + "_weight", {part.heads, size, size}, block + name + "_weight");
    tensors.add(part.name + name + "_bias", {part.heads, size}, block + name + "_bias");
  };
  tensors.add_linear(part.name + ".linear_y", part.width, part.hidden, block + ".linear_y", true);
  tensors.add_linear(part.name + ".linear_x", part.width, part.hidden, block + ".linear_x", true);
  tensors.add(part.name + ".conv_1d.weight", {part.width, 1, part.conv_kernel}, block + ".conv_1d.weight");
  tensors.add(part.name + ".conv_1d.bias", {part.width}, block + ".conv_1d.bias");
  add_gate("input_gate");
  add_gate("recurrent_gate");
  tensors.add(part.name + ".rg_lru.recurrent_param", {part.width}, block + ".rg_lru.recurrent_param");
  tensors.add_linear(part.name + ".linear_out", part.hidden, part.width, block + ".linear_out", true);
}

RgLruOffsets declare_state(const RgLruSpec& part, StateLayout& state) {
  const std::size_t conv =
      state.add_per_sequence(part.name + ".conv", part.conv_state_size() * sizeof(float));
  const std::size_t h = state.add_per_sequence(part.name + ".h", part.width * sizeof(float));
  return {conv, h};
}

std::vector<float> load_rg_lru_rates(const ModelFiles& files, const RgLruSpec& spec) {
  std::vector<float> values = load_vector(files, spec.name + ".rg_lru.recurrent_param");
  for (float& value : values) {
    const double x = value;
    value = static_cast<float>(-8.0 * (x > 20.0 ? x : std::log1p(std::exp(x))));
  }
  return values;
}

PartSizes describe(const RgLruSpec& part) {
  return {"RG-LRU",
          std::to_string(part.width) + " channels, gates of " + std::to_string(part.heads) + " heads"};
}

}  // namespace reprise::models
