#include "models/layers/delta_net_spec.h"

namespace reprise::models {
namespace {

// Head k * group + j at place j * key_heads + k, each of `unit` rows.
GgufLayout tiled(const DeltaNetSpec& net, std::size_t unit) {
  GgufLayout out;
  out.axis = GgufLayout::Axis::kRows;
  out.outer = net.group();
  out.inner = net.key_heads;
  out.unit = unit;
  return out;
}

}  // namespace

void add_tensors(TensorList& tensors, const DeltaNetSpec& net, const std::string& block,
                 const DeltaNetInGguf& gguf) {
  GgufLayout v_rows;
  GgufLayout qkv_rows;
  GgufLayout v_columns;
  GgufLayout per_head;
  if (gguf.tiled_value_heads && net.group() != 1) {
    v_rows = tiled(net, net.value_head_dim);
    qkv_rows = v_rows;
    qkv_rows.skip = 2 * net.key_size();
    v_columns = v_rows;
    v_columns.axis = GgufLayout::Axis::kColumns;
    per_head = tiled(net, 1);
  }
  GgufLayout decay = per_head;
  decay.values = GgufLayout::Values::kNegativeExp;

  tensors.add_linear(net.name + ".in_proj_qkv", net.conv_channels(), net.hidden, block + ".attn_qkv", false,
                     qkv_rows);
  tensors.add_linear(net.name + ".in_proj_z", net.value_size(), net.hidden, block + ".attn_gate", false,
                     v_rows);
  tensors.add_linear(net.name + ".in_proj_b", net.value_heads, net.hidden, block + ".ssm_beta", false,
                     per_head);
  tensors.add_linear(net.name + ".in_proj_a", net.value_heads, net.hidden, block + ".ssm_alpha", false,
                     per_head);
  tensors.add(net.name + ".conv1d.weight", {net.conv_channels(), 1, net.conv_kernel},
              block + ".ssm_conv1d.weight", qkv_rows);
  tensors.add(net.name + ".A_log", {net.value_heads}, block + ".ssm_a", decay);
  tensors.add(net.name + ".dt_bias", {net.value_heads}, block + ".ssm_dt.bias", per_head);
  tensors.also_called(block + ".ssm_dt");
  tensors.add_norm({net.name + ".norm", net.value_head_dim, net.norm}, block + ".ssm_norm");
  tensors.add_linear(net.name + ".out_proj", net.hidden, net.value_size(), block + ".ssm_out", false,
                     v_columns);
}

DeltaNetPlaces declare_state(const DeltaNetSpec& net, StateLayout& state) {
  const std::size_t conv = state.add_per_sequence(net.name + ".conv", net.conv_state_size() * sizeof(float));
  const std::size_t matrices = state.add_per_sequence(net.name + ".state", net.state_size() * sizeof(float));
  return {conv, matrices};
}

}  // namespace reprise::models
