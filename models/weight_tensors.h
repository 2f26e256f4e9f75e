#pragma once
// Converts tensors of model files to weight views, and small tensors to f32.

#include <memory>
#include <string>
#include <vector>

#include "gpu/weights/weight.h"

namespace reprise::models {

class ModelFiles;
struct Tensor;

/// Views a tensor as a weight matrix: the last dimension is columns, all others are rows.
gpu::WeightView view_of(const Tensor& tensor);

/// Owner of the tensor's bytes and scales; null: the model files own them.
std::shared_ptr<const void> owner_of(const Tensor& tensor);

/// A small tensor as f32.
std::vector<float> load_vector(const ModelFiles& files, const std::string& name);

/// The weights of a causal depthwise convolution in the layout of its kernel: transposes the tensor `name`,
/// [channels, 1, taps], to [taps, channels]. Throws LoadError.
std::vector<float> load_conv_taps(const ModelFiles& files, const std::string& name);

}  // namespace reprise::models
