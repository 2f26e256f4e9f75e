#include "models/compaction.h"

#include <algorithm>

namespace reprise::models {

std::string why_not_compacted(std::span<const LayerSpec> layers) {
  if (!parts_of<MlaSpec>(layers).empty()) {
    return "its latent attention (MLA) keeps one latent per token for all heads, so no KV entries can be "
           "left out";
  }
  const auto attention = parts_of<AttentionSpec>(layers);
  const bool chooses = std::any_of(attention.begin(), attention.end(),
                                   [](const AttentionSpec* spec) { return spec->window == 0; });
  return chooses ? "" : "it has no layer of attention that keeps all tokens";
}

}  // namespace reprise::models
