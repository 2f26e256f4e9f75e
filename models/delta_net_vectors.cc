#include "models/delta_net_vectors.h"

#include <cmath>

#include "models/checkpoint.h"
#include "models/layers/delta_net_spec.h"
#include "models/weight_tensors.h"

namespace reprise::models {

DeltaNetVectors load_delta_net_vectors(const Checkpoint& checkpoint, const DeltaNetSpec& spec) {
  const std::size_t channels = spec.conv_channels();
  DeltaNetVectors vectors{.conv = {},
                          .decay = load_vector(checkpoint, spec.name + ".A_log"),
                          .dt_bias = load_vector(checkpoint, spec.name + ".dt_bias"),
                          .norm = load_vector(checkpoint, spec.name + ".norm.weight")};
  for (float& decay : vectors.decay) decay = static_cast<float>(std::exp(static_cast<double>(decay)));
  const std::vector<float> stored =
      load_vector(checkpoint, spec.name + ".conv1d.weight");  // [channels, 1, taps]
  vectors.conv.resize(stored.size());
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t j = 0; j < spec.conv_kernel; ++j) {
      vectors.conv[j * channels + c] = stored[c * spec.conv_kernel + j];
    }
  }
  return vectors;
}

}  // namespace reprise::models
