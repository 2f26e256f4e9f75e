#pragma once
// Small tensors of a Gated DeltaNet layer in the layout of its kernels.

#include <vector>

namespace reprise::models {

class Checkpoint;
struct DeltaNetSpec;

struct DeltaNetVectors {
  std::vector<float> conv;     // [taps, channels]
  std::vector<float> decay;    // [value_heads]: exp(A_log)
  std::vector<float> dt_bias;  // [value_heads]
  std::vector<float> norm;     // [value_head_dim]
};

/// Loads conv1d, A_log, dt_bias and norm of the layer. Throws LoadError.
DeltaNetVectors load_delta_net_vectors(const Checkpoint& checkpoint, const DeltaNetSpec& spec);

}  // namespace reprise::models
