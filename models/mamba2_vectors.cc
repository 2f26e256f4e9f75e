#include "models/mamba2_vectors.h"

#include <cmath>

#include "models/checkpoint.h"
#include "models/conv_taps.h"
#include "models/layers/mamba2_spec.h"
#include "models/weight_tensors.h"

namespace reprise::models {
namespace {

/// Taps [taps, channels] with the multipliers of x, B and C folded in.
std::vector<float> multiplied_taps(const Checkpoint& checkpoint, const Mamba2Spec& spec) {
  std::vector<float> taps = load_conv_taps(checkpoint, spec.name + ".conv1d.weight");
  const std::size_t bs = spec.inner_size();
  const std::size_t cs = bs + spec.groups * spec.state_size;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const std::size_t channel = i % spec.conv_channels();
    taps[i] *= channel < bs ? spec.multipliers.x : channel < cs ? spec.multipliers.b : spec.multipliers.c;
  }
  return taps;
}

}  // namespace

Mamba2Vectors load_mamba2_vectors(const Checkpoint& checkpoint, const Mamba2Spec& spec) {
  Mamba2Vectors vectors;
  vectors.conv = multiplied_taps(checkpoint, spec);
  if (spec.conv_bias) vectors.conv_bias = load_vector(checkpoint, spec.name + ".conv1d.bias");
  vectors.dt_bias = load_vector(checkpoint, spec.name + ".dt_bias");
  vectors.decay = load_vector(checkpoint, spec.name + ".A_log");
  for (float& decay : vectors.decay) decay = static_cast<float>(std::exp(static_cast<double>(decay)));
  vectors.skip = load_vector(checkpoint, spec.name + ".D");
  if (spec.has_norm()) vectors.norm = load_vector(checkpoint, spec.name + ".norm.weight");
  return vectors;
}

}  // namespace reprise::models
