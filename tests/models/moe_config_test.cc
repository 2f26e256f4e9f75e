// Configs and tensors of families with experts, and errors in them.

#include "models/files/json_location.h"
#include "models/model_files.h"
#include "models/weight_tensors.h"
#include "tests/models/config_parts.h"
#include "tests/models/expect_error.h"
#include "tests/models/files/tensor_values.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using test::GgufWriter;
using test::SafetensorsWriter;
using test::TempDir;
using test::TinyModel;
using test::TinyTensor;

class MoeConfig : public testing::Test {
 protected:
  static ModelConfig read_hf(const std::string& text) {
    return ModelConfig::from_hf(JsonLocation::parse(text, "config.json"));
  }
  static ModelConfig read_changed(const TinyModel& model, const std::string& from, const std::string& to) {
    std::string text = model.config_json();
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return read_hf(text.replace(at, from.size(), to));
  }
  ModelFiles open_gguf(const GgufWriter& writer) {
    return ModelFiles::open(dir_.write("m.gguf", writer.bytes()));
  }
  ModelFiles open_hf(const TinyModel& model) { return open_hf(model.config_json(), model.safetensors()); }
  ModelFiles open_hf(const std::string& config, const SafetensorsWriter& tensors) {
    dir_.write("config.json", config);
    dir_.write("model.safetensors", tensors.bytes());
    return ModelFiles::open(dir_.path());
  }
  static std::vector<bool> expert_layers(const ModelConfig& config) {
    std::vector<bool> out;
    for (const LayerSpec& layer : config.layers) out.push_back(!parts_of<MoeSpec>({&layer, 1}).empty());
    return out;
  }
  static void expect_model(const ModelFiles& files, const TinyModel& model) {
    EXPECT_EQ(files.names().size(), model.tensors.size());
    for (const auto& [name, tensor] : model.tensors) {
      EXPECT_EQ(test::values(files.tensor(name)), tensor.values) << name;
    }
    files.validate();
  }

  TempDir dir_;
  const TinyModel moe_{{.type = "qwen3_5_moe_text"}};
  const TinyModel next_{{.type = "qwen3_next"}};
};

TEST_F(MoeConfig, ReadsWhatIsSaid) {
  const MoeSpec spec = first_part<MoeSpec>(read_hf(moe_.config_json()));
  EXPECT_EQ(spec.name, "layers.0.mlp");
  EXPECT_EQ(spec.hidden, 8u);
  EXPECT_EQ(spec.experts, 4u);
  EXPECT_EQ(spec.chosen, 2u);
  EXPECT_EQ(spec.intermediate, 4u);
  EXPECT_EQ(spec.shared_intermediate, 5u);
  EXPECT_TRUE(spec.normalized);
  EXPECT_EQ(spec.idle_parameters(), 2u * 3 * 8 * 4);
  EXPECT_EQ(read_hf(moe_.config_json()).architecture, "qwen3_5_moe_text");
  EXPECT_EQ(read_hf(TinyModel({.type = "qwen3_5_moe"}).config_json()).architecture, "qwen3_5_moe_text");
}

TEST_F(MoeConfig, NormalizesAsTheFamilyDoes) {
  const auto normalized = [](const ModelConfig& config) { return first_part<MoeSpec>(config).normalized; };
  EXPECT_TRUE(normalized(read_hf(next_.config_json())));
  EXPECT_TRUE(normalized(read_changed(next_, "\"norm_topk_prob\":true,", "")));
  EXPECT_FALSE(normalized(read_changed(next_, "\"norm_topk_prob\":true", "\"norm_topk_prob\":false")));
  EXPECT_TRUE(normalized(read_hf(moe_.config_json("\"norm_topk_prob\":false,"))));
}

TEST_F(MoeConfig, PlacesExpertsWhereTheKeysSay) {
  const std::string none = "\"mlp_only_layers\":[],";
  const auto expert_layers_with = [&](const std::string& keys) {
    return expert_layers(read_changed(next_, none, keys));
  };
  EXPECT_EQ(expert_layers_with(""), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(expert_layers_with("\"decoder_sparse_step\":2,"), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(expert_layers_with("\"decoder_sparse_step\":3,"), (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(expert_layers_with("\"mlp_only_layers\":[2,0,9],"),
            (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(expert_layers_with("\"mlp_only_layers\":[1],\"decoder_sparse_step\":2,"),
            (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(expert_layers(read_changed(next_, "\"num_experts\":4", "\"num_experts\":0")),
            (std::vector<bool>{false, false, false, false}));
  // The other family has experts in every layer.
  EXPECT_EQ(expert_layers(read_hf(moe_.config_json("\"decoder_sparse_step\":2,\"mlp_only_layers\":[0],"))),
            (std::vector<bool>{true, true, true, true}));
  const TinyModel mixed({.type = "qwen3_next", .sparse = {true, false, true, false}});
  EXPECT_EQ(expert_layers(open_gguf(mixed.gguf()).config()), mixed.o.sparse);
}

TEST_F(MoeConfig, RefusesKeysThatMakeNoSense) {
  const auto refuse = [&](const std::string& from, const std::string& to, const char* reason) {
    EXPECT_LOAD_ERROR(read_changed(next_, from, to), reason);
    EXPECT_LOAD_ERROR(read_changed(moe_, from, to), reason);
  };
  refuse("\"num_experts_per_tok\":2", "\"num_experts_per_tok\":5",
         "config.json: num_experts_per_tok: 5 is more than num_experts, which is 4");
  refuse("\"num_experts_per_tok\":2", "\"num_experts_per_tok\":0", "num_experts_per_tok: 0 is out of range");
  refuse("\"num_experts_per_tok\":2,", "", "num_experts_per_tok");
  refuse("\"num_experts\":4", "\"num_experts\":-4", "num_experts: -4 is out of range");
  refuse("\"num_experts\":4", "\"num_experts\":100000", "num_experts: 100000 is out of range");
  EXPECT_LOAD_ERROR(read_changed(TinyModel({.type = "qwen3_5_moe_text", .layers = 40, .experts = 2}),
                                 "\"num_experts\":2", "\"num_experts\":4096"),
                    "num_experts: 4096 in each of 40 layers are more than 131072");
  refuse("\"moe_intermediate_size\":4,", "", "moe_intermediate_size");
  refuse("\"shared_expert_intermediate_size\":5", "\"shared_expert_intermediate_size\":-5",
         "shared_expert_intermediate_size: -5 is out of range");
  refuse("\"hidden_act\":\"silu\"", "\"hidden_act\":\"gelu\"", "the activation 'gelu' is not known");
  EXPECT_LOAD_ERROR(read_changed(next_, "\"mlp_only_layers\":[]", "\"mlp_only_layers\":3"),
                    "mlp_only_layers");
  EXPECT_LOAD_ERROR(read_changed(next_, "\"mlp_only_layers\":[]", "\"decoder_sparse_step\":0"),
                    "decoder_sparse_step: 0 is out of range");

  TinyModel many({.type = "qwen3_5_moe_text"});
  many.o.chosen = 9;
  EXPECT_LOAD_ERROR(open_gguf(many.gguf()),
                    "qwen35moe.expert_used_count: 9 is more than expert_count, which is 4");
  GgufWriter scaled = moe_.gguf();
  scaled.f32("qwen35moe.expert_weights_scale", 2.5F);
  EXPECT_LOAD_ERROR(open_gguf(scaled), "expert_weights_scale: is not known in this architecture");
}

TEST_F(MoeConfig, LearnsSizesOfTensorsThatGgufKeysLeaveOut) {
  TinyModel silent = next_;
  silent.o.expert_size = 0;
  silent.o.shared_size = 0;
  expect_model(open_gguf(silent.gguf()), next_);
}

TEST_F(MoeConfig, ReadsOtherLayoutsOfGguf) {
  // Gate and up of each expert fused in one tensor, and DeltaNet's projections as Hugging Face stores them.
  TinyModel model = next_;
  std::map<std::string, TinyTensor> fused;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    TinyTensor& both = fused["blk." + std::to_string(i) + ".ffn_gate_up_exps.weight"];
    TinyTensor& down = fused["blk." + std::to_string(i) + ".ffn_down_exps.weight"];
    both.shape = {4, 8, 8};
    down.shape = {4, 8, 4};
    for (std::size_t e = 0; e < 4; ++e) {
      for (const char* matrix : {"gate_proj", "up_proj", "down_proj"}) {
        const std::string name = layer + "mlp.experts." + std::to_string(e) + "." + matrix + ".weight";
        std::vector<float>& to = std::string_view(matrix) == "down_proj" ? down.values : both.values;
        const std::vector<float>& from = next_.tensors.at(name).values;
        to.insert(to.end(), from.begin(), from.end());
        model.tensors.erase(name);
      }
    }
    if (!next_.o.linear[i]) continue;
    fused["blk." + std::to_string(i) + ".ssm_in.weight"] =
        next_.hf_tensors().at(layer + "linear_attn.in_proj_qkvz.weight");
    model.tensors.erase(layer + "linear_attn.in_proj_qkv.weight");
    model.tensors.erase(layer + "linear_attn.in_proj_z.weight");
  }
  GgufWriter writer = model.gguf();
  for (const auto& [name, tensor] : fused) writer.tensor(name, 0, tensor.shape, test::raw_f32(tensor.values));
  expect_model(open_gguf(writer), next_);
}

TEST_F(MoeConfig, KeepsStackedExpertsWhereTheyAre) {
  const TinyModel stacked({.type = "qwen3_5_moe_text", .stacked = true});
  const ModelFiles hf = open_hf(stacked);
  expect_model(hf, stacked);
  EXPECT_EQ(hf.tensor("layers.0.mlp.experts.3.up_proj.weight").owned, nullptr);
  const ModelFiles gguf = open_gguf(stacked.gguf(true));
  EXPECT_EQ(gguf.tensor("layers.0.mlp.experts.3.up_proj.weight").owned, nullptr);
  const ModelFiles next = open_hf(next_);
  EXPECT_NE(next.tensor("layers.0.linear_attn.in_proj_z.weight").owned, nullptr);
  EXPECT_EQ(next.tensor("layers.0.mlp.experts.3.up_proj.weight").owned, nullptr);
  EXPECT_EQ(next.total_bytes(), [&] {
    std::uint64_t bytes = 0;
    for (const auto& [name, tensor] : next_.tensors) bytes += 2 * tensor.values.size();
    return bytes;
  }());
}

TEST_F(MoeConfig, TakesFusedProjectionsApartInFp8) {
  // Heads are whole tiles and all elements 1, so the values are the tiles' scales.
  const TinyModel model(
      {.type = "qwen3_next", .key_heads = 2, .value_heads = 2, .key_dim = 128, .value_dim = 128});
  SafetensorsWriter tensors;
  for (const auto& [name, tensor] : model.hf_tensors()) {
    const std::string prefix = name == "lm_head.weight" ? "" : "model.";
    if (name != "layers.0.linear_attn.in_proj_qkvz.weight") {
      tensors.tensor(prefix + name, "BF16", tensor.shape, test::raw_bf16(tensor.values));
      continue;
    }
    ASSERT_EQ(tensor.shape, (std::vector<std::uint64_t>{1024, 8}));
    tensors.tensor(prefix + name, "F8_E4M3", tensor.shape, std::string(1024 * 8, '\x38'));
    tensors.tensor(prefix + name + "_scale_inv", "F32", {8, 1}, test::raw_f32({1, 2, 3, 4, 5, 6, 7, 8}));
  }
  const ModelFiles files = open_hf(
      model.config_json(
          R"("quantization_config":{"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]},)"),
      tensors);
  files.validate();
  const auto tiles = [&](const std::string& name) {
    const std::vector<float> values = load_vector(files, "layers.0.linear_attn." + name + ".weight");
    std::vector<float> out;
    for (std::size_t at = 0; at < values.size(); at += 128 * 8) {
      for (std::size_t i = 0; i < 128 * 8; ++i) EXPECT_EQ(values[at + i], values[at]) << name;
      out.push_back(values[at]);
    }
    return out;
  };
  EXPECT_EQ(tiles("in_proj_qkv"), (std::vector<float>{1, 5, 2, 6, 3, 7}));  // q, k and v of two heads
  EXPECT_EQ(tiles("in_proj_z"), (std::vector<float>{4, 8}));
}

TEST_F(MoeConfig, NamesMissingTensorsAndWrongShapes) {
  TinyModel less = moe_;
  less.tensors.erase("layers.1.mlp.experts.2.up_proj.weight");
  EXPECT_LOAD_ERROR(open_hf(less),
                    "model.layers.1.mlp.experts.2.up_proj.weight: is missing, and so is "
                    "model.layers.1.mlp.experts.gate_up_proj");
  TinyModel routerless = moe_;
  routerless.tensors.erase("layers.2.mlp.gate.weight");
  EXPECT_LOAD_ERROR(open_hf(routerless), "model.layers.2.mlp.gate.weight: is missing");
  EXPECT_LOAD_ERROR(open_gguf(routerless.gguf()), "blk.2.ffn_gate_inp.weight: is missing");
  TinyModel expertless = moe_;
  for (std::size_t e = 0; e < 4; ++e) {
    for (const char* matrix : {"gate_proj", "up_proj", "down_proj"}) {
      expertless.tensors.erase("layers.0.mlp.experts." + std::to_string(e) + "." + matrix + ".weight");
    }
  }
  EXPECT_LOAD_ERROR(open_gguf(expertless.gguf()),
                    "blk.0.ffn_gate_exps.weight: is missing, and so is blk.0.ffn_gate_up_exps.weight");
  TinyModel turned({.type = "qwen3_5_moe_text", .experts = 3});
  turned.o.experts = 2;
  EXPECT_LOAD_ERROR(ModelFiles::open([&] {
                      dir_.write("config.json", turned.config_json());
                      turned.o.experts = 3;
                      turned.o.stacked = true;
                      dir_.write("model.safetensors", turned.safetensors().bytes());
                      return dir_.path();
                    }()),
                    "model.layers.0.mlp.gate.weight: expected shape [2, 8], found [3, 8]");
  TinyModel sized = moe_;
  sized.o.expert_size = 5;
  EXPECT_LOAD_ERROR(open_gguf(sized.gguf()),
                    "blk.0.ffn_gate_exps.weight: expected shape [4, 5, 8], found [4, 4, 8]");
}

TEST_F(MoeConfig, IgnoresVisionAndPrediction) {
  const TinyModel model({.type = "qwen3_5_moe", .stacked = true});
  SafetensorsWriter tensors = model.safetensors("model.language_model.");
  tensors.tensor("model.visual.blocks.0.attn.qkv.weight", "BF16", {1}, "xx");
  tensors.tensor("mtp.layers.0.mlp.experts.0.up_proj.weight", "BF16", {1}, "xx");
  expect_model(open_hf(model.config_json(), tensors), model);
  GgufWriter w = model.gguf();
  w.tensor("blk.4.ffn_up_exps.weight", 0, {1}, "1234");
  w.tensor("blk.4.nextn.eh_proj.weight", 0, {1}, "1234");
  expect_model(open_gguf(w), model);
  GgufWriter stray = model.gguf();
  stray.tensor("blk.1.ffn_up.weight", 0, {1}, "1234");
  EXPECT_LOAD_ERROR(open_gguf(stray), "blk.1.ffn_up.weight: this architecture has no such tensor");
}

}  // namespace
}  // namespace reprise::models
