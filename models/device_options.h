#pragma once
// How a device is opened (models/device.h).
//
// Threading: a plain value.

#include <cstdint>
#include <limits>

namespace reprise::models {

/// Of DeviceOptions::cpu_experts.
inline constexpr std::uint32_t kAllLayers = std::numeric_limits<std::uint32_t>::max();

struct DeviceOptions {
  unsigned threads = 0;            // of the CPU; 0: one for each core
  std::uint64_t arena_bytes = 0;   // of a GPU; 0: nine tenths of what is free, or of the next
  std::uint64_t memory_bytes = 0;  // of a GPU, as if it had no more; 0: all that is free
  std::uint32_t most_rows = 2048;  // of a prefill step on a GPU
  std::uint32_t cpu_experts = 0;   // of a GPU: layers whose experts stay on the host (models/gpu_plan.h)
};

}  // namespace reprise::models
