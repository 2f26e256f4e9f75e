#pragma once
// The weights of a depthwise convolution over time, as its kernel wants them.
//
// Threading: pure functions.

#include <string>
#include <vector>

namespace reprise::models {

class Checkpoint;

/// From a tensor [channels, 1, taps]: [taps, channels]. Throws LoadError.
std::vector<float> load_conv_taps(const Checkpoint& checkpoint, const std::string& name);

}  // namespace reprise::models
