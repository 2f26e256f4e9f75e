#pragma once
// TestFaults injects faults into a device worker (WorkerSettings::faults). Production has none;
// tools/reliability/faults.h implements it.
//
// Threading: called on the thread of each worker that has the settings.

#include <string>

namespace reprise::gpu {
class StateStore;
}

namespace reprise::actors {

class DeviceState;
struct StepWork;

class TestFaults {
 public:
  virtual ~TestFaults() = default;
  /// Called between steps, before requests are admitted. May change snapshots.
  virtual void before_round(DeviceState& state) = 0;
  /// Called before a step. May throw the error with which the step fails, delay it, or change the states of
  /// its sequences in `store`.
  virtual void before_step(const std::string& device, const StepWork& work, gpu::StateStore& store) = 0;
};

}  // namespace reprise::actors
