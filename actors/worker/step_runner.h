#pragma once
// Runs one step of a loaded model: the forward pass over a batch. Two kinds:
//
//   where decoding is prefilling   on the worker's own thread; prefill slices and decode rows together, for
//                                  their bits do not depend on it;
//   elsewhere                      on a thread of its own, while the worker goes on; prefill slices first,
//                                  then decode rows, apart.
//
// Threading: start() on the worker's thread, one step at a time; `done` is called once for each, on whichever
// thread computed. Between the two, the sequences of the step belong to the runner.

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "actors/worker/device_rules.h"
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
  virtual void start(StepWork& work, std::function<void()> done) = 0;

  DeviceRules rules() const {
    return {.grid = model().grid(), .decode_is_prefill = model().decode_is_prefill()};
  }
};

}  // namespace reprise::actors
