#include "models/parts/kda.h"

#include <cmath>

#include "models/weight_tensors.h"

namespace reprise::models {

void add_tensors(TensorList& tensors, const KdaSpec& kda, const std::string& block) {
  const std::size_t size = kda.size();
  for (const char* which : {"q", "k", "v"}) {
    const std::string one = which;
    tensors.add_linear(kda.name + "." + one + "_proj", size, kda.hidden, block + ".attn_" + one);
    tensors.add(kda.name + "." + one + "_conv1d.weight", {size, 1, kda.conv_kernel},
                block + ".ssm_conv1d_" + one + ".weight");
  }
  tensors.add_linear(kda.name + ".b_proj", kda.heads, kda.hidden, block + ".ssm_beta");
  tensors.add_linear(kda.name + ".f_a_proj", kda.head_dim, kda.hidden, block + ".ssm_f_a");
  tensors.add_linear(kda.name + ".f_b_proj", size, kda.head_dim, block + ".ssm_f_b");
  tensors.add_linear(kda.name + ".g_a_proj", kda.head_dim, kda.hidden, block + ".ssm_g_a");
  tensors.add_linear(kda.name + ".g_b_proj", size, kda.head_dim, block + ".ssm_g_b");
  GgufLayout decay;
  decay.values = GgufLayout::Values::kNegativeExp;
  tensors.add(kda.name + ".A_log", {1, 1, kda.heads, 1}, block + ".ssm_a", decay);
  tensors.add(kda.name + ".dt_bias", {size}, block + ".ssm_dt.bias");
  tensors.add_norm({kda.name + ".o_norm", kda.head_dim, kda.norm}, block + ".ssm_norm");
  tensors.add_linear(kda.name + ".o_proj", kda.hidden, size, block + ".attn_output");
}

KdaOffsets declare_state(const KdaSpec& kda, StateLayout& state) {
  const std::size_t conv =
      state.add_per_sequence(kda.name + ".conv", 3 * kda.conv_state_size() * sizeof(float));
  const std::size_t matrices = state.add_per_sequence(kda.name + ".state", kda.state_size() * sizeof(float));
  return {conv, matrices};
}

std::vector<float> load_kda_rates(const ModelFiles& files, const KdaSpec& spec) {
  std::vector<float> rates = load_vector(files, spec.name + ".A_log");
  for (float& rate : rates) rate = static_cast<float>(std::exp(static_cast<double>(rate)));
  return rates;
}

std::optional<std::string> gpu_refusal(const KdaSpec& kda) {
  return gpu_refusal_of_scan(kda.name, kda.head_dim);
}

PartSizes describe(const KdaSpec& kda) {
  return {"KDA heads", std::to_string(kda.heads) + " of " + std::to_string(kda.head_dim)};
}

}  // namespace reprise::models
