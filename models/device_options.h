#pragma once
// How a device is opened (models/device.h).
//
// Threading: a plain value.

#include <cstdint>

namespace reprise::models {

struct DeviceOptions {
  unsigned threads = 0;            // of the CPU; 0: one for each core
  std::uint64_t arena_bytes = 0;   // of a GPU; 0: nine tenths of what is free, or of the next
  std::uint64_t memory_bytes = 0;  // of a GPU, as if it had no more; 0: all that is free
  std::uint32_t most_rows = 2048;  // of a prefill step on a GPU
};

}  // namespace reprise::models
