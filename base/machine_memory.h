#pragma once
// How much memory the machine can give.
//
// Threading: any thread; it reads a file of the system at every call.

#include <cstdint>

namespace reprise {

/// In bytes. Available is what programs may still take, pages of files that can be read again included.
struct MachineMemory {
  std::uint64_t all = 0;
  std::uint64_t available = 0;
};

/// Zeros where the system does not say.
MachineMemory machine_memory();

inline std::uint64_t available_memory() {
  return machine_memory().available;
}

}  // namespace reprise
