#pragma once
// Small tensors of a selective scan in the layout of its kernels.

#include <vector>

namespace reprise::models {

class Checkpoint;
struct SelectiveScanSpec;

struct SelectiveScanVectors {
  std::vector<float> conv;       // [taps, inner]
  std::vector<float> conv_bias;  // [inner]; empty: no bias
  std::vector<float> a;          // -exp(A_log), [groups, state_size, kLanes] (gpu/kernels.h)
  std::vector<float> skip;       // D [inner]
  // Norm weights; all empty: no norms.
  std::vector<float> dt_norm;  // [step_rank]
  std::vector<float> b_norm;   // [state_size]
  std::vector<float> c_norm;   // [state_size]

  bool has_norms() const { return !dt_norm.empty(); }
};

/// Throws LoadError.
SelectiveScanVectors load_selective_scan_vectors(const Checkpoint& checkpoint, const SelectiveScanSpec& spec);

}  // namespace reprise::models
