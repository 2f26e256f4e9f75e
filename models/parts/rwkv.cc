#include "models/parts/rwkv.h"

namespace reprise::models {

void add_tensors(TensorList& tensors, const TimeMixSpec& part, const std::string& block) {
  const std::size_t hidden = part.hidden;
  const std::string gguf = block + ".time_mix_";
  // GGUF names the bias of a low-rank pair like its matrices.
  const auto add_pair = [&](const std::string& letter, std::size_t rank, bool bias) {
    const std::string name = part.name + "." + letter;
    tensors.add_linear(name + "1", rank, hidden, gguf + letter + "1");
    tensors.add_linear(name + "2", hidden, rank, gguf + letter + "2");
    if (bias) tensors.add(name + "2.bias", {hidden}, gguf + letter + "0.weight");
  };
  tensors.add(part.name + ".mix", {6, hidden}, gguf + "lerp_fused.weight");
  tensors.add_linear(part.name + ".r_proj", hidden, hidden, gguf + "receptance");
  tensors.add_linear(part.name + ".k_proj", hidden, hidden, gguf + "key");
  tensors.add_linear(part.name + ".v_proj", hidden, hidden, gguf + "value");
  add_pair("w", part.decay_rank, true);
  add_pair("a", part.rate_rank, true);
  if (!part.is_first) add_pair("v", part.value_rank, true);
  add_pair("g", part.gate_rank, false);
  for (const char* vector : {"k_k", "k_a", "r_k"}) {
    tensors.add(part.name + "." + vector, {hidden}, gguf + vector + ".weight");
  }
  tensors.add(part.name + ".g_norm.weight", {hidden}, gguf + "ln.weight");
  tensors.add(part.name + ".g_norm.bias", {hidden}, gguf + "ln.bias");
  tensors.add_linear(part.name + ".o_proj", hidden, hidden, gguf + "output");
}

void add_tensors(TensorList& tensors, const ChannelMixSpec& part, const std::string& block) {
  const std::string gguf = block + ".channel_mix_";
  tensors.add(part.name + ".mix", {part.hidden}, gguf + "lerp_k.weight");
  tensors.add_linear(part.name + ".key", part.intermediate, part.hidden, gguf + "key");
  tensors.add_linear(part.name + ".value", part.hidden, part.intermediate, gguf + "value");
}

TimeMixOffsets declare_state(const TimeMixSpec& part, StateLayout& state) {
  const std::size_t row = state.add_per_sequence(part.name + ".row", part.hidden * sizeof(float));
  const std::size_t matrices =
      state.add_per_sequence(part.name + ".state", part.hidden * part.head_dim * sizeof(float));
  return {row, matrices};
}

std::size_t declare_state(const ChannelMixSpec& part, StateLayout& state) {
  return state.add_per_sequence(part.name + ".row", part.hidden * sizeof(float));
}

std::optional<std::string> gpu_refusal(const TimeMixSpec& part) {
  return gpu_refusal_of_scan(part.name, part.head_dim);
}

PartSizes describe(const TimeMixSpec& part) {
  return {"time mix", std::to_string(part.heads()) + " heads of " + std::to_string(part.head_dim)};
}

PartSizes describe(const ChannelMixSpec& part) {
  return {"channel mix", std::to_string(part.intermediate)};
}

}  // namespace reprise::models
