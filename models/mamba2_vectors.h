#pragma once
// Small tensors of a Mamba-2 part in the layout of its kernels.

#include <vector>

namespace reprise::models {

class Checkpoint;
struct Mamba2Spec;

struct Mamba2Vectors {
  // [taps, channels]; includes the multipliers of x, B and C, as the convolution is linear
  std::vector<float> conv;
  std::vector<float> conv_bias;  // [channels]; empty: no bias
  std::vector<float> dt_bias;    // [heads]
  std::vector<float> decay;      // [heads]: exp(A_log)
  std::vector<float> skip;       // [heads]
  std::vector<float> norm;       // [inner_size]; empty: no norm
};

/// Throws LoadError.
Mamba2Vectors load_mamba2_vectors(const Checkpoint& checkpoint, const Mamba2Spec& spec);

}  // namespace reprise::models
