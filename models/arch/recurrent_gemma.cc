// RecurrentGemma (Griffin): RG-LRU and sliding-window attention as mixers, each followed by GeGLU, with
// zero-centered RMS norms. The embedding is scaled by sqrt(hidden); logits have a soft cap. Supported from
// Hugging Face folders only.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "models/arch/attention_keys.h"
#include "models/arch/config_source.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/rope_keys.h"

namespace reprise::models {
namespace {

constexpr std::size_t kUnboundedContext = 1 << 20;  // not in configs; the state has no limit

constexpr Key kWindow{"attention_window_size", ""};
constexpr Key kLruWidth{"lru_width", ""};
constexpr Key kConvWidth{"conv1d_width", ""};
constexpr Key kIntermediateSize{"intermediate_size", ""};
constexpr Key kSoftCap{"logits_soft_cap", ""};
constexpr Key kScaledEmbedding{"embeddings_scale_by_sqrt_dim", ""};

// True for attention layers; `block_types` is repeated cyclically.
std::vector<bool> read_attention_layers(const HfSource& hf, std::size_t layers) {
  std::vector<bool> types{false, false, true};
  if (const auto words = hf.text().find("block_types")) {
    types.clear();
    for (std::size_t i = 0; i < words->size(); ++i) {
      const std::string word = words->at(i).text();
      if (word != "recurrent" && word != "attention") {
        words->at(i).fail("unknown block type '" + word + "'; known are recurrent, attention");
      }
      types.push_back(word == "attention");
    }
    if (types.empty()) words->fail("names no block type");
  }
  std::vector<bool> out;
  for (std::size_t i = 0; i < layers; ++i) out.push_back(types[i % types.size()]);
  return out;
}

void require_gelu(const HfSource& hf) {
  const auto act = hf.text().find("hidden_activation");
  if (act && act->text() != "gelu_pytorch_tanh") {
    act->fail("the activation '" + act->text() + "' is not known; known is gelu_pytorch_tanh");
  }
}

RgLruSpec read_rg_lru(const ConfigSource& source, std::size_t hidden, std::size_t heads) {
  RgLruSpec out;
  out.hidden = hidden;
  out.width = source.count_or(kLruWidth, kMaxSize, hidden);
  out.heads = heads;
  out.conv_kernel = source.count_or(kConvWidth, kMaxConvKernel, 4);
  if (out.width % heads != 0) {
    source.fail(kLruWidth, std::to_string(out.width) +
                               " is not a multiple of num_attention_heads, which is " +
                               std::to_string(heads));
  }
  return out;
}

SwiGluSpec read_geglu(const ConfigSource& source, std::size_t hidden) {
  const std::size_t both = source.count(kIntermediateSize, kMaxSize);  // gate and up together
  if (both % 2 != 0) source.fail(kIntermediateSize, "must be even");
  return {.hidden = hidden, .intermediate = both / 2, .bias = true, .activation = Activation::kGelu};
}

// Rounds to nearest even, as the reference rounds its embedding factor.
float rounded_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

ModelConfig read_recurrent_gemma(const ConfigSource& source) {
  ModelConfig model = read_model_sizes(source, {.context = kUnboundedContext, .hf_tied = true});
  const HfSource& hf = *source.hf();
  const std::vector<bool> attends = read_attention_layers(hf, read_layer_count(source));
  require_gelu(hf);

  AttentionSpec attention = read_attention(source, {.hidden = model.hidden});
  attention.output_bias = true;
  attention.window = source.count_or(kWindow, kMaxSize, 2048);
  attention.rope = read_rope(
      source, {.head_dim = attention.head_dim, .context_length = model.context_length, .hf_part = 0.5});
  const RgLruSpec rg_lru = read_rg_lru(source, model.hidden, attention.heads);
  const SwiGluSpec mlp = read_geglu(source, model.hidden);
  if (source.boolean_or(kScaledEmbedding, true)) {
    model.embedding_multiplier = rounded_to_bf16(std::sqrt(static_cast<float>(model.hidden)));
  }
  model.logit_cap = static_cast<float>(source.number_or(kSoftCap, 30));
  if (!(*model.logit_cap > 0 && std::isfinite(*model.logit_cap))) source.fail(kSoftCap, "must be positive");

  ModelDraft draft(std::move(model), {.offset = 1, .eps = read_rms_eps(source)});
  for (const bool has_attention : attends) {
    const auto mixer = [&]() -> PartSpec {
      return has_attention ? draft.part("temporal_block", attention) : draft.part("temporal_block", rg_lru);
    };
    draft.add_layer({{
        {.norm = draft.norm("temporal_pre_norm", "attn_norm"), .parts = {mixer()}},
        {.norm = draft.norm("channel_pre_norm", "ffn_norm"), .parts = {draft.part("mlp_block", mlp)}},
    }});
  }
  return draft.finish("final_norm");
}

}  // namespace

Family recurrent_gemma_family() {
  return {.name = "recurrent_gemma", .hf_types = {"recurrent_gemma"}, .read = read_recurrent_gemma};
}

}  // namespace reprise::models
