// Falcon-H1: attention and Mamba-2 in parallel in every layer, then SwiGLU; most projections have a
// multiplier.
//
//   x += attention_out * attention(attention_in * norm(x)) + ssm_out * mamba(ssm_in * norm(x))
//   x += mlp_multipliers[1] * down(silu(mlp_multipliers[0] * gate(norm(x))) * up(norm(x)))
//
// llama.cpp's converter folds the multipliers into the weights, so GGUF files have none.

#include "models/arch/attention_keys.h"
#include "models/arch/config_source.h"
#include "models/arch/mamba2_keys.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/rope_keys.h"

namespace reprise::models {
namespace {

constexpr Mamba2Keys kFalconH1Mamba{.heads = "mamba_n_heads",
                                    .head_dim = "mamba_d_head",
                                    .groups = "mamba_n_groups",
                                    .state_size = "mamba_d_state",
                                    .conv_kernel = "mamba_d_conv",
                                    .conv_bias = "mamba_conv_bias",
                                    .in_bias = "mamba_proj_bias",
                                    .out_bias = "projectors_bias",
                                    .activation = "hidden_act",
                                    .default_state_size = 256};
constexpr Key kSsmSize{"mamba_d_ssm", ""};
constexpr Key kSsmExpand{"mamba_expand", ""};
constexpr Key kSsmHeads{"mamba_n_heads", ""};
constexpr Key kSsmHeadDim{"mamba_d_head", ""};
constexpr Key kSsmNorm{"mamba_rms_norm", ""};
constexpr Key kSsmNormFirst{"mamba_norm_before_gate", ""};

struct FalconH1Multipliers {
  float embedding = 1;
  float logits = 1;
  float attention_in = 1;
  float attention_out = 1;
  float key = 1;
  float ssm_in = 1;
  float ssm_out = 1;
  float gate = 1;
  float down = 1;
  Mamba2Spec::Multipliers ssm{};
};

float finite_at(const JsonLocation& place) {
  const auto value = static_cast<float>(place.number());
  if (!(value - value == 0)) place.fail("is not finite");
  return value;
}

void read_multiplier_list(const JsonLocation& text, std::string_view key, const std::vector<float*>& to) {
  const std::optional<JsonLocation> list = text.find(key);
  if (!list) return;
  if (list->size() != to.size()) list->fail("expected " + std::to_string(to.size()) + " numbers");
  for (std::size_t i = 0; i < to.size(); ++i) *to[i] = finite_at(list->at(i));
}

FalconH1Multipliers read_multipliers(const ConfigSource& source) {
  FalconH1Multipliers out;
  if (source.hf() == nullptr) return out;
  const JsonLocation& text = source.hf()->text();
  const auto read = [&](std::string_view key, float& to) {
    if (const auto place = text.find(key)) to = finite_at(*place);
  };
  read("embedding_multiplier", out.embedding);
  read("lm_head_multiplier", out.logits);
  read("attention_in_multiplier", out.attention_in);
  read("attention_out_multiplier", out.attention_out);
  read("key_multiplier", out.key);
  read("ssm_in_multiplier", out.ssm_in);
  read("ssm_out_multiplier", out.ssm_out);
  read_multiplier_list(text, "mlp_multipliers", {&out.gate, &out.down});
  read_multiplier_list(text, "ssm_multipliers",
                       {&out.ssm.z, &out.ssm.x, &out.ssm.b, &out.ssm.c, &out.ssm.dt});
  return out;
}

// `mamba_d_ssm`, else `mamba_expand` times the hidden size; nullopt: the GGUF file has its own key.
std::optional<std::size_t> read_inner_size(const ConfigSource& source, std::size_t hidden) {
  if (source.hf() == nullptr) return std::nullopt;
  if (source.has(kSsmSize)) return source.count(kSsmSize, kMaxSize);
  return source.count_or(kSsmExpand, kMaxConvKernel, 2) * hidden;
}

Mamba2Spec read_falcon_mamba(const ConfigSource& source, const ModelConfig& model, const NormKind& norm) {
  Mamba2Keys keys = kFalconH1Mamba;
  const std::optional<std::size_t> inner = read_inner_size(source, model.hidden);
  if (inner) {
    const std::size_t heads = source.count_or(kSsmHeads, kMaxHeads, keys.default_heads);
    keys.default_head_dim = *inner / heads;
    const std::optional<JsonLocation> said = source.hf()->text().find(kSsmHeadDim.hf);
    if (said && said->is(JsonLocation::Kind::kString) && said->text() == "auto") keys.head_dim = "";
  }
  Mamba2Spec out = read_mamba2(source, model.hidden, keys);
  if (inner && *inner != out.inner_size()) {
    source.fail(kSsmHeads, std::to_string(out.heads) + " heads of " + std::to_string(out.head_dim) +
                               " are not an inner size of " + std::to_string(*inner));
  }
  out.norm = norm;
  const bool has_norm = source.hf() != nullptr ? source.boolean_or(kSsmNorm, false)
                                               : source.has_bias("", "blk.0.ssm_norm.weight");
  const bool norm_first = source.hf() != nullptr && source.boolean_or(kSsmNormFirst, true);
  out.gating = !has_norm    ? Mamba2Spec::Gating::kGateAlone
               : norm_first ? Mamba2Spec::Gating::kNormThenGate
                            : Mamba2Spec::Gating::kGateThenNorm;
  return out;
}

ModelConfig read_falcon_h1(const ConfigSource& source) {
  const FalconH1Multipliers by = read_multipliers(source);
  ModelConfig model = read_model_sizes(source);
  model.embedding_multiplier = by.embedding;
  model.logit_multiplier = by.logits;
  const std::size_t layers = read_layer_count(source);
  const NormKind norm{.offset = 0, .eps = read_rms_eps(source, "rms_norm_eps", 1e-5)};
  AttentionSpec attention = read_attention(source, {.hidden = model.hidden});
  attention.rope =
      read_rope(source, {.head_dim = attention.head_dim, .context_length = model.context_length});
  attention.score_multiplier = by.key;
  Mamba2Spec mamba = read_falcon_mamba(source, model, norm);
  mamba.multipliers = by.ssm;
  refuse_experts(source);
  SwiGluSpec mlp = read_swiglu(source, model.hidden);
  mlp.gate_multiplier = by.gate;

  ModelDraft draft(std::move(model), norm);
  for (std::size_t i = 0; i < layers; ++i) {
    draft.add_layer({{
        {.norm = draft.norm("input_layernorm", "attn_norm"),
         .parts = {draft.part("self_attn", attention), draft.part("mamba", mamba)},
         .scales = {{by.attention_in, by.attention_out}, {by.ssm_in, by.ssm_out}}},
        {.norm = draft.norm("pre_ff_layernorm", "ffn_norm"),
         .parts = {draft.part("feed_forward", mlp)},
         .multiplier = by.down},
    }});
  }
  return draft.finish("final_layernorm");
}

}  // namespace

Family falcon_h1_family() {
  return {
      .name = "falcon_h1", .hf_types = {"falcon_h1"}, .gguf_names = {"falcon-h1"}, .read = read_falcon_h1};
}

}  // namespace reprise::models
