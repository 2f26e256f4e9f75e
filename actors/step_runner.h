#pragma once
// Runs one step of a loaded model: the forward pass over a batch. Two kinds:
//
//   inline   on the worker's own thread; prefill slices and decode rows together, for on the CPU their bits
//   do
//            not depend on it.
//   grid     under a GPU's rules, on CPU kernels: a thread of its own computes while the worker goes on,
//   prefill
//            slices begin on the grid of 64 tokens and end there or with their prompt, and decode rows are
//            computed apart, with other code and other bits.
//
// Threading: start() on the worker's thread, one step at a time; `done` is called once for each, on whichever
// thread computed. Between the two, the sequences of the step belong to the runner.

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/model.h"

namespace reprise::actors {

struct StepWork {
  std::vector<models::Slice> prefills;
  std::vector<models::Slice> decodes;
  // Filled in: a row of logits for each slice that asked, in order; valid until the next step.
  std::span<const float> prefill_logits{};
  std::span<const float> decode_logits{};
  std::exception_ptr failure{};
};

/// What a device is, apart from its speed.
struct DeviceRules {
  std::uint32_t grid = 1;
  bool decode_is_prefill =
      true;  // the same bits: decoded states are canonical, and lost ones can be recomputed
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual const models::Model& model() const = 0;
  virtual DeviceRules rules() const = 0;
  virtual void start(StepWork& work, std::function<void()> done) = 0;

  /// Throws models::LoadError.
  static std::unique_ptr<StepRunner> make_inline(const std::string& path,
                                                 const models::ComputeOptions& options,
                                                 gpu::Threads& threads);
  static std::unique_ptr<StepRunner> make_grid(const std::string& path, const models::ComputeOptions& options,
                                               gpu::Threads& threads);
};

}  // namespace reprise::actors
