#pragma once
// The small tensors of a selective scan, as its kernels want them.
//
// Threading: plain values.

#include <vector>

namespace reprise::models {

class Checkpoint;
struct SelectiveScanSpec;

struct SelectiveScanVectors {
  std::vector<float> conv;       // [taps, inner]
  std::vector<float> conv_bias;  // [inner]; empty: there is none
  std::vector<float> a;          // -exp(A_log), as gpu/kernels.h has it: [groups, state_size, kLanes]
  std::vector<float> skip;       // D [inner]
  // Weights of the norms; all empty: there are none.
  std::vector<float> dt_norm;  // [step_rank]
  std::vector<float> b_norm;   // [state_size]
  std::vector<float> c_norm;   // [state_size]

  bool has_norms() const { return !dt_norm.empty(); }
};

/// Throws LoadError.
SelectiveScanVectors load_selective_scan_vectors(const Checkpoint& checkpoint, const SelectiveScanSpec& spec);

}  // namespace reprise::models
