#pragma once
// A linear layer over the rows of a step: y = x W^T + bias, in the step's compute setting.
//
// Threading: as Step.

#include <cstddef>
#include <memory>
#include <vector>

#include "gpu/matrix.h"
#include "models/cpu/step.h"

namespace reprise::models {

class Checkpoint;
struct Tensor;

class Linear {
 public:
  Linear() = default;
  /// `name` without its ".weight". A ".bias" beside it is taken where the checkpoint has one.
  Linear(const Checkpoint& checkpoint, const std::string& name);

  std::size_t inputs() const { return weight_.columns; }
  std::size_t outputs() const { return weight_.rows; }
  const gpu::Matrix& weight() const { return weight_; }

  /// x [rows, inputs] -> y [rows, outputs]
  void apply(Step& step, const float* x, std::size_t rows, float* y) const;

 private:
  gpu::Matrix weight_;
  std::vector<float> bias_;            // empty: none
  std::shared_ptr<const void> owner_;  // of the bytes, where they are not the checkpoint's
};

/// A tensor as a matrix: its last dimension are the columns.
gpu::Matrix view_of(const Tensor& tensor);

/// A tensor of few elements, as f32.
std::vector<float> load_vector(const Checkpoint& checkpoint, const std::string& name);

}  // namespace reprise::models
