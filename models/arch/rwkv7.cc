// RWKV-7: time mix and channel mix, each after a LayerNorm, and a LayerNorm after the embedding. Supported
// from GGUF files only.

#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"

namespace reprise::models {
namespace {

constexpr std::size_t kRwkvContext = 1 << 20;  // unlimited; llama.cpp's converter's value

constexpr Key kRwkvEps{"", "attention.layer_norm_epsilon"};
constexpr Key kWkvHeadSize{"", "wkv.head_size"};
constexpr Key kDecayRank{"", "attention.decay_lora_rank"};
constexpr Key kRateRank{"", "attention.iclr_lora_rank"};
constexpr Key kValueRank{"", "attention.value_residual_mix_lora_rank"};
constexpr Key kGateRank{"", "attention.gate_lora_rank"};
constexpr Key kRwkvIntermediate{"", "feed_forward_length"};
constexpr Key kTokenShifts{"", "token_shift_count"};
constexpr Key kRescaling{"", "rescale_every_n_layers"};

TimeMixSpec read_time_mix(const ConfigSource& source, std::size_t hidden) {
  TimeMixSpec out;
  out.hidden = hidden;
  out.head_dim = source.count(kWkvHeadSize, kMaxHeadDim);
  out.decay_rank = source.count(kDecayRank, kMaxSize);
  out.rate_rank = source.count(kRateRank, kMaxSize);
  out.value_rank = source.count(kValueRank, kMaxSize);
  out.gate_rank = source.count(kGateRank, kMaxSize);
  if (hidden % out.head_dim != 0) {
    source.fail(kWkvHeadSize, std::to_string(out.head_dim) + " does not divide embedding_length, which is " +
                                  std::to_string(hidden));
  }
  return out;
}

ModelConfig read_rwkv7(const ConfigSource& source) {
  ModelConfig model = read_model_sizes(source, {.context = kRwkvContext});
  const std::size_t layers = read_layer_count(source);
  const auto eps = static_cast<float>(source.number_or(kRwkvEps, 1e-5));
  if (!(eps > 0 && eps < 1)) source.fail(kRwkvEps, "must lie between 0 and 1");
  if (source.count_or(kTokenShifts, kMaxSize, 2) != 2) source.fail(kTokenShifts, "must be 2");
  if (source.has(kRescaling) && source.number(kRescaling) != 0) source.fail(kRescaling, "must be 0");
  TimeMixSpec time_mix = read_time_mix(source, model.hidden);
  const ChannelMixSpec channel_mix{.hidden = model.hidden,
                                   .intermediate = source.uniform(kRwkvIntermediate, kMaxSize)};

  ModelDraft draft(std::move(model), {.offset = 0, .eps = eps, .centered = true});
  draft.add_embedding_norm("embed_norm", "token_embd_norm");
  for (std::size_t i = 0; i < layers; ++i) {
    time_mix.is_first = i == 0;
    draft.add_layer({{
        {.norm = draft.norm("attn_norm", "attn_norm"), .parts = {draft.part("attn", time_mix)}},
        {.norm = draft.norm("ffn_norm", "attn_norm_2"), .parts = {draft.part("ffn", channel_mix)}},
    }});
  }
  ModelConfig out = draft.finish();
  // The converter writes these unused tensors for the first layer.
  for (const char* tensor : {"v0", "v1", "v2"})
    out.ignored.push_back(std::string("blk.0.time_mix_") + tensor + ".weight");
  return out;
}

}  // namespace

Family rwkv7_family() {
  return {.name = "rwkv7", .gguf_names = {"rwkv7"}, .read = read_rwkv7};
}

}  // namespace reprise::models
