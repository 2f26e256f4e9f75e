#pragma once
// The options of an engine. Its functions are called from any thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/cache/cache_settings.h"
#include "actors/device/worker_settings.h"
#include "actors/models/model_spec.h"
#include "actors/tiers/tier_settings.h"

namespace reprise::actors {

struct EngineOptions {
  std::vector<ModelSpec> models{};
  WorkerSettings worker{};       // for every device; `device` is the models' default
  std::string adapter_folder{};  // folder of the adapters that clients may load; empty: none
  bool cache = true;
  RegistrySettings registry{};
  HostTierSettings host{};      // snapshots in host memory, for devices with their own
  DiskTierSettings disk{};      // snapshots that outlast the process; `log` defaults to the engine's
  RemoteTierSettings remote{};  // snapshots shared by servers
  RequestRules requests{};
  std::uint32_t max_requests = 1024;
  std::uint32_t max_idle = 4;                   // requests doing idle work
  std::chrono::milliseconds max_step{120'000};  // minimum of the hang limit (StepWatch)
  std::uint32_t max_reloads = 3;                // per model, within reload_window
  std::chrono::minutes reload_window{10};
  std::function<void(const std::string&)> log{};        // may be empty; called from any thread
  std::function<void(const std::string&)> log_error{};  // errors that need an operator; empty: `log`
  /// Called when this process cannot use a device any more, after its requests were told and its models have
  /// failed. May be empty; a server exits here so that its service manager restarts it.
  std::function<void(const std::string& why)> device_lost{};
};

}  // namespace reprise::actors
