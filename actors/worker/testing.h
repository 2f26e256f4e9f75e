#pragma once
// TestFaults: what a test breaks in a device worker (WorkerSettings::faults). Production has none;
// tools/reliability/faults.h has one.
//
// Threading: both are called on the worker's thread, of each worker that has the settings.

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
  /// While no step is under way, before requests are admitted: may change snapshots.
  virtual void before_round(DeviceState& state) = 0;
  /// Throws what the step is to fail with, holds it up, or changes the states of its sequences in `store`.
  virtual void before_step(const std::string& device, const StepWork& work, gpu::StateStore& store) = 0;
};

}  // namespace reprise::actors
