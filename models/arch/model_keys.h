#pragma once
// Reads hyperparameters that nearly every family has. Errors are LoadErrors.

#include <optional>
#include <string_view>

#include "models/arch/config.h"
#include "models/arch/config_source.h"

namespace reprise::models {

/// Differences between families.
struct ModelSizeKeys {
  std::string_view embedding = "embed_tokens";  // Hugging Face name, without ".weight"
  std::optional<std::size_t> context{};         // default; nullopt: the key is required
  bool hf_tied = false;                         // default of config.json
};

/// Returns hidden, vocab, context_length and, if tied, the head's name.
ModelConfig read_model_sizes(const ConfigSource& source, const ModelSizeKeys& keys = {});

/// Number of layers of the text model, without the multi-token prediction blocks that GGUF includes.
std::size_t read_layer_count(const ConfigSource& source);

/// The default applies to config.json; GGUF requires the key.
float read_rms_eps(const ConfigSource& source, std::string_view hf_key = "rms_norm_eps",
                   double hf_default = 1e-6);

/// Fails unless the activation is SiLU.
void require_silu(const ConfigSource& source);

void refuse_experts(const ConfigSource& source);

/// The dense feed-forward part of all layers without experts; its name is left empty.
SwiGluSpec read_swiglu(const ConfigSource& source, std::size_t hidden);

}  // namespace reprise::models
