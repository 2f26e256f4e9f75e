// Hybrids of Qwen: three layers of Gated DeltaNet, then one of gated attention with partial rope, each
// followed by a feed-forward part; zero-centered norms.
//
//   Qwen3.5      SwiGLU in every layer; also the text part of its multimodal models
//   Qwen3.5-MoE  experts in every layer; likewise
//   Qwen3-Next   experts in some layers or all, one position axis, and DeltaNet's projections fused per key head

#include <algorithm>
#include <cstdint>

#include "models/arch/attention_keys.h"
#include "models/arch/config.h"
#include "models/arch/config_source.h"
#include "models/arch/families.h"
#include "models/arch/layer_kinds.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/moe_keys.h"
#include "models/arch/rope_keys.h"

namespace reprise::models {
namespace {

struct QwenHybrid {
  enum class FeedForward : std::uint8_t {
    kDense,
    kExperts,           // in every layer, with normalized weights
    kExpertsSomewhere,  // in the layers and with the normalization that config.json's keys select
  };

  FeedForward feed_forward = FeedForward::kDense;
  bool interleaved_axes = true;  // rope: image positions have several axes
  // DeltaNet's stored layout: GatedDeltaNetByKeyHead; else GatedDeltaNetInGguf
  bool fused_by_key_head = false;
};

constexpr std::size_t kAttentionInterval = 4;

constexpr Key kKeyHeads{"linear_num_key_heads", "ssm.group_count"};
constexpr Key kValueHeads{"linear_num_value_heads", "ssm.time_step_rank"};
constexpr Key kKeyHeadDim{"linear_key_head_dim", "ssm.state_size"};
constexpr Key kValueHeadDim{"linear_value_head_dim", ""};
constexpr Key kValueSize{"", "ssm.inner_size"};  // value heads times head size
constexpr Key kConvKernel{"linear_conv_kernel_dim", "ssm.conv_kernel"};
constexpr Key kOutputGate{"attn_output_gate", ""};
constexpr Key kTiledValueHeads{"", "ssm.v_head_reordered"};

std::size_t read_value_head_dim(const ConfigSource& source, std::size_t value_heads) {
  if (source.hf() != nullptr) return source.count(kValueHeadDim, kMaxHeadDim);
  const std::size_t size = source.count(kValueSize, kMaxHeads * kMaxHeadDim);
  if (size % value_heads != 0 || size / value_heads > kMaxHeadDim) {
    source.fail(kValueSize,
                std::to_string(size) + " does not suit " + std::to_string(value_heads) + " heads");
  }
  return size / value_heads;
}

GatedDeltaNetSpec read_gated_delta_net(const ConfigSource& source, std::size_t hidden, float rms_eps) {
  GatedDeltaNetSpec out;
  out.hidden = hidden;
  out.key_heads = source.count(kKeyHeads, kMaxHeads);
  out.value_heads = source.count(kValueHeads, kMaxHeads);
  out.key_head_dim = source.count(kKeyHeadDim, kMaxHeadDim);
  out.value_head_dim = read_value_head_dim(source, out.value_heads);
  out.conv_kernel = source.count(kConvKernel, kMaxConvKernel);
  out.norm = {.offset = 0, .eps = rms_eps};  // the only norm that is not zero-centered
  if (out.value_heads % out.key_heads != 0) {
    source.fail(kValueHeads, std::to_string(out.value_heads) + " is not a multiple of " +
                                 source.name(kKeyHeads) + ", which is " + std::to_string(out.key_heads));
  }
  return out;
}

class FeedForwards {
 public:
  FeedForwards(const ConfigSource& source, std::size_t hidden, std::size_t layers,
               QwenHybrid::FeedForward kind)
      : has_experts_(layers, false) {
    if (kind == QwenHybrid::FeedForward::kDense) {
      refuse_experts(source);
    } else {
      const bool by_keys = kind == QwenHybrid::FeedForward::kExpertsSomewhere;
      has_experts_ = read_expert_layers(source, layers, by_keys);
      const std::size_t first = first_with(true);
      if (first < layers) {
        const auto count = std::count(has_experts_.begin(), has_experts_.end(), true);
        moe_ = read_moe(source, {.hidden = hidden,
                                 .has_norm_key = by_keys,
                                 .layers = static_cast<std::size_t>(count),
                                 .layer = first});
      }
    }
    if (first_with(false) < layers) dense_ = read_swiglu(source, hidden);
  }

  PartSpec part(ModelDraft& draft, std::size_t layer) const {
    return has_experts_[layer] ? draft.part("mlp", moe_) : draft.part("mlp", dense_);
  }

 private:
  // Index of the first layer with or without experts; the number of layers if none.
  std::size_t first_with(bool experts) const {
    return static_cast<std::size_t>(std::find(has_experts_.begin(), has_experts_.end(), experts) -
                                    has_experts_.begin());
  }

  std::vector<bool> has_experts_;
  SwiGluSpec dense_{};
  MoeSpec moe_{};
};

ModelConfig read_qwen_hybrid(const ConfigSource& source, const QwenHybrid& family) {
  ModelConfig model = read_model_sizes(source);
  const std::vector<LayerKind> kinds = read_layer_kinds(source, read_layer_count(source), kAttentionInterval);
  const auto attends = std::find(kinds.begin(), kinds.end(), LayerKind::kFullAttention);

  const NormKind norm{.offset = 1, .eps = read_rms_eps(source)};
  AttentionSpec attention =
      read_attention(source, {.hidden = model.hidden,
                              .hf_head_dim = 256,
                              .layer = static_cast<std::size_t>(attends - kinds.begin())});
  attention.head_norm = norm;
  attention.output_gate = source.boolean_or(kOutputGate, true);
  attention.rope = read_rope(source, {.head_dim = attention.head_dim,
                                      .context_length = model.context_length,
                                      .hf_part = 0.25,
                                      .interleaved_axes = family.interleaved_axes});
  const GatedDeltaNetSpec gated_delta_net = read_gated_delta_net(source, model.hidden, norm.eps);
  const FeedForwards feed_forwards(source, model.hidden, kinds.size(), family.feed_forward);
  const GatedDeltaNetInGguf gguf{.tiled_value_heads = source.boolean_or(kTiledValueHeads, true)};

  ModelDraft draft(std::move(model), norm);
  for (std::size_t layer = 0; layer < kinds.size(); ++layer) {
    const auto mixer = [&] {
      if (kinds[layer] == LayerKind::kFullAttention) return draft.part("self_attn", attention);
      return family.fused_by_key_head ? draft.part("linear_attn", gated_delta_net, GatedDeltaNetByKeyHead{})
                                      : draft.part("linear_attn", gated_delta_net, gguf);
    };
    draft.add_layer({{
        {.norm = draft.norm("input_layernorm", "attn_norm"), .parts = {mixer()}},
        {.norm = draft.norm("post_attention_layernorm", "post_attention_norm"),
         .parts = {feed_forwards.part(draft, layer)}},
    }});
  }
  return draft.finish();
}

ModelConfig read_qwen3_5(const ConfigSource& source) {
  return read_qwen_hybrid(source, {.feed_forward = QwenHybrid::FeedForward::kDense});
}

ModelConfig read_qwen3_5_moe(const ConfigSource& source) {
  return read_qwen_hybrid(source, {.feed_forward = QwenHybrid::FeedForward::kExperts});
}

ModelConfig read_qwen3_next(const ConfigSource& source) {
  return read_qwen_hybrid(source, {.feed_forward = QwenHybrid::FeedForward::kExpertsSomewhere,
                                   .interleaved_axes = false,
                                   .fused_by_key_head = true});
}

}  // namespace

Family qwen3_5_family() {
  return {.name = "qwen3_5_text",
          .hf_types = {"qwen3_5_text"},
          .hf_wrapper_types = {"qwen3_5"},
          .gguf_names = {"qwen35"},
          .read = read_qwen3_5};
}

Family qwen3_5_moe_family() {
  return {.name = "qwen3_5_moe_text",
          .hf_types = {"qwen3_5_moe_text"},
          .hf_wrapper_types = {"qwen3_5_moe"},
          .gguf_names = {"qwen35moe"},
          .read = read_qwen3_5_moe};
}

Family qwen3_next_family() {
  return {
      .name = "qwen3_next", .hf_types = {"qwen3_next"}, .gguf_names = {"qwen3next"}, .read = read_qwen3_next};
}

}  // namespace reprise::models
