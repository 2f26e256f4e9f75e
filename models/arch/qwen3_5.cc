// Qwen3.5: three layers of Gated DeltaNet to one of gated attention with partial rope, each followed by SwiGLU;
// zero-centred norms. Also the text part of its multimodal models.

#include <algorithm>

#include "models/arch/attention_keys.h"
#include "models/arch/layer_kinds.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/rope_keys.h"

namespace reprise::models {
namespace {

constexpr std::size_t kAttentionInterval = 4;

constexpr Key kKeyHeads{"linear_num_key_heads", "ssm.group_count"};
constexpr Key kValueHeads{"linear_num_value_heads", "ssm.time_step_rank"};
constexpr Key kKeyHeadDim{"linear_key_head_dim", "ssm.state_size"};
constexpr Key kValueHeadDim{"linear_value_head_dim", ""};
constexpr Key kValueSize{"", "ssm.inner_size"};  // value heads times their size
constexpr Key kConvKernel{"linear_conv_kernel_dim", "ssm.conv_kernel"};
constexpr Key kOutputGate{"attn_output_gate", ""};
constexpr Key kTiledValueHeads{"", "ssm.v_head_reordered"};

std::size_t read_value_head_dim(const ConfigSource& source, std::size_t value_heads) {
  if (source.hf() != nullptr) return source.count(kValueHeadDim, kLargestHeadDim);
  const std::size_t size = source.count(kValueSize, kMostHeads * kLargestHeadDim);
  if (size % value_heads != 0 || size / value_heads > kLargestHeadDim) {
    source.fail(kValueSize,
                std::to_string(size) + " does not suit " + std::to_string(value_heads) + " heads");
  }
  return size / value_heads;
}

DeltaNetSpec read_delta_net(const ConfigSource& source, std::size_t hidden, float rms_eps) {
  DeltaNetSpec out;
  out.hidden = hidden;
  out.key_heads = source.count(kKeyHeads, kMostHeads);
  out.value_heads = source.count(kValueHeads, kMostHeads);
  out.key_head_dim = source.count(kKeyHeadDim, kLargestHeadDim);
  out.value_head_dim = read_value_head_dim(source, out.value_heads);
  out.conv_kernel = source.count(kConvKernel, kLargestConvKernel);
  out.norm = {.offset = 0, .eps = rms_eps};  // the one norm that is not zero-centred
  if (out.value_heads % out.key_heads != 0) {
    source.fail(kValueHeads, std::to_string(out.value_heads) + " is not a multiple of " +
                                 source.name(kKeyHeads) + ", which is " + std::to_string(out.key_heads));
  }
  return out;
}

ModelConfig read_qwen3_5(const ConfigSource& source) {
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
                                      .interleaved_axes = true});
  const DeltaNetSpec delta_net = read_delta_net(source, model.hidden, norm.eps);
  const SwiGluSpec mlp = read_swiglu(source, model.hidden);
  const DeltaNetInGguf gguf{.tiled_value_heads = source.boolean_or(kTiledValueHeads, true)};

  ModelDraft draft(std::move(model), norm);
  for (const LayerKind kind : kinds) {
    const auto mixer = [&] {
      return kind == LayerKind::kLinearAttention ? draft.part("linear_attn", delta_net, gguf)
                                                 : draft.part("self_attn", attention);
    };
    draft.add_layer({{
        {.norm = draft.norm("input_layernorm", "attn_norm"), .parts = {mixer()}},
        {.norm = draft.norm("post_attention_layernorm", "post_attention_norm"),
         .parts = {draft.part("mlp", mlp)}},
    }});
  }
  return draft.finish();
}

}  // namespace

Family qwen3_5_family() {
  return {.name = "qwen3_5_text",
          .hf_types = {"qwen3_5_text"},
          .hf_wrapper_types = {"qwen3_5"},
          .gguf_names = {"qwen35"},
          .read = read_qwen3_5};
}

}  // namespace reprise::models
