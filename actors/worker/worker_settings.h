#pragma once
// What a host may say of a device and of the worker that owns it (actors/worker/device_worker.h).
//
// Threading: a plain value.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/worker/batch.h"
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
  std::string device = "cpu";  // a name that models/device.h knows
  models::DeviceOptions device_options{};
  std::uint64_t state_bytes = 1ULL << 30;  // 0: what suits the device
  gpu::BlockMemory* memory = nullptr;      // of that state; none: the device's own. Must outlive the worker.
  std::uint32_t max_sequences = 256;
  std::uint32_t max_waiting = 1024;
  std::uint32_t reply_tokens_priced = 256;  // of a reply, at most; what it needs beyond is found as it goes
  std::uint64_t swap_bytes = 256ULL << 20;
  bool evicts_ahead = true;                  // of need (actors/worker/memory_search.h)
  std::optional<BatchLimits> batch{};        // none: what suits the device
  std::chrono::milliseconds patience{2000};  // how long a sequence that runs alone waits for leased memory
  std::shared_ptr<TestFaults> faults{};      // for tests (actors/worker/testing.h); null: none
  /// In place of the device's loader, by path: for tests. Throws what a loader does.
  std::function<std::unique_ptr<models::Model>(const std::string&)> make_model{};
};

}  // namespace reprise::actors
