#include "models/selective_scan_vectors.h"

#include <cmath>

#include "models/checkpoint.h"
#include "models/conv_taps.h"
#include "models/layers/selective_scan_spec.h"
#include "models/weight_tensors.h"

namespace reprise::models {
namespace {

/// -exp(A_log), interleaved in groups of channels.
std::vector<float> load_scan_decays(const Checkpoint& checkpoint, const SelectiveScanSpec& spec) {
  const std::vector<float> logs = load_vector(checkpoint, spec.name + ".A_log");  // [inner, state_size]
  std::vector<float> out(spec.state_numbers());
  for (std::size_t c = 0; c < spec.inner; ++c) {
    const std::size_t group = c / gpu::kLanes * spec.state_size;
    for (std::size_t n = 0; n < spec.state_size; ++n) {
      const double log = logs[c * spec.state_size + n];
      out[(group + n) * gpu::kLanes + c % gpu::kLanes] = static_cast<float>(-std::exp(log));
    }
  }
  return out;
}

}  // namespace

SelectiveScanVectors load_selective_scan_vectors(const Checkpoint& checkpoint,
                                                 const SelectiveScanSpec& spec) {
  SelectiveScanVectors vectors;
  vectors.conv = load_conv_taps(checkpoint, spec.name + ".conv1d.weight");
  if (spec.conv_bias) vectors.conv_bias = load_vector(checkpoint, spec.name + ".conv1d.bias");
  vectors.a = load_scan_decays(checkpoint, spec);
  vectors.skip = load_vector(checkpoint, spec.name + ".D");
  switch (spec.norms) {
    case ScanNorms::kNone:
      break;
    case ScanNorms::kWeightless:
      vectors.dt_norm.assign(spec.step_rank, 1.0F);
      vectors.b_norm.assign(spec.state_size, 1.0F);
      vectors.c_norm.assign(spec.state_size, 1.0F);
      break;
    case ScanNorms::kWeighted:
      vectors.dt_norm = load_vector(checkpoint, spec.name + ".dt_layernorm.weight");
      vectors.b_norm = load_vector(checkpoint, spec.name + ".b_layernorm.weight");
      vectors.c_norm = load_vector(checkpoint, spec.name + ".c_layernorm.weight");
      break;
  }
  return vectors;
}

}  // namespace reprise::models
