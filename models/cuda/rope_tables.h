#pragma once
// Cosines and sines of a step on the GPU, one table for each rope that the layers of a model have: those that
// share a RopeConfig share its table.
//
// Threading: filled while a model is loaded; the rest by the thread that runs the model.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gpu/cuda/attention.h"
#include "models/cuda/step.h"
#include "models/cuda/weights.h"
#include "models/parts/rope.h"

namespace reprise::models::cuda {

class RopeTables {
 public:
  /// Index of its table in CudaStep::ropes.
  std::size_t add(const std::shared_ptr<const RopeConfig>& rope, WeightStore& weights);

  /// Bytes that take() needs.
  std::size_t workspace(int rows) const;
  /// Room for the tables of a step, which make() fills.
  std::vector<RopeTable> take(Workspace& workspace, int rows) const;
  /// Those from `first` on.
  void make(const gc::Batch& batch, std::span<const RopeTable> tables, std::size_t first,
            gc::StreamHandle stream) const;
  /// What another kernel makes the table `index` from; nothing where there is no such rope.
  gc::RopeRows rows_of(const gc::Batch& batch, std::span<const RopeTable> tables, std::size_t index) const;

 private:
  struct Rope {
    std::shared_ptr<const RopeConfig> config;
    const float* inv_freq;  // [pairs], on the GPU
    std::size_t pairs() const { return config->inv_freq.size(); }
  };
  std::vector<Rope> ropes_;
};

}  // namespace reprise::models::cuda
