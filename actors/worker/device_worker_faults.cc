// What happens when a step, or anything else on the device, fails.

#include "actors/worker/device_worker.h"
#include "gpu/devices.h"

namespace reprise::actors {

using protocol::JobError;
using protocol::JobFault;

void DeviceWorker::fail_arch(LoadedArch& arch, const std::string& why, bool device_lost) {
  WorkerFigures::add(figures_->faults);
  arch.fail(JobError{JobFault::kDeviceFailed, "the device failed: " + why});
  memory_.memory_changed();
  if (options_.supervisor) {
    options_.supervisor.tell(protocol::ArchFailed{
        .arch = arch.id(), .device = options_.device, .why = why, .device_lost = device_lost});
  }
}

bool DeviceWorker::survives(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const gpu::DeviceLost& error) {
    broken_ = Broken{error.what(), true};
  } catch (const std::exception& error) {
    broken_ = Broken{error.what(), false};
  }
  if (!step_runs_) fail_all();  // else when it has ended: its sequences are the runner's
  return false;
}

void DeviceWorker::fail_all() {
  const Broken broken = *std::exchange(broken_, std::nullopt);
  figures_->step_began_ns.store(0, std::memory_order_relaxed);
  for (const auto& arch : archs_) {
    for (auto& [number, run] : arch->sequences()) run.in_step = false;
    if (!arch->failed()) fail_arch(*arch, broken.why, broken.device_lost);
  }
  if (step_.table() != nullptr) {
    clear_step();
  } else {
    kick();
  }
}

}  // namespace reprise::actors
