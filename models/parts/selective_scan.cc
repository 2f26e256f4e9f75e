#include "models/parts/selective_scan.h"

#include <cmath>

#include "models/weight_tensors.h"

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

SelectiveScanOffsets declare_state(const SelectiveScanSpec& scan, StateLayout& state) {
  const std::size_t conv =
      state.add_per_sequence(scan.name + ".conv", scan.conv_state_size() * sizeof(float));
  const std::size_t numbers =
      state.add_per_sequence(scan.name + ".state", scan.state_numbers() * sizeof(float));
  return {conv, numbers};
}

namespace {

/// Returns -exp(A_log) in groups of kLanes channels: [groups, state_size, kLanes].
std::vector<float> load_scan_decays(const ModelFiles& files, const SelectiveScanSpec& spec) {
  const std::vector<float> logs = load_vector(files, spec.name + ".A_log");  // [inner, state_size]
  std::vector<float> out(spec.state_numbers());
  for (std::size_t c = 0; c < spec.inner; ++c) {
    const std::size_t group = c / gpu::kLanes * spec.state_size;
    for (std::size_t n = 0; n < spec.state_size; ++n) {
      const double log = logs[c * spec.state_size + n];
      out[(group + n) * gpu::kLanes + c % gpu::kLanes] = static_cast<float>(-std::exp(log));
    }
  }
  return out;
}

}  // namespace

SelectiveScanParameters load_selective_scan_parameters(const ModelFiles& files,
                                                       const SelectiveScanSpec& spec) {
  SelectiveScanParameters parameters;
  parameters.conv = load_conv_taps(files, spec.name + ".conv1d.weight");
  if (spec.conv_bias) parameters.conv_bias = load_vector(files, spec.name + ".conv1d.bias");
  parameters.a = load_scan_decays(files, spec);
  parameters.skip = load_vector(files, spec.name + ".D");
  switch (spec.norms) {
    case ScanNorms::kNone:
      break;
    case ScanNorms::kWeightless:
      parameters.dt_norm.assign(spec.step_rank, 1.0F);
      parameters.b_norm.assign(spec.state_size, 1.0F);
      parameters.c_norm.assign(spec.state_size, 1.0F);
      break;
    case ScanNorms::kWeighted:
      parameters.dt_norm = load_vector(files, spec.name + ".dt_layernorm.weight");
      parameters.b_norm = load_vector(files, spec.name + ".b_layernorm.weight");
      parameters.c_norm = load_vector(files, spec.name + ".c_layernorm.weight");
      break;
  }
  return parameters;
}

std::optional<std::string> gpu_refusal(const SelectiveScanSpec& scan) {
  return gpu_refusal_of_scan(scan.name, scan.state_size);
}

PartSizes describe(const SelectiveScanSpec& scan) {
  return {"selective scan", std::to_string(scan.inner) + " channels, states of " +
                                std::to_string(scan.state_size) + ", steps of rank " +
                                std::to_string(scan.step_rank)};
}

}  // namespace reprise::models
