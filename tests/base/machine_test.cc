#include "base/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temp_dir.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

/// A folder with the system files of a process.
class Machine : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text;
  }
  fs::path root() const { return folder_.path(); }

  void SetUp() override {
    write("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n");
  }

 private:
  test::TempDir folder_;
};

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST_F(Machine, WithoutControlGroupsAllIsAvailable) {
  EXPECT_EQ(machine_memory(root()).all, 8 * kGiB);
  EXPECT_EQ(machine_memory(root()).available, 4 * kGiB);
  EXPECT_EQ(available_processors(root()), available_processors(root() / "nothing"));
}

TEST_F(Machine, QuotaOfVersion2IsRoundedUp) {
  write("proc/self/cgroup", "0::/pod/box\n");
  write("sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/pod/cpu.max", "50000 100000\n");
  EXPECT_EQ(available_processors(root()), 1U);
}

TEST_F(Machine, QuotaAboveTheMaskIsIgnored) {
  const unsigned in_mask = available_processors(root());
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", std::to_string((in_mask + 1) * 100000) + " 100000\n");
  EXPECT_EQ(available_processors(root()), in_mask);
}

TEST_F(Machine, QuotaOfVersion1AtTheMountPoint) {
  const unsigned in_mask = available_processors(root());
  write("proc/self/cgroup",
        "5:cpuacct,cpu:/docker/0123\n0::/\n");  // the path is the host's, the mount is not
  write("sys/fs/cgroup/cpuacct,cpu/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpuacct,cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(available_processors(root()), in_mask);
  write("sys/fs/cgroup/cpuacct,cpu/cpu.cfs_quota_us", "90000\n");
  EXPECT_EQ(available_processors(root()), 1U);
}

TEST_F(Machine, MemoryOfVersion2CountsPageCacheAsAvailable) {
  write("proc/self/cgroup", "0::/box\n");
  write("sys/fs/cgroup/box/memory.max", std::to_string(2 * kGiB));
  write("sys/fs/cgroup/box/memory.current", std::to_string(kGiB));
  write("sys/fs/cgroup/box/memory.stat", "anon 1\ninactive_file " + std::to_string(kGiB / 2) + "\n");
  EXPECT_EQ(machine_memory(root()).all, 2 * kGiB);
  EXPECT_EQ(machine_memory(root()).available, kGiB + kGiB / 2);
  write("sys/fs/cgroup/box/memory.max", "max\n");
  EXPECT_EQ(machine_memory(root()).available, 4 * kGiB);
}

TEST_F(Machine, MemoryOfVersion1) {
  write("proc/self/cgroup", "4:memory:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(kGiB));
  write("sys/fs/cgroup/memory/memory.usage_in_bytes",
        std::to_string(2 * kGiB));  // above a limit lowered since
  EXPECT_EQ(machine_memory(root()).all, kGiB);
  EXPECT_EQ(machine_memory(root()).available, 0U);
}

}  // namespace
}  // namespace reprise
