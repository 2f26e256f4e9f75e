#pragma once
// Tensors of a checkpoint as weights in their formats, and small ones as plain numbers.
//
// Threading: pure functions.

#include <memory>
#include <string>
#include <vector>

#include "gpu/weight.h"

namespace reprise::models {

class Checkpoint;
struct Tensor;

/// A tensor as a weight: its last dimension are the columns, all others rows.
gpu::WeightView view_of(const Tensor& tensor);

/// Who holds its bytes and scales; null: the checkpoint does.
std::shared_ptr<const void> owner_of(const Tensor& tensor);

/// A tensor of few elements, as f32.
std::vector<float> load_vector(const Checkpoint& checkpoint, const std::string& name);

/// The weights of a depthwise convolution over time, as its kernel wants them: from a tensor [channels, 1, taps], [taps,
/// channels]. Throws LoadError.
std::vector<float> load_conv_taps(const Checkpoint& checkpoint, const std::string& name);

}  // namespace reprise::models
