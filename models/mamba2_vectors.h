#pragma once
// The small tensors of a Mamba-2 part, as its kernels want them.
//
// Threading: plain values.

#include <vector>

namespace reprise::models {

class Checkpoint;
struct Mamba2Spec;

struct Mamba2Vectors {
  std::vector<float> conv;       // [taps, channels], with the multipliers of x, B and C: it is linear in them
  std::vector<float> conv_bias;  // [channels]; empty: there is none
  std::vector<float> dt_bias;    // [heads]
  std::vector<float> decay;      // [heads]: exp(A_log)
  std::vector<float> skip;       // [heads]
  std::vector<float> norm;       // [inner_size]; empty: there is none
};

/// Throws LoadError.
Mamba2Vectors load_mamba2_vectors(const Checkpoint& checkpoint, const Mamba2Spec& spec);

}  // namespace reprise::models
