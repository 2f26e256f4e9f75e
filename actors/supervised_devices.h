#pragma once
// SupervisedDevices: the devices that models are loaded onto, each with one worker.
//
// A worker is spawned when its device is first named, and replaced when it hangs or has ended. A device that
// this process cannot use again is marked as lost by the caller. Which models are affected, and who is told,
// is decided by the ModelSupervisor.
//
// Threading: SupervisedDevices on the supervisor's thread; DeviceMetrics on any.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "actors/device/device_worker.h"
#include "actors/device/worker_figures.h"
#include "runtime/actor.h"

namespace reprise::actors {

/// The figures of all devices, readable without asking an actor. A device's figures live as long as the
/// engine, across workers. Any thread; a short lock around a map of pointers.
class DeviceMetrics {
 public:
  using Figures = std::shared_ptr<WorkerFigures>;

  /// Returns the figures of the device with that name (models/device.h), creating them at the first call.
  Figures of(const std::string& device) {
    const std::lock_guard lock(mutex_);
    Figures& figures = devices_[device];
    if (!figures) figures = std::make_shared<WorkerFigures>();
    return figures;
  }

  std::map<std::string, Figures> all() const {
    const std::lock_guard lock(mutex_);
    return devices_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Figures> devices_;
};

struct SupervisedDevice {
  std::string name;
  runtime::RefOf<DeviceWorker> worker;
  DeviceMetrics::Figures figures;
  StepWatch steps{};  // the current worker's
  bool lost = false;  // unusable in this process

  bool is_gpu() const { return name.starts_with("cuda"); }
};

class SupervisedDevices {
 public:
  using Spawn = std::function<runtime::RefOf<DeviceWorker>(WorkerOptions)>;
  using Devices = std::map<std::string, SupervisedDevice>;

  /// `spawn` starts a worker and names its supervisor; the other options are set.
  SupervisedDevices(WorkerSettings settings, std::shared_ptr<DeviceMetrics> metrics, Spawn spawn);

  /// Returns the device of that name, with its worker; never removed. Requires: a name that
  /// models::Device::resolve() returned.
  SupervisedDevice& get(const std::string& name);
  /// Return null if there is none.
  SupervisedDevice* find(const std::string& name);
  SupervisedDevice* with_worker(runtime::ActorId worker);
  Devices& all() { return devices_; }

  /// Abandons the worker, which will not update its figures any more, and spawns another.
  void replace_worker(SupervisedDevice& device);
  /// Observes the step that runs `now`. Returns why the device counts as hung; empty: it does not.
  static std::string hang_of(SupervisedDevice& device, const StepPatience& patience,
                             std::chrono::nanoseconds now);

 private:
  void spawn_worker(SupervisedDevice& device);

  const WorkerSettings settings_;
  const std::shared_ptr<DeviceMetrics> metrics_;
  const Spawn spawn_;
  Devices devices_;
};

}  // namespace reprise::actors
