#pragma once
// Loads the weights of a causal depthwise convolution in the layout of its kernel.

#include <string>
#include <vector>

namespace reprise::models {

class Checkpoint;

/// Transposes the tensor `name`, [channels, 1, taps], to [taps, channels]. Throws LoadError.
std::vector<float> load_conv_taps(const Checkpoint& checkpoint, const std::string& name);

}  // namespace reprise::models
