// Mamba-2: only its mixer in every layer, after a plain RMS norm. With several groups the mixer's inner norm
// is per group, as in the original and llama.cpp.

#include "models/arch/mamba2_keys.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"

namespace reprise::models {
namespace {

constexpr std::size_t kMamba2Context = 1u << 20;  // unlimited; llama.cpp's value

constexpr Mamba2Keys kMamba2Keys{.heads = "num_heads",
                                 .head_dim = "head_dim",
                                 .groups = "n_groups",
                                 .state_size = "state_size",
                                 .conv_kernel = "conv_kernel",
                                 .conv_bias = "use_conv_bias",
                                 .in_bias = "use_bias",
                                 .out_bias = "use_bias",
                                 .activation = "hidden_act",
                                 .default_groups = 8};
constexpr Key kMamba2Expand{"expand", ""};

ModelConfig read_mamba2_model(const ConfigSource& source) {
  ModelConfig model = read_model_sizes(source, {.embedding = "embeddings", .context = kMamba2Context});
  const std::size_t layers = read_layer_count(source);
  const NormKind norm{.offset = 0, .eps = read_rms_eps(source, "layer_norm_epsilon", 1e-5)};
  Mamba2Spec mamba = read_mamba2(source, model.hidden, kMamba2Keys);
  mamba.norm = norm;
  if (source.has(kMamba2Expand) && source.number(kMamba2Expand) * static_cast<double>(model.hidden) !=
                                       static_cast<double>(mamba.inner_size())) {
    source.fail(kMamba2Expand, "times the hidden size is not " + std::to_string(mamba.heads) + " heads of " +
                                   std::to_string(mamba.head_dim));
  }

  ModelDraft draft(std::move(model), norm);
  for (std::size_t i = 0; i < layers; ++i) {
    draft.add_layer({{{.norm = draft.norm("norm", "attn_norm"), .parts = {draft.part("mixer", mamba)}}}});
  }
  return draft.finish("norm_f");
}

}  // namespace

Family mamba2_family() {
  return {.name = "mamba2", .hf_types = {"mamba2"}, .gguf_names = {"mamba2"}, .read = read_mamba2_model};
}

}  // namespace reprise::models
