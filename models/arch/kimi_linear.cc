// Kimi-Linear: Kimi Delta Attention in most layers, latent attention without positions in the others; SwiGLU
// in the first layers, MoE with a sigmoid router after them. Plain RMS norms.
//
// Configs list layer kinds in `layer_types` and `mlp_layer_types` or, in the first published form, in
// `linear_attn_config`, `first_k_dense_replace` and `moe_layer_freq`.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "models/arch/config_source.h"
#include "models/arch/layer_kinds.h"
#include "models/arch/mla_keys.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/moe_keys.h"

namespace reprise::models {
namespace {

constexpr std::size_t kKimiContext = 1048576;
constexpr std::size_t kKimiInterval = 4;

constexpr Key kKimiContextKey{"model_max_length", ""};
constexpr Key kKimiExpertSize{"moe_intermediate_size", ""};
constexpr Key kRouterScores{"moe_router_activation_func", ""};
constexpr Key kDenseFirst{"first_k_dense_replace", ""};
constexpr Key kSparseEvery{"moe_layer_freq", ""};
constexpr Key kWithoutRope{"mla_use_nope", ""};

// The number may be 0; `fallback` if the key is missing.
std::size_t number_at(const HfSource& hf, const Key& key, std::size_t fallback) {
  const auto place = hf.text().find(key.hf);
  if (!place) return fallback;
  const std::int64_t value = place->integer();
  if (value < 0 || value > kMaxLayers) place->fail(std::to_string(value) + " is out of range");
  return static_cast<std::size_t>(value);
}

// Sets the kind of layers listed in `linear_attn_config`, which counts from 1.
void mark(const JsonLocation& named, LayerKind kind, std::vector<std::optional<LayerKind>>& kinds) {
  for (const std::int64_t layer : named.integers()) {
    if (layer < 1 || static_cast<std::size_t>(layer) > kinds.size()) {
      named.fail("there is no layer " + std::to_string(layer) + "; the first is 1");
    }
    std::optional<LayerKind>& one = kinds[static_cast<std::size_t>(layer) - 1];
    if (one) named.fail("layer " + std::to_string(layer) + " is named twice");
    one = kind;
  }
}

std::vector<LayerKind> read_mixers(const HfSource& hf, std::size_t layers) {
  if (hf.text().has("layer_types")) return read_layer_kinds(hf, layers, kKimiInterval);
  std::vector<LayerKind> out(layers, LayerKind::kLinearAttention);
  const auto linear = hf.text().find("linear_attn_config");
  const auto kda = linear ? linear->find("kda_layers") : std::nullopt;
  const auto full = linear ? linear->find("full_attn_layers") : std::nullopt;
  if (!kda || !full) {
    for (std::size_t i = kKimiInterval; i < layers; i += kKimiInterval) out[i] = LayerKind::kFullAttention;
    return out;
  }
  std::vector<std::optional<LayerKind>> kinds(layers);
  mark(*kda, LayerKind::kLinearAttention, kinds);
  mark(*full, LayerKind::kFullAttention, kinds);
  for (std::size_t i = 0; i < layers; ++i) {
    if (!kinds[i]) linear->fail("names no kind of layer " + std::to_string(i + 1));
    out[i] = *kinds[i];
  }
  return out;
}

std::vector<bool> read_sparse_layers(const HfSource& hf, std::size_t layers) {
  std::vector<bool> out(layers, false);
  if (const auto words = hf.text().find("mlp_layer_types")) {
    if (words->size() != layers) {
      words->fail("has " + std::to_string(words->size()) + " entries for " + std::to_string(layers) +
                  " layers");
    }
    for (std::size_t i = 0; i < layers; ++i) {
      const JsonLocation word = words->at(i);
      if (word.text() != "dense" && word.text() != "sparse") {
        word.fail("'" + word.text() + "' is not known; known are dense, sparse");
      }
      out[i] = word.text() == "sparse";
    }
    return out;
  }
  const std::size_t dense = number_at(hf, kDenseFirst, 1);
  const std::size_t every = hf.count_or(kSparseEvery, kMaxLayers, 1);
  for (std::size_t i = 0; i < layers; ++i) out[i] = i >= dense && i % every == 0;
  return out;
}

KdaSpec read_kda(const HfSource& hf, std::size_t hidden, const NormKind& norm) {
  const auto linear = hf.text().find("linear_attn_config");
  const auto size = [&](std::string_view published, std::string_view key, std::int64_t most,
                        std::size_t fallback) {
    if (const auto place = linear ? linear->find(published) : std::nullopt) return count_at(*place, most);
    return hf.count_or({key, ""}, most, fallback);
  };
  return {.hidden = hidden,
          .heads = size("num_heads", "linear_num_heads", kMaxHeads, 32),
          .head_dim = size("head_dim", "linear_head_dim", kMaxHeadDim, 128),
          .conv_kernel = size("short_conv_kernel_size", "linear_conv_kernel_dim", kMaxConvKernel, 4),
          .norm = norm};
}

MlaSpec read_kimi_mla(const HfSource& hf, std::size_t hidden) {
  if (!hf.boolean_or(kWithoutRope, true)) {
    hf.fail(kWithoutRope, "false is not supported: this architecture has no positions");
  }
  return read_mla(hf, {.hidden = hidden});
}

MoeSpec read_kimi_experts(const HfSource& hf, std::size_t hidden, std::size_t layers) {
  require_silu(hf);
  const RouterKeys keys{.experts = hf.either("num_experts", "num_local_experts"),
                        .chosen = hf.either("num_experts_per_token", "num_experts_per_tok"),
                        .groups = hf.either("num_expert_group", "n_group"),
                        .chosen_groups = {"topk_group", ""}};
  MoeSpec out;
  out.hidden = hidden;
  out.experts = hf.count_or(keys.experts, kMaxExperts, 256);
  out.chosen = hf.count_or(keys.chosen, kMaxExperts, 8);
  out.groups = hf.count_or(keys.groups, kMaxExperts, 1);
  out.chosen_groups = hf.count_or(keys.chosen_groups, kMaxExperts, 1);
  out.intermediate = hf.count_or(kKimiExpertSize, kMaxSize, 1024);
  out.shared_intermediate =
      out.intermediate * number_at(hf, hf.either("num_shared_experts", "n_shared_experts"), 1);
  out.shared_gate = false;
  out.correction_bias = true;
  out.normalized = hf.boolean_or(hf.either("moe_renormalize", "norm_topk_prob"), true);
  out.epsilon = 1e-20F;
  out.scale = static_cast<float>(hf.number_or({"routed_scaling_factor", ""}, 2.446));
  const std::string scores = hf.text().text_or(kRouterScores.hf, "sigmoid");
  if (scores != "sigmoid" && scores != "softmax") {
    hf.fail(kRouterScores, "'" + scores + "' is not known; known are sigmoid, softmax");
  }
  out.scores = scores == "sigmoid" ? gpu::RouterScores::kSigmoid : gpu::RouterScores::kSoftmax;
  check_router(hf, keys, out, layers);
  return out;
}

ModelConfig read_kimi_linear(const ConfigSource& source) {
  const HfSource& hf = *source.hf();
  ModelConfig model =
      read_model_sizes(hf, {.context = hf.count_or(kKimiContextKey, kMaxContext, kKimiContext)});
  model.head_may_differ = true;
  const std::size_t layers = read_layer_count(hf);
  const std::vector<LayerKind> mixers = read_mixers(hf, layers);
  const std::vector<bool> sparse = read_sparse_layers(hf, layers);
  const NormKind norm{.offset = 0, .eps = read_rms_eps(hf, "rms_norm_eps", 1e-5)};
  const KdaSpec kda = read_kda(hf, model.hidden, norm);
  MlaSpec mla;
  MoeSpec experts;
  SwiGluSpec dense;
  if (std::count(mixers.begin(), mixers.end(), LayerKind::kFullAttention) != 0) {
    mla = read_kimi_mla(hf, model.hidden);
  }
  const auto with_experts = static_cast<std::size_t>(std::count(sparse.begin(), sparse.end(), true));
  if (with_experts != 0) experts = read_kimi_experts(hf, model.hidden, with_experts);
  if (with_experts != layers) dense = read_swiglu(hf, model.hidden);

  ModelDraft draft(std::move(model), norm);
  for (std::size_t i = 0; i < layers; ++i) {
    const NormSpec before = draft.norm("input_layernorm", "attn_norm");
    PartSpec mixer =
        mixers[i] == LayerKind::kFullAttention ? draft.part("self_attn", mla) : draft.part("self_attn", kda);
    const NormSpec between = draft.norm("post_attention_layernorm", "ffn_norm");
    PartSpec feed_forward = sparse[i] ? draft.part("block_sparse_moe", experts)
                                      : draft.part("mlp", dense, SwiGluAlias{"block_sparse_moe"});
    draft.add_layer({{{.norm = before, .parts = {std::move(mixer)}},
                      {.norm = between, .parts = {std::move(feed_forward)}}}});
  }
  return draft.finish();
}

}  // namespace

Family kimi_linear_family() {
  return {.name = "kimi_linear", .hf_types = {"kimi_linear"}, .read = read_kimi_linear};
}

}  // namespace reprise::models
