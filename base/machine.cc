#include "base/machine.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // no such file, or "max"
}

/// The value after `key` in a file of "key value" lines.
std::uint64_t value_of(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  std::string word;
  std::uint64_t value = 0;
  while (in >> word >> value) {
    if (word == key) return value;
  }
  return 0;
}

/// The directories of the process's control group for `controller` and of those above it. Limits of all of
/// them apply. In a container without a cgroup namespace the group's path may not exist below the mount
/// point; the mount point itself is then the container's group.
std::vector<fs::path> groups(const fs::path& root, std::string_view controller) {
  const fs::path mounted = root / "sys/fs/cgroup";
  std::vector<fs::path> found;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool listed =
        ("," + controllers + ",").find("," + std::string(controller) + ",") != std::string::npos;
    if (!controllers.empty() && !listed) continue;
    fs::path top = mounted;  // version 2: one hierarchy, without a list of controllers
    if (listed) {
      top = mounted / controllers;
      if (!fs::exists(top)) top = mounted / controller;
    } else if (fs::exists(mounted / "unified")) {
      top = mounted / "unified";
    }
    fs::path below = fs::path(line.substr(second + 1)).relative_path();
    while (!below.empty()) {
      found.push_back(top / below);
      below = below.parent_path();
    }
    found.push_back(top);
  }
  return found;
}

/// CPU time per wall-clock time that the quotas allow; infinity without a quota.
double cpu_quota(const fs::path& root) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const fs::path& group : groups(root, "cpu")) {
    double quota = 0;
    double period = 0;
    std::ifstream limits(group / "cpu.max");  // version 2: "QUOTA PERIOD" or "max PERIOD"
    if (!(limits >> quota >> period)) {
      // Version 1; the quota is -1 if there is none.
      std::ifstream quota_file(group / "cpu.cfs_quota_us");
      std::ifstream period_file(group / "cpu.cfs_period_us");
      if (!(quota_file >> quota) || !(period_file >> period)) continue;
    }
    if (quota > 0 && period > 0) lowest = std::min(lowest, quota / period);
  }
  return lowest;
}

}  // namespace

MachineMemory machine_memory(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  MachineMemory memory;
  std::string word;
  std::uint64_t kib = 0;
  while (file >> word) {
    if (word == "MemTotal:" && file >> kib) memory.all = kib * 1024;
    if (word == "MemAvailable:" && file >> kib) memory.available = kib * 1024;
  }
  for (const fs::path& group : groups(root, "memory")) {
    std::optional<std::uint64_t> limit = number_in(group / "memory.max");
    std::optional<std::uint64_t> used = number_in(group / "memory.current");
    std::string_view reclaimable = "inactive_file";
    if (!used) {  // version 1; without a limit the number is near 2^63
      limit = number_in(group / "memory.limit_in_bytes");
      used = number_in(group / "memory.usage_in_bytes");
      reclaimable = "total_inactive_file";
    }
    if (!limit || !used) continue;
    const std::uint64_t needed = *used - std::min(*used, value_of(group / "memory.stat", reclaimable));
    memory.all = std::min(memory.all, *limit);
    memory.available = std::min(memory.available, *limit - std::min(*limit, needed));
  }
  return memory;
}

unsigned available_processors(const fs::path& root) {
  const unsigned in_mask = std::max(1U, std::thread::hardware_concurrency());  // glibc: of the affinity mask
  const double quota = std::ceil(cpu_quota(root));
  return quota < in_mask ? std::max(1U, static_cast<unsigned>(quota)) : in_mask;
}

}  // namespace reprise
