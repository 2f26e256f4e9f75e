#include "models/arch/config.h"
#include "models/files/gguf.h"
#include "models/files/json_location.h"
#include "tests/models/config_parts.h"
#include "tests/models/expect_error.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using test::GgufWriter;
using test::TempDir;
using test::TinyModel;

class ConfigGguf : public testing::Test {
 protected:
  ModelConfig read(const GgufWriter& w) {
    return ModelConfig::from_gguf(Gguf::open(dir_.write("m.gguf", w.bytes())));
  }

  // The keys of a qwen35 model except `without`, and the one tensor a config requires.
  static GgufWriter base(const std::vector<std::string>& without = {}) {
    GgufWriter w;
    const auto u32 = [&](const std::string& key, std::uint32_t value) {
      for (const std::string& skipped : without) {
        if (key == skipped) return;
      }
      w.u32("qwen35." + key, value);
    };
    w.text("general.architecture", "qwen35");
    u32("block_count", 4);
    u32("context_length", 64);
    u32("embedding_length", 8);
    u32("feed_forward_length", 6);
    u32("attention.head_count", 4);
    u32("attention.head_count_kv", 2);
    u32("attention.key_length", 8);
    u32("rope.dimension_count", 4);
    u32("ssm.conv_kernel", 4);
    u32("ssm.state_size", 2);
    u32("ssm.group_count", 2);
    u32("ssm.time_step_rank", 4);
    u32("ssm.inner_size", 12);
    w.f32("qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
    w.f32("qwen35.rope.freq_base", 1e7f);
    w.tensor("token_embd.weight", 0, {5, 8}, std::string(160, 'x'));
    return w;
  }
  TempDir dir_;
};

TEST_F(ConfigGguf, AgreesWithHuggingFace) {
  for (const char* type : {"qwen3_5_text", "qwen3", "llama"}) {
    const TinyModel model({.type = type, .tied = true, .attention_bias = true});
    const ModelConfig a = from_hf(model.config_json());
    const ModelConfig b = read(model.gguf());
    EXPECT_EQ(a.architecture, b.architecture);
    EXPECT_EQ(a.hidden, b.hidden);
    EXPECT_EQ(a.vocab, b.vocab);
    EXPECT_EQ(a.context_length, b.context_length);
    EXPECT_EQ(a.final_norm, b.final_norm);
    EXPECT_EQ(a.head, b.head);
    EXPECT_EQ(attention_of(a).bias, attention_of(b).bias);
    EXPECT_EQ(attention_of(a).head_norm, attention_of(b).head_norm);
    EXPECT_EQ(attention_of(a).q_proj_rows(), attention_of(b).q_proj_rows());
    EXPECT_EQ(a.layers, b.layers);
    EXPECT_EQ(rope_of(a).inv_freq, rope_of(b).inv_freq);
    EXPECT_EQ(rope_of(a).mrope_section, rope_of(b).mrope_section);
  }
}

TEST_F(ConfigGguf, FillsInWhatIsNotSaid) {
  GgufWriter w = base({"attention.head_count_kv", "attention.key_length", "rope.dimension_count"});
  w.i32s("qwen35.rope.dimension_sections", {1, 0, 0, 0});
  const ModelConfig c = read(w);
  EXPECT_EQ(c.vocab, 5u);
  EXPECT_EQ(attention_of(c).kv_heads, 4u);
  EXPECT_EQ(attention_of(c).head_dim, 2u);
  EXPECT_EQ(rope_of(c).dimension, 2u);
  EXPECT_EQ(gated_delta_net_of(c).value_head_dim, 3u);
  EXPECT_EQ(gated_delta_nets(c), 3u);
  EXPECT_TRUE(c.tied());
  EXPECT_TRUE(c.tokens.eos.empty());
}

TEST_F(ConfigGguf, ReadsOtherSpellings) {
  // Three rope sections under another name, and layers without key-value heads instead of an interval.
  GgufWriter w = base({"attention.head_count_kv"});
  w.i32s("qwen35.rope.mrope_section", {1, 1, 0});
  w.i32s("qwen35.attention.head_count_kv", {0, 2, 0, 2});
  const ModelConfig c = read(w);
  EXPECT_EQ(rope_of(c).mrope_section, (std::vector<std::size_t>{1, 1, 0}));
  EXPECT_EQ(attention_of(c).kv_heads, 2u);
  EXPECT_TRUE(attends(c.layers[1]));
  EXPECT_EQ(gated_delta_nets(c), 2u);

  GgufWriter differing = base({"attention.head_count_kv"});
  differing.i32s("qwen35.attention.head_count_kv", {0, 2, 0, 4});
  EXPECT_LOAD_ERROR(read(differing), "qwen35.attention.head_count_kv: layers that differ");
  GgufWriter shorter = base({"attention.head_count_kv"});
  shorter.i32s("qwen35.rope.dimension_sections", {1, 1, 0});
  shorter.i32s("qwen35.attention.head_count_kv", {0, 2});
  EXPECT_LOAD_ERROR(read(shorter), "has 2 entries for 4 layers");
}

TEST_F(ConfigGguf, LeavesOutPredictionLayers) {
  GgufWriter w = base();
  w.i32s("qwen35.rope.dimension_sections", {1, 1, 0, 0});
  w.u32("qwen35.nextn_predict_layers", 1);
  EXPECT_EQ(read(w).layers.size(), 3u);
  GgufWriter all = base();
  all.u32("qwen35.nextn_predict_layers", 4);
  EXPECT_LOAD_ERROR(read(all), "nextn_predict_layers: leaves no layers");
}

TEST_F(ConfigGguf, ReadsTokensAndSampling) {
  GgufWriter w = base();
  w.i32s("qwen35.rope.dimension_sections", {1, 1, 0, 0});
  w.u32("tokenizer.ggml.eos_token_id", 1);
  w.u32("tokenizer.ggml.eot_token_id", 3);
  w.u32("tokenizer.ggml.eom_token_id", 1);
  w.u32("tokenizer.ggml.padding_token_id", 77);
  w.f32("general.sampling.temp", 0.5f);
  w.key("general.sampling.top_k", 5, test::raw<std::int32_t>(20));
  const ModelConfig c = read(w);
  EXPECT_EQ(c.tokens.eos, (std::vector<std::int32_t>{1, 3}));
  EXPECT_FALSE(c.tokens.pad.has_value());
  EXPECT_EQ(c.sampling.temperature, 0.5);
  EXPECT_EQ(c.sampling.top_k, 20);
}

TEST_F(ConfigGguf, ReadsRopeFactors) {
  const TinyModel model({.type = "llama"});
  GgufWriter w = model.gguf();
  w.tensor("rope_freqs.weight", 0, {4}, test::raw_f32({1, 1, 2, 8}));
  const ModelConfig c = read(w);
  const ModelConfig plain = read(model.gguf());
  EXPECT_EQ(rope_of(c).inv_freq[1], rope_of(plain).inv_freq[1]);
  EXPECT_EQ(rope_of(c).inv_freq[3], rope_of(plain).inv_freq[3] / 8);
  GgufWriter wrong = model.gguf();
  wrong.tensor("rope_freqs.weight", 0, {3}, test::raw_f32({1, 1, 2}));
  EXPECT_LOAD_ERROR(read(wrong), "3 rope factors for 4 frequencies");
  GgufWriter zero = model.gguf();
  zero.tensor("rope_freqs.weight", 0, {4}, test::raw_f32({1, 1, 2, 0}));
  EXPECT_LOAD_ERROR(read(zero), "a rope factor is not positive");
}

TEST_F(ConfigGguf, ReadsRopeScaling) {
  const TinyModel model({.type = "llama", .head_dim = 128});
  GgufWriter linear = model.gguf();
  linear.text("llama.rope.scaling.type", "linear");
  linear.f32("llama.rope.scaling.factor", 4);
  EXPECT_EQ(rope_of(read(linear)).inv_freq[0], 0.25f);
  GgufWriter yarn = model.gguf();
  yarn.text("llama.rope.scaling.type", "yarn");
  yarn.f32("llama.rope.scaling.factor", 4);
  yarn.u32("llama.rope.scaling.original_context_length", 32768);
  const ModelConfig same = from_hf(model.config_json(
      R"("rope_scaling":{"type":"yarn","factor":4.0,"original_max_position_embeddings":32768},)"));
  EXPECT_EQ(rope_of(read(yarn)).inv_freq, rope_of(same).inv_freq);
  EXPECT_EQ(rope_of(read(yarn)).attention_factor, rope_of(same).attention_factor);
  GgufWriter other = model.gguf();
  other.text("llama.rope.scaling.type", "longrope");
  EXPECT_LOAD_ERROR(read(other), "llama.rope.scaling.type: longrope is not known");
}

TEST_F(ConfigGguf, RefusesValuesOutOfRange) {
  const auto refuse = [&](const std::string& key, std::uint32_t value, const char* reason) {
    GgufWriter w = base({key});
    w.i32s("qwen35.rope.dimension_sections", {1, 1, 0, 0});
    w.u32("qwen35." + key, value);
    EXPECT_LOAD_ERROR(read(w), reason);
  };
  refuse("block_count", 0, "m.gguf: qwen35.block_count: 0 is out of range");
  refuse("block_count", 4000000000u, "qwen35.block_count: 4000000000 is out of range");
  refuse("context_length", 2147483648u, "qwen35.context_length: 2147483648 is out of range: 1 to 2147483647");
  GgufWriter long_context = base({"context_length"});
  long_context.key("qwen35.context_length", 10, test::raw<std::uint64_t>(1ull << 32));
  EXPECT_LOAD_ERROR(read(long_context), "qwen35.context_length: 4294967296 is out of range: 1 to 2147483647");
  refuse("attention.head_count_kv", 3,
         "qwen35.attention.head_count_kv: 3 does not divide attention.head_count");
  refuse("ssm.time_step_rank", 5, "qwen35.ssm.inner_size: 12 does not suit 5 heads");
  refuse("ssm.time_step_rank", 3, "qwen35.ssm.time_step_rank: 3 is not a multiple");
  refuse("rope.dimension_count", 5, "qwen35.rope.dimension_count: 5 rotated");
  refuse("rope.dimension_count", 64, "qwen35.rope.dimension_count: 64 rotated");
  refuse("attention.value_length", 9, "attention.value_length: must be the same");
  refuse("expert_count", 8, "expert_count: experts are not supported");
  GgufWriter missing = base({"embedding_length"});
  EXPECT_LOAD_ERROR(read(missing), "qwen35.embedding_length: this key is missing");
}

TEST_F(ConfigGguf, UnknownArchitecture) {
  GgufWriter w;
  w.text("general.architecture", "gpt2");
  EXPECT_LOAD_ERROR(read(w), "m.gguf: general.architecture: unknown architecture 'gpt2'");
  EXPECT_LOAD_ERROR(read(GgufWriter()), "general.architecture: this key is missing");
}

}  // namespace
}  // namespace reprise::models
