#include "base/machine_memory.h"

#include <fstream>
#include <string>

namespace reprise {

MachineMemory machine_memory() {
  std::ifstream file("/proc/meminfo");
  MachineMemory memory;
  std::string word;
  std::uint64_t kib = 0;
  while (file >> word) {
    if (word == "MemTotal:" && file >> kib) memory.all = kib * 1024;
    if (word == "MemAvailable:" && file >> kib) memory.available = kib * 1024;
  }
  return memory;
}

}  // namespace reprise
