#pragma once
// Accessors for the parts of a described model.

#include <stdexcept>

#include "models/arch/config.h"
#include "models/files/json_location.h"

namespace reprise::models {

/// Describes the model of a config.json's text.
inline ModelConfig from_hf(const std::string& text) {
  return ModelConfig::from_hf(JsonLocation::parse(text, "config.json"));
}

template <class Spec>
Spec first_part(const ModelConfig& config) {
  const auto parts = parts_of<Spec>(config.layers);
  if (parts.empty()) throw std::logic_error("the model has no such part");
  return *parts.front();
}

inline AttentionSpec attention_of(const ModelConfig& config) {
  return first_part<AttentionSpec>(config);
}
inline GatedDeltaNetSpec gated_delta_net_of(const ModelConfig& config) {
  return first_part<GatedDeltaNetSpec>(config);
}
inline RopeConfig rope_of(const ModelConfig& config) {
  return *attention_of(config).rope;
}

inline std::size_t attentions(const ModelConfig& config) {
  return parts_of<AttentionSpec>(config.layers).size();
}
inline std::size_t gated_delta_nets(const ModelConfig& config) {
  return parts_of<GatedDeltaNetSpec>(config.layers).size();
}
inline bool attends(const LayerSpec& layer) {
  return !parts_of<AttentionSpec>({&layer, 1}).empty();
}

}  // namespace reprise::models
