// Llama: attention with full rope, then SwiGLU, each after a plain RMS norm.

#include "models/arch/attention_keys.h"
#include "models/arch/layer_kinds.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/rope_keys.h"

namespace reprise::models {
namespace {

ModelConfig read_llama(const ConfigSource& source) {
  ModelConfig model = read_model_sizes(source);
  const std::size_t layers = read_layer_count(source);
  refuse_linear_attention(source, layers);

  const NormKind norm{.offset = 0, .eps = read_rms_eps(source)};
  AttentionSpec attention = read_attention(source, {.hidden = model.hidden});
  attention.rope =
      read_rope(source, {.head_dim = attention.head_dim, .context_length = model.context_length});
  refuse_experts(source);
  const SwiGluSpec mlp = read_swiglu(source, model.hidden);

  ModelDraft draft(std::move(model), norm);
  for (std::size_t i = 0; i < layers; ++i) {
    draft.add_layer({{
        {.norm = draft.norm("input_layernorm", "attn_norm"),
         .parts = {draft.part("self_attn", attention, AttentionInGguf{.interleaved_heads = true})}},
        {.norm = draft.norm("post_attention_layernorm", "ffn_norm"), .parts = {draft.part("mlp", mlp)}},
    }});
  }
  return draft.finish();
}

}  // namespace

Family llama_family() {
  return {.name = "llama", .hf_types = {"llama"}, .gguf_names = {"llama"}, .read = read_llama};
}

}  // namespace reprise::models
