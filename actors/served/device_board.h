#pragma once
// DeviceBoard: the figures of every device that models were brought onto, for everybody to read without asking.
// A device keeps its figures for as long as the engine lives, whoever works on it.
//
// Threading: any thread; a short lock around a map of pointers.

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "actors/worker/worker_figures.h"

namespace reprise::actors {

class DeviceBoard {
 public:
  using Figures = std::shared_ptr<WorkerFigures>;

  /// By the name that models/device.h gives it; made at the first asking.
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

}  // namespace reprise::actors
