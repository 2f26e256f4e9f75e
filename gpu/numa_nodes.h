#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace reprise::gpu {

/// Processor numbers by NUMA node, ascending.
struct NumaNodes {
  std::vector<std::vector<int>> processors;

  std::size_t count() const { return processors.size(); }
};

/// Parses a Linux CPU list such as "0-3,8,10-11", up to the first malformed entry.
std::vector<int> processors_in(std::string_view list);

/// Returns the nodes and processors that this process may use (taskset, numactl, cpuset). Empty if the system
/// does not report nodes. Reads system files; thread-safe.
NumaNodes numa_nodes(const std::filesystem::path& folder = "/sys/devices/system/node");

/// Pins the calling thread to these processors. Returns false if the system refuses.
bool stay_on(const std::vector<int>& processors);

}  // namespace reprise::gpu
