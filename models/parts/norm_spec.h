#pragma once
// A norm over rows, as a model describes it: y = x / rms(x) * (offset + weight); or, centred, LayerNorm:
// y = (x - mean(x)) / deviation(x) * weight + bias.
//
// Threading: plain values.

#include <cstddef>
#include <string>

namespace reprise::models {

/// What the norms of a model have in common.
struct NormKind {
  float offset = 0;  // 1 where weights are zero-centred
  float eps = 1e-6F;
  bool centred = false;  // has a bias, and no offset

  bool operator==(const NormKind&) const = default;
};

struct NormSpec {
  std::string name{};    // of its weight [size], without ".weight"; centred, its ".bias" stands beside it
  std::size_t size = 0;  // of a row
  NormKind kind{};

  bool operator==(const NormSpec&) const = default;
};

}  // namespace reprise::models
