#pragma once
// Processors and memory that this process may use: the machine's, or less if its control groups (version 1 or
// 2, as containers set them) limit it. Each call reads system files. Thread-safe.

#include <cstdint>
#include <filesystem>

namespace reprise {

/// Sizes in bytes.
struct MachineMemory {
  std::uint64_t all = 0;
  std::uint64_t available = 0;  // includes reclaimable page cache
};

/// Returns zeros if the system does not report it. `root` replaces "/" in tests.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

inline std::uint64_t available_memory() {
  return machine_memory().available;
}

/// Returns the number of processors in the process's affinity mask, or its CPU quota rounded up if that is
/// less; at least 1. Does not change while the process runs, unless the mask or the quota changes.
unsigned available_processors(const std::filesystem::path& root = "/");

}  // namespace reprise
