#include "models/parts/mamba2.h"

#include <cmath>

#include "models/weight_tensors.h"

namespace reprise::models {

void add_tensors(TensorList& tensors, const Mamba2Spec& mamba, const std::string& block) {
  GgufLayout decay;
  decay.values = GgufLayout::Values::kNegativeExp;
  tensors.add_linear(mamba.name + ".in_proj", mamba.in_proj_rows(), mamba.hidden, block + ".ssm_in",
                     mamba.in_bias);
  tensors.add(mamba.name + ".conv1d.weight", {mamba.conv_channels(), 1, mamba.conv_kernel},
              block + ".ssm_conv1d.weight");
  if (mamba.conv_bias) {
    tensors.add(mamba.name + ".conv1d.bias", {mamba.conv_channels()}, block + ".ssm_conv1d.bias");
  }
  tensors.add(mamba.name + ".dt_bias", {mamba.heads}, block + ".ssm_dt.bias");
  tensors.add(mamba.name + ".A_log", {mamba.heads}, block + ".ssm_a", decay);
  tensors.add(mamba.name + ".D", {mamba.heads}, block + ".ssm_d");
  if (mamba.has_norm()) {
    tensors.add_norm({mamba.name + ".norm", mamba.inner_size(), mamba.norm}, block + ".ssm_norm");
    tensors.last().gguf.shape = {mamba.groups, mamba.group_size()};
  }
  tensors.add_linear(mamba.name + ".out_proj", mamba.hidden, mamba.inner_size(), block + ".ssm_out",
                     mamba.out_bias);
}

Mamba2Offsets declare_state(const Mamba2Spec& mamba, StateLayout& state) {
  const std::size_t conv =
      state.add_per_sequence(mamba.name + ".conv", mamba.conv_state_elements() * sizeof(float));
  const std::size_t matrices =
      state.add_per_sequence(mamba.name + ".state", mamba.state_elements() * sizeof(float));
  return {conv, matrices};
}

namespace {

/// [taps, channels]
std::vector<float> multiplied_taps(const ModelFiles& files, const Mamba2Spec& spec) {
  std::vector<float> taps = load_conv_taps(files, spec.name + ".conv1d.weight");
  const std::size_t bs = spec.inner_size();
  const std::size_t cs = bs + spec.groups * spec.state_size;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const std::size_t channel = i % spec.conv_channels();
    taps[i] *= channel < bs ? spec.multipliers.x : channel < cs ? spec.multipliers.b : spec.multipliers.c;
  }
  return taps;
}

}  // namespace

Mamba2Parameters load_mamba2_parameters(const ModelFiles& files, const Mamba2Spec& spec) {
  Mamba2Parameters parameters;
  parameters.conv = multiplied_taps(files, spec);
  if (spec.conv_bias) parameters.conv_bias = load_vector(files, spec.name + ".conv1d.bias");
  parameters.dt_bias = load_vector(files, spec.name + ".dt_bias");
  parameters.decay = load_vector(files, spec.name + ".A_log");
  for (float& decay : parameters.decay) decay = static_cast<float>(std::exp(static_cast<double>(decay)));
  parameters.skip = load_vector(files, spec.name + ".D");
  if (spec.has_norm()) parameters.norm = load_vector(files, spec.name + ".norm.weight");
  return parameters;
}

std::optional<std::string> gpu_refusal(const Mamba2Spec& mamba) {
  return gpu_refusal_of_scan(mamba.name, mamba.state_size);
}

PartSizes describe(const Mamba2Spec& mamba) {
  return {"Mamba-2 heads", std::to_string(mamba.heads) + " of " + std::to_string(mamba.head_dim) +
                               ", states of " + std::to_string(mamba.state_size) + ", " +
                               std::to_string(mamba.groups) + (mamba.groups == 1 ? " group" : " groups")};
}

}  // namespace reprise::models
