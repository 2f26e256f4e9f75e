// Configs of families with latent attention: Kimi-Linear in both spellings, LongCat-Flash, and errors in
// them.

#include <cmath>

#include "models/files/json_location.h"
#include "tests/models/config_parts.h"
#include "tests/models/expect_error.h"

namespace reprise::models {
namespace {

ModelConfig read_latent(const std::string& members) {
  return ModelConfig::from_hf(JsonLocation::parse("{" + members + "}", "config.json"));
}

/// As first published, with smaller sizes.
const std::string kPublished = R"("model_type": "kimi_linear", "hidden_size": 48, "vocab_size": 99,
    "intermediate_size": 80, "num_hidden_layers": 5, "num_attention_heads": 3, "num_key_value_heads": 3,
    "kv_lora_rank": 24, "q_lora_rank": null, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
    "mla_use_nope": true, "model_max_length": 777, "moe_intermediate_size": 20, "moe_router_activation_func": "sigmoid",
    "num_expert_group": 4, "topk_group": 2, "num_experts": 12, "num_experts_per_token": 5, "num_shared_experts": 2,
    "rms_norm_eps": 1e-5, "routed_scaling_factor": 2.5, "moe_renormalize": false, "rope_scaling": null)";
const std::string kLinear = R"(, "linear_attn_config": {"full_attn_layers": [2, 5], "kda_layers": [1, 3, 4],
    "head_dim": 16, "num_heads": 7, "short_conv_kernel_size": 3})";

std::string mixers(const ModelConfig& config) {
  std::string out;
  for (const LayerSpec& layer : config.layers) out += parts_of<MlaSpec>({&layer, 1}).empty() ? 'k' : 'm';
  return out;
}
std::string feed_forwards(const ModelConfig& config) {
  std::string out;
  for (const LayerSpec& layer : config.layers) out += parts_of<MoeSpec>({&layer, 1}).empty() ? 'd' : 's';
  return out;
}

TEST(KimiConfig, ReadsThePublishedSpelling) {
  const ModelConfig config =
      read_latent(kPublished + kLinear + R"(, "first_k_dense_replace": 2, "moe_layer_freq": 1)");
  EXPECT_EQ(config.context_length, 777u);
  EXPECT_EQ(mixers(config), "kmkkm");
  EXPECT_EQ(feed_forwards(config), "ddsss");
  const KdaSpec kda = first_part<KdaSpec>(config);
  EXPECT_EQ(kda.heads, 7u);
  EXPECT_EQ(kda.head_dim, 16u);
  EXPECT_EQ(kda.conv_kernel, 3u);
  EXPECT_EQ(kda.norm.eps, 1e-5F);
  const MlaSpec mla = first_part<MlaSpec>(config);
  EXPECT_EQ(mla.heads, 3u);
  EXPECT_EQ(mla.rank, 24u);
  EXPECT_EQ(mla.q_rank, 0u);
  EXPECT_EQ(mla.key_dim(), 24u);
  EXPECT_EQ(mla.value_dim, 12u);
  EXPECT_EQ(mla.rope, nullptr);
  EXPECT_EQ(mla.norm.eps, 1e-6F);  // not the eps of the other norms
  const MoeSpec moe = first_part<MoeSpec>(config);
  EXPECT_EQ(moe.experts, 12u);
  EXPECT_EQ(moe.chosen, 5u);
  EXPECT_EQ(moe.groups, 4u);
  EXPECT_EQ(moe.chosen_groups, 2u);
  EXPECT_EQ(moe.shared_intermediate, 40u);
  EXPECT_FALSE(moe.shared_gate);
  EXPECT_TRUE(moe.correction_bias);
  EXPECT_FALSE(moe.normalized);
  EXPECT_EQ(moe.scale, 2.5F);
  EXPECT_EQ(moe.scores, gpu::RouterScores::kSigmoid);
}

TEST(KimiConfig, ReadsTheNewSpelling) {
  const ModelConfig config = read_latent(kPublished + R"(, "linear_num_heads": 2, "linear_head_dim": 8,
      "linear_conv_kernel_dim": 4, "mlp_layer_types": ["sparse", "dense", "sparse", "dense", "dense"],
      "layer_types": ["full_attention", "linear_attention", "linear_attention", "linear_attention", "full_attention"])");
  EXPECT_EQ(mixers(config), "mkkkm");
  EXPECT_EQ(feed_forwards(config), "sdsdd");
  EXPECT_EQ(first_part<KdaSpec>(config).size(), 16u);
}

TEST(KimiConfig, WhereNothingIsSaidTheDefaultsCount) {
  const ModelConfig config = read_latent(kPublished);
  EXPECT_EQ(mixers(config), "kkkkm");
  EXPECT_EQ(feed_forwards(config), "dssss");
  EXPECT_EQ(first_part<KdaSpec>(config).size(), 4096u);
  EXPECT_EQ(feed_forwards(read_latent(kPublished + R"(, "moe_layer_freq": 2, "first_k_dense_replace": 0)")),
            "sdsds");
}

TEST(KimiConfig, RefusesWhatItDoesNotKnow) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kPublished + kLinear;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return read_latent(text.replace(at, from.size(), to));
  };
  EXPECT_LOAD_ERROR(with("\"sigmoid\"", "\"tanh\""), "moe_router_activation_func: 'tanh' is not known");
  EXPECT_LOAD_ERROR(with("\"mla_use_nope\": true", "\"mla_use_nope\": false"), "mla_use_nope");
  EXPECT_LOAD_ERROR(with("\"num_key_value_heads\": 3", "\"num_key_value_heads\": 1"), "num_key_value_heads");
  EXPECT_LOAD_ERROR(with("[2, 5]", "[2, 6]"), "there is no layer 6");
  EXPECT_LOAD_ERROR(with("[2, 5]", "[2, 4]"), "layer 4 is named twice");
  EXPECT_LOAD_ERROR(with("[2, 5]", "[2]"), "names no kind of layer 5");
  EXPECT_LOAD_ERROR(with("\"num_expert_group\": 4", "\"num_expert_group\": 5"),
                    "5 groups do not suit 12 experts");
  EXPECT_LOAD_ERROR(with("\"topk_group\": 2", "\"topk_group\": 5"), "5 is more than num_expert_group");
  EXPECT_LOAD_ERROR(with("\"num_experts_per_token\": 5", "\"num_experts_per_token\": 7"),
                    "more than the experts of the 2 groups");
  EXPECT_LOAD_ERROR(with("\"moe_intermediate_size\": 20", "\"hidden_act\": \"gelu\""), "'gelu' is not known");
  EXPECT_LOAD_ERROR(with("\"rope_scaling\": null", "\"mlp_layer_types\": [\"dense\"]"),
                    "1 entries for 5 layers");
}

const std::string kLongcat =
    R"("model_type": "longcat_flash", "hidden_size": 64, "vocab_size": 99, "num_layers": 2,
    "num_attention_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 4, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4,
    "v_head_dim": 6, "ffn_hidden_size": 40, "expert_ffn_hidden_size": 24, "n_routed_experts": 6, "zero_expert_num": 3,
    "moe_topk": 8, "max_position_embeddings": 512, "attention_method": "MLA", "zero_expert_type": "identity")";

TEST(LongcatConfig, ReadsWhatIsSaid) {
  const ModelConfig config = read_latent(kLongcat);
  ASSERT_EQ(config.layers.size(), 2u);
  ASSERT_EQ(config.layers[0].steps.size(), 4u);
  EXPECT_EQ(config.layers[0].steps[1].late_parts.size(), 1u);
  EXPECT_EQ(parts_of<MlaSpec>(config.layers).size(), 4u);
  EXPECT_EQ(parts_of<SwiGluSpec>(config.layers).size(), 4u);
  const MlaSpec mla = first_part<MlaSpec>(config);
  EXPECT_EQ(mla.q_rank, 4u);
  EXPECT_FLOAT_EQ(mla.latent_scale, 2);           // sqrt(64 / 16)
  EXPECT_FLOAT_EQ(mla.score_scale, 4.0F / 3.0F);  // sqrt(64 / 4) / sqrt(5 + 4)
  EXPECT_TRUE(mla.rope_of_neighbors);
  EXPECT_EQ(mla.rope->theta, 1e7);
  const MoeSpec moe = first_part<MoeSpec>(config);
  EXPECT_EQ(moe.experts, 6u);
  EXPECT_EQ(moe.zero_experts, 3u);
  EXPECT_EQ(moe.chosen, 8u);
  EXPECT_EQ(moe.scale, 6.0F);
  EXPECT_FALSE(moe.normalized);
  EXPECT_FALSE(moe.has_shared());
  EXPECT_EQ(moe.idle_parameters(), 0u);
}

TEST(LongcatConfig, ScalesOfLatentsAndOfYarn) {
  const MlaSpec plain = first_part<MlaSpec>(
      read_latent(kLongcat + R"(, "mla_scale_q_lora": false, "mla_scale_kv_lora": false)"));
  EXPECT_FLOAT_EQ(plain.latent_scale, 1);
  EXPECT_FLOAT_EQ(plain.score_scale, 1.0F / 3.0F);
  const MlaSpec yarn = first_part<MlaSpec>(read_latent(kLongcat + R"(, "mla_scale_q_lora": false,
      "rope_scaling": {"type": "yarn", "factor": 10.0, "original_max_position_embeddings": 64, "mscale": 1.0,
                       "mscale_all_dim": 1.0})"));
  const double mscale = 0.1 * std::log(10.0) + 1;
  EXPECT_FLOAT_EQ(yarn.score_scale, static_cast<float>(mscale * mscale / 3));
  EXPECT_FLOAT_EQ(yarn.rope->attention_factor, 1);
}

TEST(LongcatConfig, RefusesWhatItDoesNotKnow) {
  EXPECT_LOAD_ERROR(read_latent(kLongcat + R"(, "norm_topk_prob": true)"), "norm_topk_prob");
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kLongcat;
    return read_latent(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_LOAD_ERROR(with("\"identity\"", "\"copy\""), "zero_expert_type: 'copy' is not known");
  EXPECT_LOAD_ERROR(with("\"MLA\"", "\"GQA\""), "attention_method: 'GQA' is not known");
  EXPECT_LOAD_ERROR(with("\"moe_topk\": 8", "\"moe_topk\": 10"), "moe_topk: 10 is more than");
  EXPECT_LOAD_ERROR(with("\"q_lora_rank\": 4", "\"q_lora_rank\": null"), "q_lora_rank");
}

}  // namespace
}  // namespace reprise::models
