#include "models/delta_net_vectors.h"

#include <cmath>

#include "models/checkpoint.h"
#include "models/conv_taps.h"
#include "models/parts/gated_delta_net.h"
#include "models/weight_tensors.h"

namespace reprise::models {

DeltaNetVectors load_delta_net_vectors(const Checkpoint& checkpoint, const DeltaNetSpec& spec) {
  DeltaNetVectors vectors{.conv = load_conv_taps(checkpoint, spec.name + ".conv1d.weight"),
                          .decay = load_vector(checkpoint, spec.name + ".A_log"),
                          .dt_bias = load_vector(checkpoint, spec.name + ".dt_bias"),
                          .norm = load_vector(checkpoint, spec.name + ".norm.weight")};
  for (float& decay : vectors.decay) decay = static_cast<float>(std::exp(static_cast<double>(decay)));
  return vectors;
}

}  // namespace reprise::models
