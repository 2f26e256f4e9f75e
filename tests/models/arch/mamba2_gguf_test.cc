// GGUF files of Mamba-2 and Nemotron-H, written from the converter's definition, describe the same model and
// tensors as the folder.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/model_files.h"
#include "tests/models/arch/mamba2_configs.h"
#include "tests/models/files/checkpoint_files.h"
#include "tests/models/files/tensor_values.h"

namespace reprise::models {
namespace {

using test::GgufWriter;
using test::TempDir;
using test::Weights;

struct StoredInGguf {
  Shape shape;
  std::vector<float> values;
};

// The converter's names of layer tensors, without the layer's prefix.
const std::map<std::string, std::string> kGgufNames = {
    {"norm.weight", "attn_norm.weight"},
    {"mixer.in_proj.weight", "ssm_in.weight"},
    {"mixer.conv1d.weight", "ssm_conv1d.weight"},
    {"mixer.conv1d.bias", "ssm_conv1d.bias"},
    {"mixer.dt_bias", "ssm_dt.bias"},
    {"mixer.A_log", "ssm_a"},
    {"mixer.D", "ssm_d"},
    {"mixer.norm.weight", "ssm_norm.weight"},
    {"mixer.out_proj.weight", "ssm_out.weight"},
    {"mixer.q_proj.weight", "attn_q.weight"},
    {"mixer.k_proj.weight", "attn_k.weight"},
    {"mixer.v_proj.weight", "attn_v.weight"},
    {"mixer.o_proj.weight", "attn_output.weight"},
    {"mixer.up_proj.weight", "ffn_up.weight"},
    {"mixer.down_proj.weight", "ffn_down.weight"},
    {"mixer.gate.weight", "ffn_gate_inp.weight"},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mixer.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    {"mixer.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    {"mixer.fc1_latent_proj.weight", "ffn_latent_down.weight"},
    {"mixer.fc2_latent_proj.weight", "ffn_latent_up.weight"},
};

// Interleaves the two halves of each head.
std::vector<float> permuted(const std::vector<float>& values, std::size_t columns, std::size_t head_dim) {
  std::vector<float> out(values.size());
  for (std::size_t row = 0; row < values.size() / columns; ++row) {
    const std::size_t in_head = row % head_dim;
    const std::size_t half = head_dim / 2;
    const std::size_t to = row - in_head + in_head % half * 2 + in_head / half;
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(row * columns), columns,
                out.begin() + static_cast<std::ptrdiff_t>(to * columns));
  }
  return out;
}

std::map<std::string, StoredInGguf> in_gguf(const ModelConfig& config, const Weights& weights) {
  std::map<std::string, StoredInGguf> out;
  for (const TensorSpec& tensor : config.tensors) {
    const std::vector<float>& values = weights.at(tensor.name);
    if (!tensor.name.starts_with("layers.")) {
      const std::string name = tensor.name == "embeddings.weight" ? "token_embd.weight"
                               : tensor.name == "norm_f.weight"   ? "output_norm.weight"
                                                                  : "output.weight";
      out[name] = {tensor.shape, values};
      continue;
    }
    const std::size_t dot = tensor.name.find('.', 7);
    const std::string block = "blk." + tensor.name.substr(7, dot - 7) + ".";
    const std::string inner = tensor.name.substr(dot + 1);
    if (inner.starts_with("mixer.experts.")) {  // stacked
      const bool up = inner.ends_with("up_proj.weight");
      StoredInGguf& stack = out[block + (up ? "ffn_up_exps.weight" : "ffn_down_exps.weight")];
      if (stack.shape.empty()) stack.shape = {0, tensor.shape[0], tensor.shape[1]};
      ++stack.shape[0];
      stack.values.insert(stack.values.end(), values.begin(), values.end());
      continue;
    }
    StoredInGguf& stored = out[block + kGgufNames.at(inner)];
    stored = {tensor.shape, values};
    if (inner == "mixer.conv1d.weight") stored.shape = {tensor.shape[0], tensor.shape[2]};
    if (inner == "mixer.A_log") {
      for (float& value : stored.values) value = -std::exp(value);
    }
    if (inner == "mixer.A_log" || inner == "mixer.D") stored.shape = {tensor.shape[0], 1};
    if (inner == "mixer.norm.weight") {
      const std::size_t groups = parts_of<Mamba2Spec>(config.layers).front()->groups;
      stored.shape = {groups, tensor.shape[0] / groups};
    }
    if (inner == "mixer.q_proj.weight" || inner == "mixer.k_proj.weight") {
      stored.values = permuted(values, tensor.shape[1], 8);
    }
  }
  return out;
}

// Writes the metadata of a Mamba-2 model with `heads` heads of 8.
GgufWriter begin(const std::string& arch, std::uint32_t blocks, std::uint32_t heads, std::uint32_t groups,
                 std::uint32_t state) {
  GgufWriter out;
  out.text("general.architecture", arch);
  out.u32(arch + ".context_length", 1u << 20);
  out.u32(arch + ".embedding_length", 24);
  out.u32(arch + ".block_count", blocks);
  out.u32(arch + ".ssm.conv_kernel", 4);
  out.u32(arch + ".ssm.inner_size", heads * 8);
  out.u32(arch + ".ssm.state_size", state);
  out.u32(arch + ".ssm.time_step_rank", heads);
  out.u32(arch + ".ssm.group_count", groups);
  out.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5F);
  return out;
}

void expect_the_folders_model(GgufWriter writer, const std::string& json) {
  const ModelConfig folder = test::read(json);
  const Weights weights = test::random_weights(folder);
  for (const auto& [name, tensor] : in_gguf(folder, weights)) {
    writer.tensor(name, 0, tensor.shape, test::raw_f32(tensor.values));
  }
  const TempDir dir;
  const ModelFiles file = ModelFiles::open(dir.write("m.gguf", writer.bytes()));
  EXPECT_EQ(file.config().layers, folder.layers);
  EXPECT_EQ(file.config().architecture, folder.architecture);
  ASSERT_EQ(file.names().size(), folder.tensors.size());
  for (const TensorSpec& spec : folder.tensors) {
    const Tensor tensor = file.tensor(spec.name);
    EXPECT_EQ(tensor.shape, spec.shape) << spec.name;
    if (spec.name.ends_with("A_log")) {
      for (std::size_t i = 0; i < weights.at(spec.name).size(); ++i) {
        EXPECT_NEAR(test::values(tensor)[i], weights.at(spec.name)[i], 1e-6);
      }
      continue;
    }
    EXPECT_EQ(test::values(tensor), weights.at(spec.name)) << spec.name;
  }
}

TEST(Mamba2Gguf, Mamba2WithGroups) {
  GgufWriter writer = begin("mamba2", 2, 6, 3, 5);
  writer.u32("mamba2.feed_forward_length", 0);
  writer.u32("mamba2.attention.head_count", 0);
  expect_the_folders_model(std::move(writer), test::mamba2());
}

TEST(Mamba2Gguf, NemotronH) {
  GgufWriter writer = begin("nemotron_h", 4, 4, 2, 6);
  writer.i32s("nemotron_h.feed_forward_length", {0, 20, 0, 0});
  writer.i32s("nemotron_h.attention.head_count_kv", {0, 0, 2, 0});
  writer.u32("nemotron_h.attention.head_count", 4);
  writer.u32("nemotron_h.attention.key_length", 8);
  writer.u32("nemotron_h.attention.value_length", 8);
  expect_the_folders_model(std::move(writer), test::nemotron_h(R"("hybrid_override_pattern": "M-*M")"));
}

TEST(Mamba2Gguf, NemotronHWithExperts) {
  GgufWriter writer = begin("nemotron_h_moe", 4, 4, 2, 6);
  writer.i32s("nemotron_h_moe.feed_forward_length", {0, 12, 0, 12});
  writer.i32s("nemotron_h_moe.attention.head_count_kv", {0, 0, 2, 0});
  writer.u32("nemotron_h_moe.attention.head_count", 4);
  writer.u32("nemotron_h_moe.attention.key_length", 8);
  writer.u32("nemotron_h_moe.attention.value_length", 8);
  writer.u32("nemotron_h_moe.expert_count", 8);
  writer.u32("nemotron_h_moe.expert_used_count", 3);
  writer.u32("nemotron_h_moe.expert_feed_forward_length", 12);
  writer.u32("nemotron_h_moe.expert_shared_feed_forward_length", 10);
  writer.u32("nemotron_h_moe.expert_shared_count", 1);
  writer.boolean("nemotron_h_moe.expert_weights_norm", true);
  writer.f32("nemotron_h_moe.expert_weights_scale", 2.5F);
  writer.u32("nemotron_h_moe.expert_group_count", 1);
  writer.u32("nemotron_h_moe.moe_latent_size", 16);
  expect_the_folders_model(std::move(writer), test::nemotron_h_moe(R"("moe_latent_size": 16)"));
}

}  // namespace
}  // namespace reprise::models
