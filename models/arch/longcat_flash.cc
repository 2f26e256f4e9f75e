// LongCat-Flash: each layer has latent attention and SwiGLU twice. Experts read the input of the first
// SwiGLU, and their output is added at the end of the layer. Zero experts return their input. Plain RMS
// norms; rope rotates adjacent elements; the latents of queries, keys and values are scaled.

#include <cmath>
#include <string>

#include "models/arch/config_source.h"
#include "models/arch/mla_keys.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/moe_keys.h"
#include "models/arch/rope_keys.h"

namespace reprise::models {
namespace {

constexpr double kLongcatTheta = 1e7;

constexpr Key kLongcatLayers{"num_layers", ""};
constexpr Key kLongcatQRank{"q_lora_rank", ""};
constexpr Key kScaleQ{"mla_scale_q_lora", ""};
constexpr Key kScaleLatent{"mla_scale_kv_lora", ""};
constexpr Key kZeroExperts{"zero_expert_num", ""};
constexpr Key kZeroKind{"zero_expert_type", ""};
constexpr Key kLongcatNormalized{"norm_topk_prob", ""};
constexpr Key kAttentionMethod{"attention_method", ""};

// YaRN's factor of the scores if the config has `mscale_all_dim`.
double score_stretch(const HfSource& hf, const RopeConfig& rope) {
  const auto place = hf.text().find(hf.text().has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  const double mscale = place ? place->number_or("mscale_all_dim", 0) : 0;
  if (rope.scaling == RopeConfig::Scaling::kNone || mscale == 0) return 1;
  const double factor = yarn_attention_factor(rope.factor, mscale);
  return factor * factor;
}

MlaSpec read_longcat_mla(const HfSource& hf, const ModelConfig& model) {
  const std::string method = hf.text().text_or(kAttentionMethod.hf, "MLA");
  if (method != "MLA") hf.fail(kAttentionMethod, "'" + method + "' is not known; known is MLA");
  if (!hf.has(kLongcatQRank)) hf.fail(kLongcatQRank, "is missing: queries of this architecture have latents");
  MlaSpec out = read_mla(hf, {.hidden = model.hidden});
  out.rope = read_rope(
      hf, {.head_dim = out.rotary_dim, .context_length = model.context_length, .hf_theta = kLongcatTheta});
  if (out.rope->dimension != out.rotary_dim) hf.fail(kRopeDimension, "must be 1 in this architecture");
  out.rope_of_neighbors = true;
  const auto scale_of = [&](std::size_t rank) {
    return std::sqrt(static_cast<double>(model.hidden) / static_cast<double>(rank));
  };
  double score_scale = score_stretch(hf, *out.rope) / std::sqrt(static_cast<double>(out.key_dim()));
  if (hf.boolean_or(kScaleQ, true)) score_scale *= scale_of(out.q_rank);
  out.score_scale = static_cast<float>(score_scale);
  if (hf.boolean_or(kScaleLatent, true)) out.latent_scale = static_cast<float>(scale_of(out.rank));
  return out;
}

MoeSpec read_longcat_experts(const HfSource& hf, std::size_t hidden, std::size_t layers) {
  const RouterKeys keys{.experts = hf.either("n_routed_experts", "num_local_experts"),
                        .chosen = hf.either("moe_topk", "num_experts_per_tok")};
  MoeSpec out;
  out.hidden = hidden;
  out.experts = hf.count(keys.experts, kMaxExperts);
  out.chosen = hf.count(keys.chosen, kMaxExperts);
  out.intermediate = hf.count(hf.either("expert_ffn_hidden_size", "moe_intermediate_size"), kMaxSize);
  if (const auto zero = hf.text().find(kZeroExperts.hf); zero && zero->integer() != 0) {
    out.zero_experts = hf.count(kZeroExperts, kMaxExperts);
  }
  const std::string kind = hf.text().text_or(kZeroKind.hf, "identity");
  if (kind != "identity") hf.fail(kZeroKind, "'" + kind + "' is not known; known is identity");
  if (hf.boolean_or(kLongcatNormalized, false)) {
    hf.fail(kLongcatNormalized, "true is not supported in this architecture");
  }
  out.normalized = false;
  out.correction_bias = true;
  out.scale = static_cast<float>(hf.number_or({"routed_scaling_factor", ""}, 6));
  check_router(hf, keys, out, layers);
  return out;
}

SwiGluSpec read_longcat_mlp(const HfSource& hf, std::size_t hidden) {
  require_silu(hf);
  return {.hidden = hidden,
          .intermediate = hf.count(hf.either("ffn_hidden_size", "intermediate_size"), kMaxSize)};
}

ModelConfig read_longcat_flash(const ConfigSource& source) {
  const HfSource& hf = *source.hf();
  ModelConfig model = read_model_sizes(hf, {.context = 131072});
  const std::size_t layers = hf.count(kLongcatLayers, kMaxLayers);
  const NormKind norm{.offset = 0, .eps = read_rms_eps(hf, "rms_norm_eps", 1e-5)};
  const MlaSpec mla = read_longcat_mla(hf, model);
  const MoeSpec experts = read_longcat_experts(hf, model.hidden, layers);
  const SwiGluSpec mlp = read_longcat_mlp(hf, model.hidden);

  ModelDraft draft(std::move(model), norm);
  for (std::size_t i = 0; i < layers; ++i) {
    LayerSpec layer;
    for (const char* half : {"0", "1"}) {
      const std::string which = half;
      layer.steps.push_back({.norm = draft.norm("input_layernorm." + which, "attn_norm_" + which),
                             .parts = {draft.part("self_attn." + which, mla)}});
      layer.steps.push_back({.norm = draft.norm("post_attention_layernorm." + which, "ffn_norm_" + which),
                             .parts = {draft.part("mlps." + which, mlp)}});
    }
    layer.steps[1].late_parts = {draft.part("mlp", experts)};
    draft.add_layer(std::move(layer));
  }
  return draft.finish();
}

}  // namespace

Family longcat_flash_family() {
  return {.name = "longcat_flash", .hf_types = {"longcat_flash"}, .read = read_longcat_flash};
}

}  // namespace reprise::models
