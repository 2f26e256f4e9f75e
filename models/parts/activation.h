#pragma once
// The functions that feed-forward parts have between their matrices.
//
// Threading: plain values.

#include <cstdint>

namespace reprise::models {

enum class Activation : std::uint8_t {
  kSilu,  // x sigmoid(x)
  kGelu,  // in its tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
};

}  // namespace reprise::models
