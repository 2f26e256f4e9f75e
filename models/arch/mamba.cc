// Mamba: only its mixer in every layer, after a plain RMS norm. Falcon Mamba adds weightless norms of the
// scan's dt, B and C.

#include "models/arch/config_source.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/selective_scan_keys.h"

namespace reprise::models {
namespace {

constexpr std::size_t kMambaContext = 1u << 20;  // unlimited; llama.cpp's value
constexpr Key kMixerEps{"mixer_rms_eps", ""};    // missing in GGUF files
constexpr Key kMixerNorms{"", "ssm.dt_b_c_rms"};

ModelConfig read_mamba(const ConfigSource& source, bool mixer_norms) {
  ModelConfig model =
      read_model_sizes(source, {.embedding = "embeddings", .context = kMambaContext, .hf_tied = true});
  const std::size_t layers = read_layer_count(source);
  const NormKind norm{.offset = 0, .eps = read_rms_eps(source, "layer_norm_epsilon", 1e-5)};
  SelectiveScanSpec scan = read_selective_scan(source, {.hidden = model.hidden,
                                                        .state_size = "state_size",
                                                        .conv_kernel = "conv_kernel",
                                                        .step_rank = "time_step_rank",
                                                        .expand = "expand",
                                                        .inner = "intermediate_size",
                                                        .conv_bias = "use_conv_bias",
                                                        .bias = "use_bias"});
  if (mixer_norms) {
    scan.norms = ScanNorms::kWeightless;
    scan.norm.eps = static_cast<float>(source.number_or(kMixerEps, 1e-6));
    if (!(scan.norm.eps > 0 && scan.norm.eps < 1)) source.fail(kMixerEps, "must lie between 0 and 1");
  }

  ModelDraft draft(std::move(model), norm);
  for (std::size_t i = 0; i < layers; ++i) {
    draft.add_layer({{{.norm = draft.norm("norm", "attn_norm"), .parts = {draft.part("mixer", scan)}}}});
  }
  return draft.finish("norm_f");
}

// GGUF has one architecture name for both.
ModelConfig read_plain_mamba(const ConfigSource& source) {
  return read_mamba(source, source.boolean_or(kMixerNorms, false));
}

ModelConfig read_falcon_mamba(const ConfigSource& source) {
  return read_mamba(source, true);
}

}  // namespace

Family mamba_family() {
  return {.name = "mamba", .hf_types = {"mamba"}, .gguf_names = {"mamba"}, .read = read_plain_mamba};
}

Family falcon_mamba_family() {
  return {.name = "falcon_mamba", .hf_types = {"falcon_mamba"}, .gguf_names = {}, .read = read_falcon_mamba};
}

}  // namespace reprise::models
