#pragma once
// Settings of a device and of the worker that owns it (actors/device/device_worker.h).

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/device/batch.h"
#include "models/device_options.h"

namespace reprise::gpu {
class BlockMemory;
}
namespace reprise::models {
class Model;
}

namespace reprise::actors {

class TestFaults;

struct WorkerSettings {
  std::string device = "cpu";  // a name known to models/device.h
  models::DeviceOptions device_options{};
  std::uint64_t state_bytes = 1ULL << 30;  // bytes for states and snapshots; 0: chosen by the device
  gpu::BlockMemory* memory = nullptr;      // memory for it; null: the device's. Must outlive the worker.
  std::uint32_t max_sequences = 256;
  std::uint32_t max_waiting = 1024;
  std::uint32_t reply_tokens_reserved = 256;  // reply tokens reserved at admission
  /// Host memory for states of preempted sequences; nullopt: swap_limit() of the memory available when it is first
  /// needed (actors/device/memory_reclaimer.h).
  std::optional<std::uint64_t> swap_bytes{};
  bool evicts_ahead = true;                  // free memory ahead of need (actors/device/memory_reclaimer.h)
  std::optional<BatchLimits> batch{};        // nullopt: chosen by the device
  std::chrono::milliseconds patience{2000};  // how long jobs wait for memory when nothing runs
  std::shared_ptr<TestFaults> faults{};      // injected faults (actors/device/testing.h); null: none
  /// Replaces the loader of models by path in tests. Throws like the loader.
  std::function<std::unique_ptr<models::Model>(const std::string&)> make_model{};
};

}  // namespace reprise::actors
