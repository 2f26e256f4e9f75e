#pragma once
// Runs one step of a loaded model: the forward pass over a batch. Where the model's rules say so, on a thread of
// its own while the worker goes on, else on the worker's; and prefill slices and decode rows together, or one
// after the other.
//
// Threading: start() on the worker's thread, one step at a time; `done` is called once for each, on whichever
// thread computed. Between the two, the sequences of the step belong to the runner.

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/model.h"

namespace reprise::actors {

struct StepWork {
  std::vector<models::Slice> prefills{};
  models::DecodePass decodes{};
  // Filled in, like what is filled in of `decodes`: a row of logits for each slice that asked, in order;
  // valid until the next step.
  std::span<const float> prefill_logits{};
  std::exception_ptr failure{};
};

class StepRunner {
 public:
  static std::unique_ptr<StepRunner> make(std::unique_ptr<models::Model> model);

  virtual ~StepRunner() = default;
  virtual const models::Model& model() const = 0;
  /// To be changed, on the worker's thread, while no step is under way.
  virtual models::Model& idle_model() = 0;
  virtual void start(StepWork& work, std::function<void()> done) = 0;
};

}  // namespace reprise::actors
