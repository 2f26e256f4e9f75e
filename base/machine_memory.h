#pragma once
// Size of the machine's memory. Each call reads a system file.

#include <cstdint>

namespace reprise {

/// In bytes. `available` includes reclaimable page cache.
struct MachineMemory {
  std::uint64_t all = 0;
  std::uint64_t available = 0;
};

/// Returns zeros if the system does not report it.
MachineMemory machine_memory();

inline std::uint64_t available_memory() {
  return machine_memory().available;
}

}  // namespace reprise
