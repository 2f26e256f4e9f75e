#pragma once
// Experts of a GPU model that stay on the host: the CPU computes the weighted sum of the chosen experts of a
// layer (models/cpu/moe.cc) from weights packed for its kernels. models/gpu_plan.h says which layers.
//
// Exactness: a row's sum depends bit for bit on that row alone, in both phases: not on other rows, their
// number, or the threads.
//
// Threading: one thread at a time; runs on its own team of threads.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "models/compute_options.h"
#include "models/parts/moe.h"

namespace reprise::models {

class ModelFiles;

/// Output of the router.
struct ChosenRows {
  std::size_t count = 0;
  const std::uint16_t* x = nullptr;       // bf16 [count, width]
  const std::int32_t* experts = nullptr;  // [count, spec.chosen], ascending within a row
  const float* weights = nullptr;         // [count, spec.chosen]
};

class HostExperts {
 public:
  /// `threads` = 0: one per core.
  HostExperts(const ComputeOptions& options, unsigned threads);
  ~HostExperts();
  HostExperts(const HostExperts&) = delete;
  HostExperts& operator=(const HostExperts&) = delete;

  /// Adds a layer's experts and packs their weights, which can take long. `files` must outlive
  /// this. Returns the index to pass to sum(). Throws LoadError, std::bad_alloc.
  std::size_t add(const MoeSpec& spec, const ModelFiles& files);
  std::size_t layers() const;

  /// y = sum over a row's chosen experts of weight * expert(x), f32 [rows.count, width], summed in ascending
  /// order of expert. A zero expert returns x itself.
  void sum(std::size_t layer, const ChosenRows& rows, float* y);

  /// Names the kernels used, as Model::arithmetic() does.
  std::string arithmetic() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace reprise::models
