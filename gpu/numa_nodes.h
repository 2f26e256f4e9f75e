#pragma once
// The memories of a machine with several (NUMA), and the processors that are close to each.
//
// Threading: values. numa_nodes() reads files of the system and may be called from any thread.

#include <filesystem>
#include <string_view>
#include <vector>

namespace reprise::gpu {

/// For each node the numbers of its processors, ascending.
struct NumaNodes {
  std::vector<std::vector<int>> processors;

  std::size_t count() const { return processors.size(); }
};

/// "0-3,8,10-11" as Linux writes it; what is no such list ends it.
std::vector<int> processors_in(std::string_view list);

/// The nodes that this process may compute on: of each the processors that it is allowed to use (taskset, numactl,
/// a container's set), nodes without any left out. None where the system does not say.
NumaNodes numa_nodes(const std::filesystem::path& folder = "/sys/devices/system/node");

/// From now on the calling thread runs on these processors alone. False: the system did not let it.
bool stay_on(const std::vector<int>& processors);

}  // namespace reprise::gpu
