#pragma once
// What a host says of its engine.
//
// Threading: a plain value; its functions are called from any thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/cache/cache_settings.h"
#include "actors/served/model_spec.h"
#include "actors/tiers/tier_settings.h"
#include "actors/worker/worker_settings.h"

namespace reprise::actors {

struct EngineOptions {
  std::vector<ModelSpec> models{};
  WorkerSettings worker{};  // of every device; its `device` is where models go that name none
  std::string
      adapter_folder{};  // where those lie that clients of the server may have loaded by path; empty: none
  bool cache = true;
  RegistrySettings registry{};
  HostTierSettings host{};  // snapshots beside those in the devices' own memory; its `log`, too
  DiskTierSettings disk{};  // snapshots that outlast the process; its `log` is the engine's where it has none
  RemoteTierSettings remote{};  // snapshots that servers share; its `log`, too
  RequestRules requests{};
  std::uint32_t most_requests = 1024;
  std::uint32_t most_idle = 4;  // requests that do idle work
  std::chrono::milliseconds longest_step{
      120'000};                    // at least; large models may take longer (worker_figures.h)
  std::uint32_t most_reloads = 3;  // of a model, within reload_window
  std::chrono::minutes reload_window{10};
  std::function<void(const std::string&)> log{};        // may be empty; called from any thread
  std::function<void(const std::string&)> log_error{};  // what somebody has to mend; empty: `log`
  /// The device cannot be used again in this process: its requests have been told, its models have failed.
  /// May be empty; a server ends itself here, for its service manager to start it anew.
  std::function<void(const std::string& why)> device_lost{};
};

}  // namespace reprise::actors
