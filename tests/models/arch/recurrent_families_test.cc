// Keys specific to RecurrentGemma and RWKV-7, and what is refused.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "models/arch/config.h"
#include "models/files/gguf.h"
#include "models/files/json_location.h"
#include "tests/models/expect_error.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::models {
namespace {

using Members = std::map<std::string, std::string>;

/// The published 2B model's config with members replaced; an empty value removes the key.
ModelConfig gemma(const Members& other = {}) {
  Members members = {{"attention_bias", "false"},
                     {"attention_window_size", "2048"},
                     {"block_types", R"(["recurrent", "recurrent", "attention"])"},
                     {"bos_token_id", "2"},
                     {"conv1d_width", "4"},
                     {"embeddings_scale_by_sqrt_dim", "true"},
                     {"eos_token_id", "1"},
                     {"head_dim", "256"},
                     {"hidden_activation", R"("gelu_pytorch_tanh")"},
                     {"hidden_size", "2560"},
                     {"intermediate_size", "15360"},
                     {"logits_soft_cap", "30.0"},
                     {"lru_width", "2560"},
                     {"model_type", R"("recurrent_gemma")"},
                     {"num_attention_heads", "10"},
                     {"num_hidden_layers", "26"},
                     {"num_key_value_heads", "1"},
                     {"pad_token_id", "0"},
                     {"partial_rotary_factor", "0.5"},
                     {"rms_norm_eps", "1e-06"},
                     {"rope_theta", "10000.0"},
                     {"vocab_size", "256000"}};
  for (const auto& [key, value] : other) members[key] = value;
  std::string json;
  for (const auto& [key, value] : members) {
    if (!value.empty()) json += (json.empty() ? "{\"" : ",\"") + key + "\":" + value;
  }
  return ModelConfig::from_hf(JsonLocation::parse(json + "}", "config.json"));
}

TEST(RecurrentGemma, IsReadAsPublished) {
  const ModelConfig model = gemma();
  EXPECT_TRUE(model.tied());
  EXPECT_EQ(model.embedding_multiplier, 50.5F);  // sqrt(2560) in bf16
  EXPECT_EQ(model.logit_cap, 30.0F);
  EXPECT_EQ(model.final_norm.name, "final_norm");
  EXPECT_EQ(model.final_norm.kind.offset, 1);
  const auto attentions = parts_of<AttentionSpec>(model.layers);
  ASSERT_EQ(attentions.size(), 8u);
  EXPECT_EQ(attentions[0]->name, "layers.2.temporal_block");
  EXPECT_EQ(attentions[0]->window, 2048u);
  EXPECT_EQ(attentions[0]->ring_pages(), 33u);
  EXPECT_EQ(attentions[0]->rope->dimension, 128u);  // half of a head
  EXPECT_FALSE(attentions[0]->bias);
  EXPECT_TRUE(attentions[0]->output_bias);
  const auto units = parts_of<RgLruSpec>(model.layers);
  ASSERT_EQ(units.size(), 18u);
  EXPECT_EQ(units[0]->width, 2560u);
  EXPECT_EQ(units[0]->head_width(), 256u);
  const auto mlps = parts_of<SwiGluSpec>(model.layers);
  ASSERT_EQ(mlps.size(), 26u);
  EXPECT_EQ(mlps[0]->intermediate, 7680u);
  EXPECT_EQ(mlps[0]->activation, Activation::kGelu);
  EXPECT_TRUE(mlps[0]->bias);

  StateLayout state;
  declare_state(*attentions[0], gpu::KvType::kBF16, state);
  EXPECT_EQ(state.sizes().page_bytes, 0u);
  EXPECT_EQ(state.sizes().slot_bytes, 33u * 64 * 2 * 256 * 2);
  EXPECT_FALSE(state.attention_only());
}

TEST(RecurrentGemma, DefaultsAreTheFamilys) {
  const ModelConfig model = gemma({{"lru_width", "null"},
                                   {"num_key_value_heads", "null"},
                                   {"partial_rotary_factor", ""},
                                   {"head_dim", ""},
                                   {"block_types", R"(["attention", "recurrent"])"}});
  EXPECT_EQ(parts_of<RgLruSpec>(model.layers)[0]->width, 2560u);
  const auto attentions = parts_of<AttentionSpec>(model.layers);
  EXPECT_EQ(attentions.size(), 13u);
  EXPECT_EQ(attentions[0]->kv_heads, 10u);
  EXPECT_EQ(attentions[0]->head_dim, 256u);
  EXPECT_EQ(attentions[0]->rope->dimension, 128u);
}

TEST(RecurrentGemma, RefusesWhatItDoesNotKnowByName) {
  EXPECT_LOAD_ERROR(gemma({{"hidden_activation", R"("silu")"}}),
                    "hidden_activation: the activation 'silu' is not known; known is gelu_pytorch_tanh");
  EXPECT_LOAD_ERROR(gemma({{"block_types", R"(["recurrent", "mamba"])"}}),
                    "unknown block type 'mamba'; known are recurrent, attention");
  EXPECT_LOAD_ERROR(gemma({{"block_types", R"([])"}}), "block_types: names no block type");
  EXPECT_LOAD_ERROR(gemma({{"intermediate_size", R"(15361)"}}), "intermediate_size: must be even");
  EXPECT_LOAD_ERROR(gemma({{"lru_width", R"(2561)"}}),
                    "lru_width: 2561 is not a multiple of num_attention_heads");
  EXPECT_LOAD_ERROR(gemma({{"logits_soft_cap", R"(0)"}}), "logits_soft_cap: must be positive");
  EXPECT_LOAD_ERROR(gemma({{"attention_window_size", R"(0)"}}), "attention_window_size");
  EXPECT_LOAD_ERROR(gemma({{"rope_scaling", R"({"rope_type": "longrope"})"}}), "longrope");
}

class Rwkv7 : public testing::Test {
 protected:
  test::GgufWriter writer(std::uint32_t head_size = 64) const {
    test::GgufWriter out;
    out.text("general.architecture", "rwkv7");
    out.u32("rwkv7.embedding_length", 128);
    out.u32("rwkv7.block_count", 3);
    out.u32("rwkv7.wkv.head_size", head_size);
    out.u32("rwkv7.attention.decay_lora_rank", 32);
    out.u32("rwkv7.attention.iclr_lora_rank", 33);
    out.u32("rwkv7.attention.value_residual_mix_lora_rank", 34);
    out.u32("rwkv7.attention.gate_lora_rank", 35);
    out.u32("rwkv7.feed_forward_length", 512);
    out.f32("rwkv7.attention.layer_norm_epsilon", 1e-5F);
    out.tensor("token_embd.weight", 0, {11, 128}, test::raw_f32(std::vector<float>(11 * 128)));
    out.tensor("output.weight", 0, {11, 128}, test::raw_f32(std::vector<float>(11 * 128)));
    return out;
  }
  ModelConfig read(const test::GgufWriter& file) const {
    return ModelConfig::from_gguf(Gguf::open(dir_.write("m.gguf", file.bytes())));
  }

  test::TempDir dir_;
};

TEST_F(Rwkv7, IsReadFromGguf) {
  const ModelConfig model = read(writer());
  EXPECT_EQ(model.context_length, 1u << 20);
  ASSERT_TRUE(model.embedding_norm.has_value());
  EXPECT_TRUE(model.embedding_norm->kind.centered);
  EXPECT_TRUE(model.final_norm.kind.centered);
  EXPECT_EQ(handed_on(model.layers), 128u);
  const auto mixes = parts_of<TimeMixSpec>(model.layers);
  ASSERT_EQ(mixes.size(), 3u);
  EXPECT_TRUE(mixes[0]->is_first);
  EXPECT_FALSE(mixes[1]->is_first);
  EXPECT_EQ(mixes[0]->heads(), 2u);
  EXPECT_EQ(mixes[0]->decay_rank, 32u);
  EXPECT_EQ(mixes[0]->rate_rank, 33u);
  EXPECT_EQ(mixes[0]->value_rank, 34u);
  EXPECT_EQ(mixes[0]->gate_rank, 35u);
  EXPECT_EQ(parts_of<ChannelMixSpec>(model.layers)[2]->intermediate, 512u);
}

TEST_F(Rwkv7, RefusesWhatItDoesNotKnowByName) {
  EXPECT_LOAD_ERROR(read(writer(60)), "wkv.head_size: 60 does not divide embedding_length, which is 128");
  test::GgufWriter shifts = writer();
  shifts.u32("rwkv7.token_shift_count", 1);
  EXPECT_LOAD_ERROR(read(shifts), "token_shift_count: must be 2");
  test::GgufWriter rescaled = writer();
  rescaled.u32("rwkv7.rescale_every_n_layers", 6);
  EXPECT_LOAD_ERROR(read(rescaled), "rescale_every_n_layers: must be 0");
}

}  // namespace
}  // namespace reprise::models
