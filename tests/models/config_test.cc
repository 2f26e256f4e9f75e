#include "models/config.h"

#include <cmath>

#include "expect_error.h"
#include "models/gguf.h"
#include "models/json.h"
#include "tiny_model.h"

namespace reprise::models {
namespace {

using test::GgufWriter;
using test::TempDir;
using test::TinyModel;

ModelConfig from_hf(const std::string& text) {
  return ModelConfig::from_hf(Json::parse(text, "config.json"));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

std::string qwen35() {
  return TinyModel({.type = "qwen3_5_text"}).config_json();
}
std::string llama() {
  return TinyModel({.type = "llama"}).config_json();
}

TEST(ConfigHf, DerivesSizes) {
  const ModelConfig c = from_hf(qwen35());
  EXPECT_EQ(c.architecture, Architecture::kQwen35);
  EXPECT_EQ(c.hidden, 8u);
  EXPECT_EQ(c.attention.group, 2u);
  EXPECT_EQ(c.attention.q_size, 32u);
  EXPECT_EQ(c.attention.q_proj_rows, 64u);
  EXPECT_EQ(c.attention.kv_size, 16u);
  EXPECT_TRUE(c.attention.qk_norm);
  EXPECT_EQ(c.linear.group, 2u);
  EXPECT_EQ(c.linear.conv_channels, 16u);
  EXPECT_EQ(c.linear.state_size, 16u);
  EXPECT_EQ(c.linear.conv_state_size, 32u);
  EXPECT_EQ(c.linear_layers, 3u);
  EXPECT_EQ(c.attention_layers, 1u);
  EXPECT_EQ(c.layer_types[3], LayerType::kFullAttention);
  EXPECT_EQ(c.rope.dimension, 4u);
  ASSERT_EQ(c.rope.inv_freq.size(), 2u);
  EXPECT_EQ(c.rope.inv_freq[0], 1.0f);
  EXPECT_FLOAT_EQ(c.rope.inv_freq[1], static_cast<float>(1 / std::sqrt(1e7)));
  EXPECT_EQ(c.rope.mrope_section, (std::vector<std::size_t>{1, 1, 0}));
  EXPECT_EQ(c.norm_offset, 1.0f);
  EXPECT_EQ(c.tokens.eos, (std::vector<std::int32_t>{2, 3}));
}

TEST(ConfigHf, FindsTheTextPartOfAMultimodalModel) {
  const ModelConfig c = from_hf(TinyModel({.type = "qwen3_5", .tied = true}).config_json());
  EXPECT_EQ(c.architecture, Architecture::kQwen35);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_EQ(c.tokens.eos, (std::vector<std::int32_t>{2}));
  EXPECT_LOAD_ERROR(from_hf(R"({"model_type": "qwen3_5"})"), "text_config: is missing");
  EXPECT_LOAD_ERROR(from_hf(replaced(TinyModel({.type = "qwen3_5"}).config_json(), "\"hidden_size\":8",
                                     "\"hidden_size\":0")),
                    "config.json: text_config.hidden_size: 0 is out of range");
}

TEST(ConfigHf, LaysOutLayersByInterval) {
  std::string text = qwen35();
  const std::size_t at = text.find("\"layer_types\"");
  text.erase(at, text.find("],", at) + 2 - at);
  EXPECT_EQ(from_hf(text).linear_layers, 3u);
  const ModelConfig c = from_hf(replaced(text, "{", "{\"full_attention_interval\":2,"));
  EXPECT_EQ(c.layer_types, (std::vector<LayerType>{LayerType::kLinearAttention, LayerType::kFullAttention,
                                                   LayerType::kLinearAttention, LayerType::kFullAttention}));
}

TEST(ConfigHf, ReadsBothSpellingsOfRope) {
  EXPECT_EQ(from_hf(llama()).rope.theta, 500000);
  EXPECT_EQ(from_hf(llama()).rope.dimension, 8u);
  const std::string with =
      replaced(llama(), "\"rope_theta\":500000.0",
               "\"rope_parameters\":{\"rope_theta\":7e3,\"rope_type\":\"linear\",\"factor\":4}");
  const ModelConfig c = from_hf(with);
  EXPECT_EQ(c.rope.theta, 7000);
  EXPECT_EQ(c.rope.inv_freq[0], 0.25f);
}

// Frequencies of Llama 3.1 8B, head dimension 128: those of transformers' own table, by its formula in
// double.
TEST(ConfigHf, ScalesFrequenciesAsLlama3) {
  const std::string scaling =
      "\"rope_scaling\":{\"factor\":8.0,\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,"
      "\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},\"rope_theta\":500000.0";
  const ModelConfig c = from_hf(replaced(TinyModel({.type = "llama", .head_dim = 128}).config_json(),
                                         "\"rope_theta\":500000.0", scaling));
  ASSERT_EQ(c.rope.inv_freq.size(), 64u);
  EXPECT_EQ(c.rope.inv_freq[0], 1.0f);
  EXPECT_FLOAT_EQ(c.rope.inv_freq[28], static_cast<float>(std::pow(500000.0, -56 / 128.0)));
  EXPECT_FLOAT_EQ(c.rope.inv_freq[63], static_cast<float>(std::pow(500000.0, -126 / 128.0) / 8));
  const double inv = std::pow(500000.0, -64 / 128.0);  // between the two wave lengths
  const double smooth = (8192 / (2 * M_PI / inv) - 1) / 3;
  EXPECT_FLOAT_EQ(c.rope.inv_freq[32], static_cast<float>((1 - smooth) * inv / 8 + smooth * inv));
}

TEST(ConfigHf, RefusesWhatItDoesNotKnow) {
  EXPECT_LOAD_ERROR(from_hf(replaced(llama(), "\"llama\"", "\"gpt_oss\"")),
                    "model_type: unknown architecture 'gpt_oss'");
  EXPECT_LOAD_ERROR(from_hf("{}"), "model_type: is missing");
  EXPECT_LOAD_ERROR(from_hf("[]"), "expected an object");
  EXPECT_LOAD_ERROR(from_hf(replaced(llama(), "silu", "gelu")), "hidden_act: the activation 'gelu'");
  EXPECT_LOAD_ERROR(from_hf(replaced(qwen35(), "\"linear_attention\"", "\"sliding_attention\"")),
                    "layer_types[0]: unknown layer type 'sliding_attention'");
  EXPECT_LOAD_ERROR(from_hf(replaced(qwen35(), "\"default\"", "\"yarn\"")),
                    "the rope type 'yarn' is not known");
  EXPECT_LOAD_ERROR(from_hf(replaced(llama(), "{", "{\"quantization_config\":{\"quant_method\":\"fp8\"},")),
                    "quantization_config: quantised checkpoints (fp8)");
  EXPECT_LOAD_ERROR(from_hf(replaced(llama(), "{", "{\"use_sliding_window\":true,")), "use_sliding_window");
}

TEST(ConfigHf, RefusesValuesOutOfRange) {
  const auto refuse = [](const std::string& from, const std::string& to, const char* reason) {
    EXPECT_LOAD_ERROR(from_hf(replaced(qwen35(), from, to)), reason);
  };
  refuse("\"num_attention_heads\":4", "\"num_attention_heads\":0", "num_attention_heads: 0 is out of range");
  refuse("\"num_key_value_heads\":2", "\"num_key_value_heads\":3", "num_key_value_heads: 3 does not divide");
  refuse("\"num_hidden_layers\":4", "\"num_hidden_layers\":1000000000",
         "num_hidden_layers: 1000000000 is out of range");
  refuse("\"num_hidden_layers\":4", "\"num_hidden_layers\":5", "layer_types: has 4 entries for 5 layers");
  refuse("\"vocab_size\":11", "\"vocab_size\":-1", "vocab_size: -1 is out of range");
  refuse("\"hidden_size\":8", "\"hidden_size\":8.5", "hidden_size: expected an integer");
  refuse("\"hidden_size\":8,", "", "hidden_size: is missing");
  refuse("\"linear_num_value_heads\":4", "\"linear_num_value_heads\":3",
         "linear_num_value_heads: 3 is not a multiple");
  refuse("\"linear_num_key_heads\":2", "\"linear_num_key_heads\":0",
         "linear_num_key_heads: 0 is out of range");
  refuse("\"linear_conv_kernel_dim\":3", "\"linear_conv_kernel_dim\":99999", "linear_conv_kernel_dim: 99999");
  refuse("1e-06", "NaN", "rms_norm_eps: must lie");
  refuse("1e-06", "0", "rms_norm_eps: must lie");
  refuse("0.5,", "0.1,", "partial_rotary_factor: 0 rotated");
  refuse("0.5,", "2,", "partial_rotary_factor must lie");
  refuse("[1,1,0]", "[1,1,1]", "mrope_section: must be three numbers");
  refuse("[1,1,0]", "[2]", "mrope_section: must be three numbers");
  refuse("10000000.0", "-Infinity", "rope_theta: must be greater than 1");
  refuse("[2,3]", "[2,11]", "eos_token_id: token 11 is not in a vocabulary of 11");
}

TEST(ConfigHf, TakesTokensAndSamplingFromTheGenerationConfig) {
  const Json config =
      Json::parse(replaced(llama(), "{", "{\"bos_token_id\":1,\"pad_token_id\":-1,"), "config.json");
  const Json generation = Json::parse(
      R"({"eos_token_id": [5, 6], "do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "pad_token_id": 99})",
      "g.json");
  const ModelConfig c = ModelConfig::from_hf(config, &generation);
  EXPECT_EQ(c.tokens.eos, (std::vector<std::int32_t>{5, 6}));
  EXPECT_EQ(c.tokens.bos, 1);
  EXPECT_FALSE(c.tokens.pad.has_value());
  EXPECT_EQ(c.sampling.do_sample, true);
  EXPECT_EQ(c.sampling.temperature, 0.6);
  EXPECT_EQ(c.sampling.top_k, 20);
  EXPECT_EQ(c.sampling.top_p, 0.95);
  EXPECT_FALSE(c.sampling.min_p.has_value());
  const Json bad = Json::parse(R"({"temperature": -1})", "g.json");
  EXPECT_LOAD_ERROR(ModelConfig::from_hf(config, &bad), "g.json: temperature: is out of range");
  const Json wrong = Json::parse(R"({"top_k": "many"})", "g.json");
  EXPECT_LOAD_ERROR(ModelConfig::from_hf(config, &wrong), "g.json: top_k: expected an integer");
}

class ConfigGguf : public testing::Test {
 protected:
  ModelConfig read(const GgufWriter& w) {
    return ModelConfig::from_gguf(Gguf::open(dir_.write("m.gguf", w.bytes())));
  }

  // The keys of a qwen35 model, less some, and the one tensor that a config cannot do without.
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
    EXPECT_EQ(a.layers, b.layers);
    EXPECT_EQ(a.vocab, b.vocab);
    EXPECT_EQ(a.intermediate, b.intermediate);
    EXPECT_EQ(a.context_length, b.context_length);
    EXPECT_EQ(a.rms_eps, b.rms_eps);
    EXPECT_EQ(a.norm_offset, b.norm_offset);
    EXPECT_EQ(a.tie_word_embeddings, b.tie_word_embeddings);
    EXPECT_EQ(a.attention.bias, b.attention.bias);
    EXPECT_EQ(a.attention.qk_norm, b.attention.qk_norm);
    EXPECT_EQ(a.attention.q_proj_rows, b.attention.q_proj_rows);
    EXPECT_EQ(a.layer_types, b.layer_types);
    EXPECT_EQ(a.rope.inv_freq, b.rope.inv_freq);
    EXPECT_EQ(a.rope.mrope_section, b.rope.mrope_section);
    EXPECT_EQ(a.linear.conv_channels, b.linear.conv_channels);
    EXPECT_EQ(a.linear.conv_state_size, b.linear.conv_state_size);
  }
}

TEST_F(ConfigGguf, FillsInWhatIsNotSaid) {
  GgufWriter w = base({"attention.head_count_kv", "attention.key_length", "rope.dimension_count"});
  w.i32s("qwen35.rope.dimension_sections", {1, 0, 0, 0});
  const ModelConfig c = read(w);
  EXPECT_EQ(c.vocab, 5u);
  EXPECT_EQ(c.attention.kv_heads, 4u);
  EXPECT_EQ(c.attention.head_dim, 2u);
  EXPECT_EQ(c.rope.dimension, 2u);
  EXPECT_EQ(c.linear.value_head_dim, 3u);
  EXPECT_EQ(c.linear_layers, 3u);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_TRUE(c.tokens.eos.empty());
}

TEST_F(ConfigGguf, ReadsOtherSpellings) {
  // Three sections under another name, and layers without key-value heads instead of an interval.
  GgufWriter w = base({"attention.head_count_kv"});
  w.i32s("qwen35.rope.mrope_section", {1, 1, 0});
  w.i32s("qwen35.attention.head_count_kv", {0, 2, 0, 2});
  const ModelConfig c = read(w);
  EXPECT_EQ(c.rope.mrope_section, (std::vector<std::size_t>{1, 1, 0}));
  EXPECT_EQ(c.attention.kv_heads, 2u);
  EXPECT_EQ(c.layer_types[1], LayerType::kFullAttention);
  EXPECT_EQ(c.linear_layers, 2u);

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
  EXPECT_EQ(read(w).layers, 3u);
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
  EXPECT_EQ(c.rope.inv_freq[1], plain.rope.inv_freq[1]);
  EXPECT_EQ(c.rope.inv_freq[3], plain.rope.inv_freq[3] / 8);
  GgufWriter wrong = model.gguf();
  wrong.tensor("rope_freqs.weight", 0, {3}, test::raw_f32({1, 1, 2}));
  EXPECT_LOAD_ERROR(read(wrong), "3 rope factors for 4 frequencies");
  GgufWriter zero = model.gguf();
  zero.tensor("rope_freqs.weight", 0, {4}, test::raw_f32({1, 1, 2, 0}));
  EXPECT_LOAD_ERROR(read(zero), "a rope factor is not positive");
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
