#pragma once
// FaultInjection: breaks things on purpose, for tests of what follows.
//
// Threading: the device worker's thread.

#include <optional>

#include "actors/worker/device_state.h"
#include "actors/worker/step_runner.h"

namespace reprise::actors {

class FaultInjection {
 public:
  /// Damage is done at once; all else in a step to come.
  void inject(const protocol::InjectFault& fault, DeviceState& state);
  /// Throws what the step is to fail with, or does to its sequences what is to be done.
  void before_step(const StepWork& work, gpu::StateStore& store);

 private:
  std::optional<protocol::InjectFault> fault_;
};

}  // namespace reprise::actors
