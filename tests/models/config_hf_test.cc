#include "models/arch/config.h"

#include <cmath>

#include "models/files/json_location.h"
#include "tests/models/config_parts.h"
#include "tests/models/expect_error.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using test::TinyModel;

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
  EXPECT_EQ(c.architecture, "qwen3_5_text");
  EXPECT_EQ(c.hidden, 8u);
  EXPECT_EQ(attention_of(c).group(), 2u);
  EXPECT_EQ(attention_of(c).q_size(), 32u);
  EXPECT_EQ(attention_of(c).q_proj_rows(), 64u);
  EXPECT_EQ(attention_of(c).kv_size(), 16u);
  EXPECT_TRUE(attention_of(c).head_norm);
  EXPECT_EQ(gated_delta_net_of(c).group(), 2u);
  EXPECT_EQ(gated_delta_net_of(c).conv_channels(), 16u);
  EXPECT_EQ(gated_delta_net_of(c).state_size(), 16u);
  EXPECT_EQ(gated_delta_net_of(c).conv_state_size(), 32u);
  EXPECT_EQ(gated_delta_nets(c), 3u);
  EXPECT_EQ(attentions(c), 1u);
  EXPECT_TRUE(attends(c.layers[3]));
  EXPECT_EQ(rope_of(c).dimension, 4u);
  ASSERT_EQ(rope_of(c).inv_freq.size(), 2u);
  EXPECT_EQ(rope_of(c).inv_freq[0], 1.0f);
  EXPECT_FLOAT_EQ(rope_of(c).inv_freq[1], static_cast<float>(1 / std::sqrt(1e7)));
  EXPECT_EQ(rope_of(c).mrope_section, (std::vector<std::size_t>{1, 1, 0}));
  EXPECT_EQ(c.final_norm.kind.offset, 1.0f);
  EXPECT_EQ(c.tokens.eos, (std::vector<std::int32_t>{2, 3}));
}

TEST(ConfigHf, FindsTheTextPartOfAMultimodalModel) {
  const ModelConfig c = from_hf(TinyModel({.type = "qwen3_5", .tied = true}).config_json());
  EXPECT_EQ(c.architecture, "qwen3_5_text");
  EXPECT_TRUE(c.tied());
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
  EXPECT_EQ(gated_delta_nets(from_hf(text)), 3u);
  const ModelConfig c = from_hf(replaced(text, "{", "{\"full_attention_interval\":2,"));
  const auto kinds = {attends(c.layers[0]), attends(c.layers[1]), attends(c.layers[2]), attends(c.layers[3])};
  EXPECT_EQ(std::vector<bool>(kinds), (std::vector<bool>{false, true, false, true}));
}

TEST(ConfigHf, ReadsBothSpellingsOfRope) {
  EXPECT_TRUE(rope_of(from_hf(replaced(qwen35(), ",\"mrope_section\":[1,1,0]", ""))).mrope_section.empty());
  EXPECT_EQ(rope_of(from_hf(llama())).theta, 500000);
  EXPECT_EQ(rope_of(from_hf(llama())).dimension, 8u);
  const std::string with =
      replaced(llama(), "\"rope_theta\":500000.0",
               "\"rope_parameters\":{\"rope_theta\":7e3,\"rope_type\":\"linear\",\"factor\":4}");
  const ModelConfig c = from_hf(with);
  EXPECT_EQ(rope_of(c).theta, 7000);
  EXPECT_EQ(rope_of(c).inv_freq[0], 0.25f);
}

// A llama with head_dim 128 and the rope configuration `rope`.
ModelConfig with_rope(const std::string& rope) {
  return from_hf(replaced(TinyModel({.type = "llama", .head_dim = 128}).config_json(),
                          "\"rope_theta\":500000.0", "\"rope_scaling\":" + rope));
}

void expect_frequencies(const ModelConfig& config,
                        const std::vector<std::pair<std::size_t, double>>& expected) {
  ASSERT_EQ(rope_of(config).inv_freq.size(), 64u);
  for (const auto& [pair, frequency] : expected) {
    EXPECT_FLOAT_EQ(rope_of(config).inv_freq[pair], static_cast<float>(frequency)) << pair;
  }
}

// Llama 3.1 8B; expected values computed by a separate program in double precision.
TEST(ConfigHf, ScalesFrequenciesAsLlama3) {
  const ModelConfig c =
      with_rope(R"({"rope_theta":500000.0,"factor":8.0,"high_freq_factor":4.0,"low_freq_factor":1.0,)"
                R"("original_max_position_embeddings":8192,"rope_type":"llama3"})");
  expect_frequencies(c, {{0, 1.0},
                         {28, 0.0032114459947525913},
                         {29, 0.002166570763503359},
                         {30, 0.0013718935677611381},
                         {32, 0.0005248461609929547},
                         {34, 0.00017850781276799638},
                         {35, 9.556212353964683e-05},
                         {63, 3.068925988914511e-07}});
  EXPECT_EQ(rope_of(c).attention_factor, 1.0f);
}

// Qwen3's recommended YaRN scaling to four times its context; expected values as above.
TEST(ConfigHf, ScalesFrequenciesAsYarn) {
  const std::string rope =
      R"({"rope_theta":1e6,"type":"yarn","factor":4.0,"original_max_position_embeddings":32768)";
  const ModelConfig c = with_rope(rope + "}");
  expect_frequencies(c, {{0, 1.0},
                         {10, 0.1154781984689458},
                         {23, 0.006978305848598663},
                         {24, 0.005375321490790102},
                         {30, 0.0010643609812470017},
                         {39, 6.490394320837028e-05},
                         {40, 4.445698525097307e-05},
                         {63, 3.102344401879299e-07}});
  EXPECT_FLOAT_EQ(rope_of(c).attention_factor, 1.138629436f);
  expect_frequencies(with_rope(rope + R"(,"truncate":false})"),
                     {{24, 0.0055172704751341225}, {30, 0.0010792377416765538}});
  EXPECT_EQ(rope_of(with_rope(rope + R"(,"attention_factor":2.5})")).attention_factor, 2.5f);
  EXPECT_LOAD_ERROR(with_rope(rope + R"(,"beta_fast":0.5})"),
                    "rope_scaling: 0 < beta_slow < beta_fast must hold");
}

TEST(ConfigHf, RefusesBadScaling) {
  EXPECT_LOAD_ERROR(with_rope(R"({"type":"linear"})"), "rope_scaling.factor: is missing");
  EXPECT_LOAD_ERROR(with_rope(R"({"type":"linear","factor":0.5})"),
                    "rope_scaling: the factor must lie in 1 to 1e6");
  EXPECT_LOAD_ERROR(with_rope(R"({"type":"linear","factor":NaN})"),
                    "rope_scaling: the factor must lie in 1 to 1e6");
  EXPECT_LOAD_ERROR(with_rope(R"({"type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4})"),
                    "0 < low_freq_factor < high_freq_factor must hold");
  EXPECT_EQ(rope_of(with_rope(R"({"type":"dynamic","factor":2})")).inv_freq[0], 1.0f);
}

TEST(ConfigHf, RefusesWhatItDoesNotKnow) {
  EXPECT_LOAD_ERROR(from_hf(replaced(llama(), "\"llama\"", "\"gpt_oss\"")),
                    "model_type: unknown architecture 'gpt_oss'");
  EXPECT_LOAD_ERROR(from_hf("{}"), "model_type: is missing");
  EXPECT_LOAD_ERROR(from_hf("[]"), "expected an object");
  EXPECT_LOAD_ERROR(from_hf(replaced(llama(), "silu", "gelu")), "hidden_act: the activation 'gelu'");
  EXPECT_LOAD_ERROR(from_hf(replaced(qwen35(), "\"linear_attention\"", "\"sliding_attention\"")),
                    "layer_types[0]: unknown layer type 'sliding_attention'");
  EXPECT_LOAD_ERROR(from_hf(replaced(qwen35(), "\"default\"", "\"longrope\"")),
                    "the rope type 'longrope' is not known");
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
  refuse("\"vocab_size\":11", "\"vocab_size\":4294967307", "vocab_size: 4294967307 is out of range");
  const std::string context = "\"max_position_embeddings\":128";
  refuse(context, "\"max_position_embeddings\":4294967296",
         "max_position_embeddings: 4294967296 is out of range: 1 to 2147483647");
  refuse(context, "\"max_position_embeddings\":2147483648",
         "max_position_embeddings: 2147483648 is out of range: 1 to 2147483647");
  refuse(context, "\"max_position_embeddings\":18446744073709551680",
         "max_position_embeddings: expected an integer");
  EXPECT_EQ(from_hf(replaced(qwen35(), context, "\"max_position_embeddings\":2147483647")).context_length,
            2147483647u);
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
  const JsonLocation config =
      JsonLocation::parse(replaced(llama(), "{", "{\"bos_token_id\":1,\"pad_token_id\":-1,"), "config.json");
  const JsonLocation generation = JsonLocation::parse(
      R"({"eos_token_id": [5, 6], "do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "pad_token_id": 99})",
      "g.json");
  const ModelConfig c = ModelConfig::from_hf(config, &generation);
  EXPECT_EQ(c.tokens.eos, (std::vector<std::int32_t>{5, 6}));
  EXPECT_EQ(c.tokens.bos, 1);
  EXPECT_FALSE(c.tokens.pad.has_value());
  EXPECT_EQ(c.sampling.temperature, 0.6);
  EXPECT_EQ(c.sampling.top_k, 20);
  EXPECT_EQ(c.sampling.top_p, 0.95);
  EXPECT_FALSE(c.sampling.min_p.has_value());
  const JsonLocation greedy = JsonLocation::parse(R"({"do_sample": false, "temperature": 0.6})", "g.json");
  EXPECT_EQ(ModelConfig::from_hf(config, &greedy).sampling.temperature, 0);
  const JsonLocation bad = JsonLocation::parse(R"({"temperature": -1})", "g.json");
  EXPECT_LOAD_ERROR(ModelConfig::from_hf(config, &bad), "g.json: temperature: is out of range");
  const JsonLocation wrong = JsonLocation::parse(R"({"top_k": "many"})", "g.json");
  EXPECT_LOAD_ERROR(ModelConfig::from_hf(config, &wrong), "g.json: top_k: expected an integer");
}

}  // namespace
}  // namespace reprise::models
