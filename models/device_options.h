#pragma once
// Options for opening a device (models/device.h).

#include <cstdint>
#include <limits>

namespace reprise::models {

/// Value of DeviceOptions::cpu_experts: the experts of all layers.
inline constexpr std::uint32_t kAllLayers = std::numeric_limits<std::uint32_t>::max();

struct DeviceOptions {
  unsigned threads = 0;            // CPU; 0: one per core
  std::uint64_t arena_bytes = 0;   // GPU; 0: nine tenths of the free memory, or of memory_bytes if set
  std::uint64_t memory_bytes = 0;  // GPU: limit on the memory used; 0: all that is free
  std::uint32_t max_rows = 2048;   // GPU: maximum rows of a prefill step
  std::uint32_t cpu_experts = 0;   // GPU: number of layers whose experts stay on the host (models/gpu_plan.h)
};

}  // namespace reprise::models
