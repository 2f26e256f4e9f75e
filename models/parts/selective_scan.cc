#include "models/parts/selective_scan.h"

namespace reprise::models {

void add_tensors(TensorList& tensors, const SelectiveScanSpec& scan, const std::string& block) {
  GgufLayout decay;
  decay.values = GgufLayout::Values::kNegativeExp;
  tensors.add_linear(scan.name + ".in_proj", 2 * scan.inner, scan.hidden, block + ".ssm_in", scan.in_bias);
  tensors.add(scan.name + ".conv1d.weight", {scan.inner, 1, scan.conv_kernel}, block + ".ssm_conv1d.weight");
  if (scan.conv_bias) tensors.add(scan.name + ".conv1d.bias", {scan.inner}, block + ".ssm_conv1d.bias");
  tensors.add_linear(scan.name + ".x_proj", scan.x_proj_rows(), scan.inner, block + ".ssm_x");
  if (scan.norms == ScanNorms::kWeighted) {
    tensors.add_norm({scan.name + ".dt_layernorm", scan.step_rank, scan.norm}, block + ".ssm_dt_norm");
    tensors.add_norm({scan.name + ".b_layernorm", scan.state_size, scan.norm}, block + ".ssm_b_norm");
    tensors.add_norm({scan.name + ".c_layernorm", scan.state_size, scan.norm}, block + ".ssm_c_norm");
  }
  tensors.add_linear(scan.name + ".dt_proj", scan.inner, scan.step_rank, block + ".ssm_dt", true);
  tensors.add(scan.name + ".A_log", {scan.inner, scan.state_size}, block + ".ssm_a", decay);
  tensors.add(scan.name + ".D", {scan.inner}, block + ".ssm_d");
  tensors.add_linear(scan.name + ".out_proj", scan.hidden, scan.inner, block + ".ssm_out", scan.out_bias);
}

SelectiveScanPlaces declare_state(const SelectiveScanSpec& scan, StateLayout& state) {
  const std::size_t conv =
      state.add_per_sequence(scan.name + ".conv", scan.conv_state_size() * sizeof(float));
  const std::size_t numbers =
      state.add_per_sequence(scan.name + ".state", scan.state_numbers() * sizeof(float));
  return {conv, numbers};
}

}  // namespace reprise::models
