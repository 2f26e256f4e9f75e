#include "models/parts/gated_delta_net.h"

#include <cmath>

#include "models/weight_tensors.h"

namespace reprise::models {
namespace {

// Layout in which head k * group + j, `unit` rows each, is stored at index j * key_heads + k.
GgufLayout tiled(const GatedDeltaNetSpec& net, std::size_t unit) {
  GgufLayout out;
  out.axis = GgufLayout::Axis::kRows;
  out.outer = net.group();
  out.inner = net.key_heads;
  out.unit = unit;
  return out;
}

// llama.cpp's order of tensor dimensions that run over value heads.
struct ValueHeadLayouts {
  GgufLayout rows{};
  GgufLayout rows_after_keys{};
  GgufLayout columns{};
  GgufLayout per_head{};
};

ValueHeadLayouts layouts_of(const GatedDeltaNetSpec& net, const GatedDeltaNetInGguf& gguf) {
  ValueHeadLayouts out;
  if (!gguf.tiled_value_heads || net.group() == 1) return out;
  out.rows = tiled(net, net.value_head_dim);
  out.rows_after_keys = out.rows;
  out.rows_after_keys.skip = 2 * net.key_size();
  out.columns = out.rows;
  out.columns.axis = GgufLayout::Axis::kColumns;
  out.per_head = tiled(net, 1);
  return out;
}

// Adds all tensors except the four input projections.
void add_the_rest(TensorList& tensors, const GatedDeltaNetSpec& net, const std::string& block,
                  const ValueHeadLayouts& values) {
  GgufLayout decay = values.per_head;
  decay.values = GgufLayout::Values::kNegativeExp;
  tensors.add(net.name + ".conv1d.weight", {net.conv_channels(), 1, net.conv_kernel},
              block + ".ssm_conv1d.weight", values.rows_after_keys);
  tensors.add(net.name + ".A_log", {net.value_heads}, block + ".ssm_a", decay);
  tensors.add(net.name + ".dt_bias", {net.value_heads}, block + ".ssm_dt.bias", values.per_head);
  tensors.also_called(block + ".ssm_dt");
  tensors.add_norm({net.name + ".norm", net.value_head_dim, net.norm}, block + ".ssm_norm");
  tensors.add_linear(net.name + ".out_proj", net.hidden, net.value_size(), block + ".ssm_out", false,
                     values.columns);
}

// Selects `rows` rows, from `first` on, of each key head's group of `group_rows`.
RowBlocks of_each_key_head(const GatedDeltaNetSpec& net, std::size_t first, std::size_t rows,
                           std::size_t group_rows) {
  return {.first_row = first, .rows = rows, .stride = group_rows, .times = net.key_heads};
}

}  // namespace

void add_tensors(TensorList& tensors, const GatedDeltaNetSpec& net, const std::string& block,
                 const GatedDeltaNetInGguf& gguf) {
  const ValueHeadLayouts values = layouts_of(net, gguf);
  tensors.add_linear(net.name + ".in_proj_qkv", net.conv_channels(), net.hidden, block + ".attn_qkv", false,
                     values.rows_after_keys);
  tensors.add_linear(net.name + ".in_proj_z", net.value_size(), net.hidden, block + ".attn_gate", false,
                     values.rows);
  tensors.add_linear(net.name + ".in_proj_b", net.value_heads, net.hidden, block + ".ssm_beta", false,
                     values.per_head);
  tensors.add_linear(net.name + ".in_proj_a", net.value_heads, net.hidden, block + ".ssm_alpha", false,
                     values.per_head);
  add_the_rest(tensors, net, block, values);
}

void add_tensors(TensorList& tensors, const GatedDeltaNetSpec& net, const std::string& block,
                 const GatedDeltaNetByKeyHead& /*files*/) {
  const std::size_t keys = net.key_head_dim;
  const std::size_t values = net.group() * net.value_head_dim;  // rows of v, and of z, per key head
  const std::size_t group_rows = 2 * keys + 2 * values;
  const auto fused = [&](const std::string& stored, std::size_t rows, std::vector<RowBlocks> blocks) {
    return StoredAs{.names = {stored},
                    .piece = TensorPiece{.of = {rows, net.hidden}, .blocks = std::move(blocks)}};
  };
  const auto of_qkvz = [&](const std::string& stored, std::vector<RowBlocks> blocks) {
    return fused(stored, net.key_heads * group_rows, std::move(blocks));
  };
  const auto of_ba = [&](const std::string& stored, std::size_t first) {
    return fused(stored, 2 * net.value_heads, {of_each_key_head(net, first, net.group(), 2 * net.group())});
  };
  const std::vector<RowBlocks> qkv{of_each_key_head(net, 0, keys, group_rows),
                                   of_each_key_head(net, keys, keys, group_rows),
                                   of_each_key_head(net, 2 * keys, values, group_rows)};
  const std::vector<RowBlocks> z{of_each_key_head(net, 2 * keys + values, values, group_rows)};

  // Older GGUF files fuse in_proj_qkv and in_proj_z as Hugging Face does.
  tensors.add_linear(net.name + ".in_proj_qkv", net.conv_channels(), net.hidden, block + ".attn_qkv");
  tensors.last().hf = of_qkvz(net.name + ".in_proj_qkvz.weight", qkv);
  tensors.last().gguf_else = {of_qkvz(block + ".ssm_in.weight", qkv)};
  tensors.add_linear(net.name + ".in_proj_z", net.value_size(), net.hidden, block + ".attn_gate");
  tensors.last().hf = of_qkvz(net.name + ".in_proj_qkvz.weight", z);
  tensors.last().gguf_else = {of_qkvz(block + ".ssm_in.weight", z)};
  tensors.add({.name = net.name + ".in_proj_b.weight",
               .shape = {net.value_heads, net.hidden},
               .gguf = of_ba(block + ".ssm_ba.weight", 0),
               .hf = of_ba(net.name + ".in_proj_ba.weight", 0)});
  tensors.add({.name = net.name + ".in_proj_a.weight",
               .shape = {net.value_heads, net.hidden},
               .gguf = of_ba(block + ".ssm_ba.weight", net.group()),
               .hf = of_ba(net.name + ".in_proj_ba.weight", net.group())});
  add_the_rest(tensors, net, block, {});
}

GatedDeltaNetOffsets declare_state(const GatedDeltaNetSpec& net, StateLayout& state) {
  const std::size_t conv = state.add_per_sequence(net.name + ".conv", net.conv_state_size() * sizeof(float));
  const std::size_t matrices = state.add_per_sequence(net.name + ".state", net.state_size() * sizeof(float));
  return {conv, matrices};
}

GatedDeltaNetParameters load_gated_delta_net_parameters(const ModelFiles& files,
                                                        const GatedDeltaNetSpec& spec) {
  GatedDeltaNetParameters parameters{.conv = load_conv_taps(files, spec.name + ".conv1d.weight"),
                                     .decay = load_vector(files, spec.name + ".A_log"),
                                     .dt_bias = load_vector(files, spec.name + ".dt_bias"),
                                     .norm = load_vector(files, spec.name + ".norm.weight")};
  for (float& decay : parameters.decay) decay = static_cast<float>(std::exp(static_cast<double>(decay)));
  return parameters;
}

PartSizes describe(const GatedDeltaNetSpec& net) {
  return {"linear heads", std::to_string(net.key_heads) + " key of " + std::to_string(net.key_head_dim) +
                              ", " + std::to_string(net.value_heads) + " value of " +
                              std::to_string(net.value_head_dim)};
}

}  // namespace reprise::models
