// Qwen3: attention with a norm on each query and key head, then SwiGLU, each after a plain RMS norm.

#include "models/arch/attention_keys.h"
#include "models/arch/layer_kinds.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/rope_keys.h"

namespace reprise::models {
namespace {

ModelConfig read_qwen3(const ConfigSource& source) {
  ModelConfig model = read_model_sizes(source);
  const std::size_t layers = read_layer_count(source);
  refuse_linear_attention(source, layers);

  const NormKind norm{.offset = 0, .eps = read_rms_eps(source)};
  AttentionSpec attention = read_attention(source, {.hidden = model.hidden, .hf_head_dim = 128});
  attention.head_norm = norm;
  attention.rope =
      read_rope(source, {.head_dim = attention.head_dim, .context_length = model.context_length});
  refuse_experts(source);
  const SwiGluSpec mlp = read_swiglu(source, model.hidden);

  ModelDraft draft(std::move(model), norm);
  for (std::size_t i = 0; i < layers; ++i) {
    draft.add_layer({{
        {.norm = draft.norm("input_layernorm", "attn_norm"), .parts = {draft.part("self_attn", attention)}},
        {.norm = draft.norm("post_attention_layernorm", "ffn_norm"), .parts = {draft.part("mlp", mlp)}},
    }});
  }
  return draft.finish();
}

}  // namespace

Family qwen3_family() {
  return {.name = "qwen3", .hf_types = {"qwen3"}, .gguf_names = {"qwen3"}, .read = read_qwen3};
}

}  // namespace reprise::models
