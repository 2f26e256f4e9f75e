#include "actors/supervised_devices.h"

#include <utility>

namespace reprise::actors {

namespace {

// Resets the figures that an abandoned or ended worker will not update any more.
void forget_what_is_held(WorkerFigures& figures) {
  figures.step_began_ns.store(0, std::memory_order_relaxed);
  for (auto* held : {&figures.sequences, &figures.snapshots, &figures.waiting, &figures.used_bytes}) {
    WorkerFigures::set(*held, 0);
  }
}

}  // namespace

SupervisedDevices::SupervisedDevices(WorkerSettings settings, std::shared_ptr<DeviceMetrics> metrics,
                                     Spawn spawn)
    : settings_(std::move(settings)), metrics_(std::move(metrics)), spawn_(std::move(spawn)) {}

SupervisedDevice& SupervisedDevices::get(const std::string& name) {
  const auto [found, is_new] = devices_.try_emplace(name);
  SupervisedDevice& device = found->second;
  if (is_new) {
    device.name = name;
    device.figures = metrics_->of(name);
    spawn_worker(device);
  }
  return device;
}

SupervisedDevice* SupervisedDevices::find(const std::string& name) {
  const auto found = devices_.find(name);
  return found == devices_.end() ? nullptr : &found->second;
}

SupervisedDevice* SupervisedDevices::with_worker(runtime::ActorId worker) {
  for (auto& [name, device] : devices_) {
    if (device.worker.id() == worker) return &device;
  }
  return nullptr;
}

void SupervisedDevices::spawn_worker(SupervisedDevice& device) {
  WorkerOptions options{settings_};
  options.device = device.name;
  options.figures = device.figures;
  device.worker = spawn_(std::move(options));
}

void SupervisedDevices::replace_worker(SupervisedDevice& device) {
  device.worker.stop();
  forget_what_is_held(*device.figures);
  device.steps.forget();
  spawn_worker(device);
}

std::string SupervisedDevices::hang_of(SupervisedDevice& device, const StepPatience& patience,
                                       std::chrono::nanoseconds now) {
  device.steps.look(device.figures->step_began_ns.load(std::memory_order_relaxed), now);
  if (!device.steps.hangs(patience)) return {};
  const auto seen = std::chrono::duration_cast<std::chrono::milliseconds>(device.steps.seen());
  return "the device hangs: the running step has taken " + std::to_string(seen.count()) + " ms";
}

}  // namespace reprise::actors
