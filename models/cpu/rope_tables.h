#pragma once
// Cosines and sines of a step, one table for each rope that the layers of a model have: those that share a
// RopeConfig share its table.
//
// Threading: filled while a model is loaded; make() by the thread that runs the model.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "models/cpu/step.h"
#include "models/parts/rope.h"

namespace reprise::models {

class RopeTables {
 public:
  /// Index of its table in Step::ropes.
  std::size_t add(const std::shared_ptr<const RopeConfig>& rope);

  /// `positions` are those of the step's rows. The tables live in the step's scratch.
  void make(Step& step, std::span<const std::size_t> positions) const;

 private:
  std::vector<std::shared_ptr<const RopeConfig>> ropes_;
};

}  // namespace reprise::models
