#pragma once
// Experts that do not fit a GPU, on the host: for a model whose other parts are on the GPU, the CPU computes the sum of
// what the chosen experts of a layer make of their rows (models/cpu/moe.cc), out of weights in the form that its own
// kernels read. Which layers' they are, models/gpu_plan.h says.
//
// Exactness: a row's sum depends on that row alone, bit for bit, in both phases: not on the other rows, their number, or
// the threads.
//
// Threading: one thread at a time; inside, on a team of threads of its own.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "models/compute_options.h"
#include "models/parts/moe.h"

namespace reprise::models {

class Checkpoint;

/// Rows as a router left them.
struct ChosenRows {
  std::size_t count = 0;
  const std::uint16_t* x = nullptr;       // bf16 [count, width]
  const std::int32_t* experts = nullptr;  // [count, spec.chosen], ascending in a row
  const float* weights = nullptr;         // [count, spec.chosen]
};

class HostExperts {
 public:
  /// `threads`: 0: one for each core.
  HostExperts(const ComputeOptions& options, unsigned threads);
  ~HostExperts();
  HostExperts(const HostExperts&) = delete;
  HostExperts& operator=(const HostExperts&) = delete;

  /// Takes in a layer's experts and brings their weights into order, which takes its time. The checkpoint's files must
  /// outlive it. Gives the number that sum() knows the layer by. Throws LoadError, std::bad_alloc.
  std::size_t add(const MoeSpec& spec, const Checkpoint& checkpoint);
  std::size_t layers() const;

  /// y f32 [rows.count, width]: of each row the sum of weight * expert(x), in ascending order of the experts; that of a
  /// zero expert is x itself.
  void sum(std::size_t layer, const ChosenRows& rows, float* y);

  /// Names the kernels.
  std::string arithmetic() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace reprise::models
