// What adapter files may contain, and what is refused with item and reason.

#include <gtest/gtest.h>

#include <random>

#include "models/adapters/adapter.h"
#include "models/model_files.h"
#include "tests/models/adapters/tiny_adapter.h"
#include "tests/models/expect_error.h"

namespace reprise::models {
namespace {

using test::GgufWriter;
using test::raw_f32;
using test::SafetensorsWriter;
using test::TempDir;
using test::TinyAdapter;
using test::TinyModel;

class AdapterFiles : public testing::Test {
 protected:
  AdapterFiles() : model_({.type = "llama"}), adapter_(model_, {"q_proj", "down_proj"}, 2, 4, 5) {
    TinyAdapter::write(dir_.path() / "config.json", model_.config_json());
    TinyAdapter::write(dir_.path() / "model.safetensors", model_.safetensors().bytes());
    config_ = ModelFiles::open(dir_.path()).config();
    adapter_.write_peft(folder());
  }

  std::filesystem::path folder() const { return dir_.path() / "adapter"; }
  Adapter open() const { return Adapter::open(folder(), config_); }
  Adapter open_gguf(const GgufWriter& file) const {
    return Adapter::open(dir_.write("adapter.gguf", file.bytes()), config_);
  }
  void write_config(const std::string& extra) const {
    TinyAdapter::write(folder() / "adapter_config.json", adapter_.config_json(extra));
  }
  void write_tensors(const SafetensorsWriter& tensors) const {
    TinyAdapter::write(folder() / "adapter_model.safetensors", tensors.bytes());
  }
  static std::string zeros(std::size_t count) { return raw_f32(std::vector<float>(count)); }

  GgufWriter gguf_head(const char* type = "adapter", const char* kind = "lora",
                       const char* arch = "llama") const {
    GgufWriter out;
    out.text("general.type", type);
    out.text("general.architecture", arch);
    out.text("adapter.type", kind);
    out.f32("adapter.lora.alpha", 8);
    return out;
  }

  TempDir dir_;
  TinyModel model_;
  TinyAdapter adapter_;
  ModelConfig config_;
};

TEST_F(AdapterFiles, ReadsAFolder) {
  const Adapter adapter = open();
  ASSERT_EQ(adapter.parts().size(), 8U);
  EXPECT_EQ(adapter.max_rank(), 2U);
  EXPECT_EQ(adapter.parts()[1].name, "layers.0.self_attn.q_proj");
  EXPECT_FLOAT_EQ(adapter.parts()[1].scale, 2);
  std::uint64_t bytes = 0;
  for (const auto& [name, change] : adapter_.changes)
    bytes += 4 * (change.a.values.size() + change.b.values.size());
  EXPECT_EQ(adapter.bytes(), bytes);
}

TEST_F(AdapterFiles, TheDigestIsOfAllThatCounts) {
  const std::uint64_t before = open().digest();
  EXPECT_EQ(open().digest(), before);
  write_config(",\"use_rslora\":true");
  EXPECT_NE(open().digest(), before);
  TinyAdapter other(model_, {"q_proj", "down_proj"}, 2, 4, 6);
  other.write_peft(folder());
  EXPECT_NE(open().digest(), before);
}

TEST_F(AdapterFiles, ScalesByRankRootAndPattern) {
  write_config(",\"use_rslora\":true");
  EXPECT_FLOAT_EQ(open().parts()[0].scale, 4 / std::sqrt(2.0F));
  write_config(",\"alpha_pattern\":{\"layers.0.self_attn.q_proj\":16}");
  // A duplicate member is refused, and the test's config has an empty one.
  EXPECT_LOAD_ERROR(open(), "alpha_pattern");
  TinyAdapter::write(folder() / "adapter_config.json",
                     R"({"r":3,"lora_alpha":4,"rank_pattern":{"q_proj":2,"down_proj":2},
                         "alpha_pattern":{"layers.0.self_attn.q_proj":16}})");
  const Adapter adapter = open();
  EXPECT_FLOAT_EQ(adapter.parts()[0].scale, 2) << adapter.parts()[0].name;
  EXPECT_FLOAT_EQ(adapter.parts()[1].scale, 8) << adapter.parts()[1].name;
  TinyAdapter::write(folder() / "adapter_config.json", R"({"r":3,"lora_alpha":4})");
  EXPECT_LOAD_ERROR(open(), "has rank 2");
  TinyAdapter::write(folder() / "adapter_config.json", R"({"r":2,"rank_pattern":{".*q_proj":2}})");
  EXPECT_LOAD_ERROR(open(), "rank_pattern");
}

TEST_F(AdapterFiles, RefusesSettingsByKeyAndValue) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"r":2,"use_dora":true})", "use_dora: true"},
      {R"({"r":2,"fan_in_fan_out":true})", "fan_in_fan_out: true"},
      {R"({"r":2,"lora_bias":true})", "lora_bias: true"},
      {R"({"r":2,"bias":"lora_only"})", "bias: 'lora_only'"},
      {R"({"r":2,"modules_to_save":["lm_head"]})", "modules_to_save: [lm_head]"},
      {R"({"r":2,"target_parameters":["experts.w"]})", "target_parameters: [experts.w]"},
      {R"({"r":2,"layer_replication":[[0,4]]})", "layer_replication"},
      {R"({"r":2,"alora_invocation_tokens":[1,2]})", "alora_invocation_tokens"},
      {R"({"r":2,"init_lora_weights":"pissa"})", "init_lora_weights: 'pissa'"},
      {R"({"r":2,"peft_type":"IA3"})", "peft_type: 'IA3'"},
      {R"({"lora_alpha":2})", "r"},
      {R"({"r":2,"lora_alpha":"two"})", "lora_alpha"},
      {R"({"r":2,"target_modules":["k_proj"]})", "target_modules"},
      {"[]", "adapter_config.json"},
  };
  for (const auto& [config, said] : cases) {
    TinyAdapter::write(folder() / "adapter_config.json", config);
    EXPECT_LOAD_ERROR(open(), said);
  }
  for (const char* config :
       {R"({"r":2,"init_lora_weights":"gaussian"})", R"({"r":2,"init_lora_weights":false})",
        R"({"r":2,"target_modules":["q_proj","down_proj"],"modules_to_save":[]})",
        R"({"r":2,"target_modules":"all-linear"})"}) {
    TinyAdapter::write(folder() / "adapter_config.json", config);
    EXPECT_EQ(open().parts().size(), 8U) << config;
  }
}

TEST_F(AdapterFiles, RefusesTensorsByName) {
  struct Case {
    const char* name;  // of the adapted module
    std::vector<std::uint64_t> a, b;
    const char* said;
  };
  const std::string p = "base_model.model.model.layers.0.";
  const Case cases[] = {
      {"base_model.model.model.layers.9.self_attn.q_proj",
       {2, 8},
       {32, 2},
       "the model has no matrix layers.9"},
      {"base_model.model.visual.layers.0.self_attn.q_proj",
       {2, 8},
       {32, 2},
       "the model has no matrix visual"},
      {"base_model.model.model.layers.0.self_attn.q_proj",
       {2, 9},
       {32, 2},
       "expected shape [2, 8], found [2, 9]"},
      {"base_model.model.model.layers.0.self_attn.q_proj",
       {2, 8},
       {33, 2},
       "expected shape [32, 2], found [33, 2]"},
      {"base_model.model.model.layers.0.self_attn.q_proj", {2, 8}, {32, 3}, "the rank of"},
      {"base_model.model.model.layers.0.self_attn.q_proj", {0, 8}, {32, 0}, "has rank 0"},
      {"base_model.model.model.layers.0.self_attn.q_proj", {16}, {32, 2}, "expected a matrix"},
      {"base_model.model.model.embed_tokens", {2, 8}, {11, 2}, "embedding"},
      {"base_model.model.model.layers.0.input_layernorm", {2, 8}, {8, 2}, "is not a single matrix"},
      {"model.layers.0.self_attn.q_proj", {2, 8}, {32, 2}, "is not named as a LoRA matrix"},
  };
  for (const Case& one : cases) {
    SafetensorsWriter out;
    const auto count = [](const std::vector<std::uint64_t>& shape) {
      std::size_t product = 1;
      for (const std::uint64_t d : shape) product *= d;
      return product;
    };
    out.tensor(std::string(one.name) + ".lora_A.weight", "F32", one.a, zeros(count(one.a)));
    out.tensor(std::string(one.name) + ".lora_B.weight", "F32", one.b, zeros(count(one.b)));
    write_tensors(out);
    EXPECT_LOAD_ERROR(open(), one.said);
  }
  for (const char* name : {"self_attn.q_proj.lora_magnitude_vector", "self_attn.q_proj.lora_A.bias",
                           "self_attn.q_proj.base_layer.weight"}) {
    SafetensorsWriter out;
    out.tensor(p + name, "F32", {2, 8}, zeros(16));
    write_tensors(out);
    EXPECT_LOAD_ERROR(open(), name);
  }
  {
    SafetensorsWriter out;
    out.tensor(p + "self_attn.q_proj.lora_B.weight", "F32", {32, 2}, zeros(64));
    write_tensors(out);
    EXPECT_LOAD_ERROR(open(), "the matching LoRA matrix, A, is missing");
  }
  {
    SafetensorsWriter out;
    out.tensor(p + "self_attn.q_proj.lora_A.weight", "F32", {2, 8}, raw_f32(std::vector<float>(16, NAN)));
    out.tensor(p + "self_attn.q_proj.lora_B.weight", "F32", {32, 2}, zeros(64));
    write_tensors(out);
    EXPECT_LOAD_ERROR(open(), "infinite or not a number");
  }
  {
    SafetensorsWriter out;
    out.tensor(p + "self_attn.q_proj.lora_A.weight", "I32", {2, 8}, zeros(16));
    out.tensor(p + "self_attn.q_proj.lora_B.weight", "F32", {32, 2}, zeros(64));
    write_tensors(out);
    EXPECT_LOAD_ERROR(open(), "the type I32 cannot be computed with");
  }
  write_tensors({});
  EXPECT_LOAD_ERROR(open(), "changes no matrix");
  std::filesystem::remove(folder() / "adapter_model.safetensors");
  EXPECT_LOAD_ERROR(open(), "adapter_model.safetensors");
}

TEST_F(AdapterFiles, NamesOfOneAdapterAmongSeveralAreRead) {
  SafetensorsWriter out;
  const std::string module = "base_model.model.model.language_model.layers.0.self_attn.q_proj";
  out.tensor(module + ".lora_A.default.weight", "BF16", {2, 8}, std::string(32, '\0'));
  out.tensor(module + ".lora_B.default.weight", "F16", {32, 2}, std::string(128, '\0'));
  write_tensors(out);
  const Adapter adapter = open();
  ASSERT_EQ(adapter.parts().size(), 1U);
  EXPECT_EQ(adapter.parts()[0].name, "layers.0.self_attn.q_proj");
  EXPECT_EQ(adapter.bytes(), 160U);
}

TEST_F(AdapterFiles, ReadsGgufAndRefusesOthers) {
  GgufWriter good = gguf_head();
  good.tensor("blk.0.attn_v.weight.lora_a", 0, {4, 8}, zeros(32));
  good.tensor("blk.0.attn_v.weight.lora_b", 0, {16, 4}, zeros(64));
  const Adapter adapter = open_gguf(good);
  ASSERT_EQ(adapter.parts().size(), 1U);
  EXPECT_EQ(adapter.parts()[0].name, "layers.0.self_attn.v_proj");
  EXPECT_FLOAT_EQ(adapter.parts()[0].scale, 2);

  EXPECT_LOAD_ERROR(open_gguf(gguf_head("model")), "general.type");
  EXPECT_LOAD_ERROR(open_gguf(gguf_head("adapter", "control_vector")), "adapter.type");
  EXPECT_LOAD_ERROR(open_gguf(gguf_head("adapter", "lora", "qwen3")), "general.architecture");
  GgufWriter activated = gguf_head();
  activated.i32s("adapter.alora.invocation_tokens", {1});
  EXPECT_LOAD_ERROR(open_gguf(activated), "adapter.alora.invocation_tokens");
  GgufWriter embedding = gguf_head();
  embedding.tensor("token_embd.weight.lora_a", 0, {4, 11}, zeros(44));
  embedding.tensor("token_embd.weight.lora_b", 0, {8, 4}, zeros(32));
  EXPECT_LOAD_ERROR(open_gguf(embedding), "embedding");
  GgufWriter norm = gguf_head();
  norm.tensor("blk.0.attn_norm.weight", 0, {8}, zeros(8));
  EXPECT_LOAD_ERROR(open_gguf(norm), "is not a lora_a or lora_b tensor");
  EXPECT_LOAD_ERROR(open_gguf(model_.gguf()), "general.type");
  EXPECT_LOAD_ERROR(Adapter::open(dir_.path() / "nowhere.gguf", config_), "nowhere.gguf");
}

// Any bytes either open or throw a LoadError.
TEST_F(AdapterFiles, BrokenBytesEndInAnError) {
  const std::string config = adapter_.config_json();
  const std::string tensors = adapter_.safetensors().bytes();
  const std::string gguf = adapter_.gguf(dir_.path() / "half").bytes();
  std::mt19937 random(3);
  std::size_t opened = 0;
  const auto try_open = [&](const std::filesystem::path& path) {
    try {
      opened += Adapter::open(path, config_).parts().size();
    } catch (const LoadError&) {
    }
  };
  for (int i = 0; i < 120; ++i) {
    const auto broken = [&](std::string bytes, std::size_t within) {
      const std::size_t at = random() % std::min(within, bytes.size());
      bytes[at] = static_cast<char>(random());
      if (i % 3 == 0) bytes.resize(random() % bytes.size());
      return bytes;
    };
    TinyAdapter::write(folder() / "adapter_config.json", i % 2 == 0 ? broken(config, config.size()) : config);
    TinyAdapter::write(folder() / "adapter_model.safetensors", i % 2 == 0 ? tensors : broken(tensors, 800));
    try_open(folder());
    try_open(dir_.write("adapter.gguf", broken(gguf, 600)));
  }
  EXPECT_GT(opened, 0U);
}

}  // namespace
}  // namespace reprise::models
