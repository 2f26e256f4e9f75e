// Jamba: Mamba mixers, with one layer per period using attention without positions instead; each followed by
// a feed-forward part, which is MoE once per period. Plain RMS norms, also of the scan's dt, B and C.

#include <string>
#include <vector>

#include "models/arch/attention_keys.h"
#include "models/arch/config_source.h"
#include "models/arch/layer_kinds.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/moe_keys.h"
#include "models/arch/selective_scan_keys.h"

namespace reprise::models {
namespace {

constexpr Key kInnerNorms{"mamba_inner_layernorms", ""};
constexpr Key kJambaExperts{"num_experts", "expert_count"};
constexpr Key kJambaChosen{"num_experts_per_tok", "expert_used_count"};
constexpr std::int64_t kMaxJambaExperts = 1024;  // per layer

/// True for every layer i with i % period == offset.
std::vector<bool> periodic(const HfSource& hf, std::size_t layers, std::string_view period_key,
                           std::size_t period, std::string_view offset_key, std::int64_t offset) {
  period = hf.count_or({period_key, ""}, kMaxLayers, period);
  if (const auto said = hf.text().find(offset_key)) offset = said->integer();
  if (offset < 0 || static_cast<std::size_t>(offset) >= period) {
    hf.fail({offset_key, ""}, std::to_string(offset) + " is not below " + std::string(period_key) +
                                  ", which is " + std::to_string(period));
  }
  std::vector<bool> out(layers);
  for (std::size_t i = 0; i < layers; ++i) out[i] = i % period == static_cast<std::size_t>(offset);
  return out;
}

std::vector<bool> attention_layers(const ConfigSource& source, std::size_t layers) {
  if (const HfSource* hf = source.hf()) {
    return periodic(*hf, layers, "attn_layer_period", 8, "attn_layer_offset", 4);
  }
  std::vector<bool> out(layers);  // a layer without key-value heads is not attention
  const std::vector<LayerKind> kinds = read_layer_kinds(source, layers, 8);
  for (std::size_t i = 0; i < layers; ++i) out[i] = kinds[i] == LayerKind::kFullAttention;
  return out;
}

std::vector<bool> expert_layers(const ConfigSource& source, std::size_t layers) {
  if (source.hf() == nullptr) return read_expert_layers(source, layers, false);
  if (source.count_or(kJambaExperts, kMaxJambaExperts, 16) == 1) return std::vector<bool>(layers, false);
  return periodic(*source.hf(), layers, "expert_layer_period", 2, "expert_layer_offset", 1);
}

// Index of the first layer whose flag equals `is`; layers.size() if none.
std::size_t first_layer(const std::vector<bool>& layers, bool is) {
  std::size_t i = 0;
  while (i < layers.size() && layers[i] != is) ++i;
  return i;
}

SelectiveScanSpec read_jamba_scan(const ConfigSource& source, std::size_t hidden, std::size_t layer,
                                  const NormKind& norm) {
  SelectiveScanSpec out = read_selective_scan(source, {.hidden = hidden,
                                                       .state_size = "mamba_d_state",
                                                       .conv_kernel = "mamba_d_conv",
                                                       .step_rank = "mamba_dt_rank",
                                                       .expand = "mamba_expand",
                                                       .inner = "",
                                                       .conv_bias = "mamba_conv_bias",
                                                       .bias = "mamba_proj_bias",
                                                       .layer = layer});
  if (source.boolean_or(kInnerNorms, true)) {
    out.norms = ScanNorms::kWeighted;
    out.norm = norm;
  }
  return out;
}

AttentionSpec read_jamba_attention(const ConfigSource& source, std::size_t hidden, std::size_t layer) {
  if (const HfSource* hf = source.hf()) {
    if (const auto window = hf->text().find("sliding_window")) {
      window->fail("sliding windows are not supported in this architecture");
    }
  }
  return read_attention(source, {.hidden = hidden, .layer = layer});
}

/// Experts as wide as the dense feed-forward part.
MoeSpec read_jamba_experts(const ConfigSource& source, const SwiGluSpec& mlp) {
  MoeSpec out;
  out.hidden = mlp.hidden;
  out.intermediate = mlp.intermediate;
  out.experts = source.count_or(kJambaExperts, kMaxJambaExperts, 16);
  out.chosen = source.count_or(kJambaChosen, kMaxJambaExperts, 2);
  out.normalized = false;
  if (out.chosen > out.experts) {
    source.fail(kJambaChosen, std::to_string(out.chosen) + " is more than " + source.name(kJambaExperts) +
                                  ", which is " + std::to_string(out.experts));
  }
  return out;
}

ModelConfig read_jamba(const ConfigSource& source) {
  ModelConfig model = read_model_sizes(source);
  const std::size_t layers = read_layer_count(source);
  const std::vector<bool> attends = attention_layers(source, layers);
  const std::vector<bool> sparse = expert_layers(source, layers);
  const NormKind norm{.offset = 0, .eps = read_rms_eps(source)};
  SelectiveScanSpec scan;
  AttentionSpec attention;
  MoeSpec experts;
  if (const std::size_t first = first_layer(attends, false); first < layers) {
    scan = read_jamba_scan(source, model.hidden, first, norm);
  }
  if (const std::size_t first = first_layer(attends, true); first < layers) {
    attention = read_jamba_attention(source, model.hidden, first);
  }
  const SwiGluSpec mlp = read_swiglu(source, model.hidden);
  if (first_layer(sparse, true) < layers) {
    experts = read_jamba_experts(source, mlp);
  }

  ModelDraft draft(std::move(model), norm);
  for (std::size_t i = 0; i < layers; ++i) {
    const NormSpec before = draft.norm("input_layernorm", "attn_norm");
    PartSpec mixer = attends[i] ? draft.part("self_attn", attention) : draft.part("mamba", scan);
    const NormSpec between = draft.norm("pre_ff_layernorm", "ffn_norm");
    PartSpec feed_forward = sparse[i] ? draft.part("feed_forward", experts) : draft.part("feed_forward", mlp);
    draft.add_layer({{{.norm = before, .parts = {std::move(mixer)}},
                      {.norm = between, .parts = {std::move(feed_forward)}}}});
  }
  return draft.finish("final_layernorm");
}

}  // namespace

Family jamba_family() {
  return {.name = "jamba", .hf_types = {"jamba"}, .gguf_names = {"jamba"}, .read = read_jamba};
}

}  // namespace reprise::models
