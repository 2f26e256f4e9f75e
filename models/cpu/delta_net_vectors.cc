#include "models/cpu/delta_net_vectors.h"

#include <cmath>

#include "models/checkpoint.h"
#include "models/cpu/linear.h"

namespace reprise::models {

DeltaNetVectors load_delta_net_vectors(const Checkpoint& checkpoint, const std::string& prefix) {
  const LinearAttentionConfig& config = checkpoint.config().linear;
  DeltaNetVectors vectors{.conv = {},
                          .decay = load_vector(checkpoint, prefix + ".A_log"),
                          .dt_bias = load_vector(checkpoint, prefix + ".dt_bias"),
                          .norm = load_vector(checkpoint, prefix + ".norm.weight")};
  for (float& decay : vectors.decay) decay = static_cast<float>(std::exp(static_cast<double>(decay)));
  const std::vector<float> stored =
      load_vector(checkpoint, prefix + ".conv1d.weight");  // [channels, 1, taps]
  vectors.conv.resize(stored.size());
  for (std::size_t c = 0; c < config.conv_channels; ++c) {
    for (std::size_t j = 0; j < config.conv_kernel; ++j) {
      vectors.conv[j * config.conv_channels + c] = stored[c * config.conv_kernel + j];
    }
  }
  return vectors;
}

}  // namespace reprise::models
