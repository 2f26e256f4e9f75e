#pragma once
// Keys that nearly every family reads: sizes of the whole model, and what its layers have in common.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include <optional>
#include <string_view>

#include "models/arch/config.h"
#include "models/arch/config_source.h"

namespace reprise::models {

/// What families differ in.
struct ModelSizeKeys {
  std::string_view embedding = "embed_tokens";  // its name in Hugging Face's files, without ".weight"
  std::optional<std::size_t> context{};         // where the source has no such key; none: it must
  bool hf_tied = false;                         // where config.json does not say
};

/// A ModelConfig with hidden, vocab, context_length and, where the two are tied, the embedding as its head.
ModelConfig read_model_sizes(const ConfigSource& source, const ModelSizeKeys& keys = {});

/// Layers of the text model; blocks for multi-token prediction, which GGUF counts in, are not ours.
std::size_t read_layer_count(const ConfigSource& source);

/// Hugging Face's default is `hf_default`; GGUF files have no default.
float read_rms_eps(const ConfigSource& source, std::string_view hf_key = "rms_norm_eps",
                   double hf_default = 1e-6);

/// Feed-forward parts have no other activation.
void require_silu(const ConfigSource& source);

/// Of a model whose feed-forward parts are all dense.
void refuse_experts(const ConfigSource& source);

/// Of every layer that has no experts; without its name.
SwiGluSpec read_swiglu(const ConfigSource& source, std::size_t hidden);

}  // namespace reprise::models
