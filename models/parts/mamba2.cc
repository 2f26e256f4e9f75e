#include "models/parts/mamba2.h"

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

Mamba2Places declare_state(const Mamba2Spec& mamba, StateLayout& state) {
  const std::size_t conv =
      state.add_per_sequence(mamba.name + ".conv", mamba.conv_state_elements() * sizeof(float));
  const std::size_t matrices =
      state.add_per_sequence(mamba.name + ".state", mamba.state_elements() * sizeof(float));
  return {conv, matrices};
}

}  // namespace reprise::models
