// NUMA: parsing the system's description, thread placement, and which threads copy a weight. The description
// is in files the test writes, so it runs on a machine with one node.

#include "gpu/numa_nodes.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "base/machine.h"
#include "gpu/cpu/tables.h"
#include "gpu/threads.h"
#include "gpu/weights/host_weight.h"
#include "tests/require.h"
#include "tests/temp_dir.h"

namespace reprise::gpu {
namespace {

std::vector<int> processors_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> found;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) found.push_back(i);
  }
  return found;
}

/// Two nodes made of this process's processors; with a single processor, both have it.
NumaNodes two_nodes() {
  const std::vector<int> all = processors_of_this_thread();
  return {{{all.front()}, {all.back()}}};
}

TEST(NumaNodes, ListsAreReadAsLinuxWritesThem) {
  EXPECT_EQ(processors_in("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(processors_in("5"), (std::vector<int>{5}));
  EXPECT_TRUE(processors_in("").empty());
  EXPECT_TRUE(processors_in("none").empty());
  EXPECT_EQ(processors_in("1,x"), (std::vector<int>{1}));
  EXPECT_EQ(processors_in("1-"), std::vector<int>{});
  EXPECT_TRUE(processors_in("3-1").empty());
  EXPECT_TRUE(processors_in("0-99999999").empty());  // above the limit
}

TEST(NumaNodes, AreThoseWithProcessorsThatMayBeUsed) {
  const reprise::test::TempDir dir;
  const std::filesystem::path& folder = dir.path();
  const std::vector<int> mine = processors_of_this_thread();
  const auto write = [&](const std::string& node, const std::string& list) {
    std::filesystem::create_directories(folder / node);
    std::ofstream(folder / node / "cpulist") << list << "\n";
  };
  write("node10", std::to_string(mine.back()));
  write("node2", std::to_string(mine.front()) + ",60000");  // 60000 is not available to this process
  write("node3", "60001-60002");
  write("node4", "");  // memory only
  write("nodes", "0");
  write("power", "0");
  const NumaNodes nodes = numa_nodes(folder);
  ASSERT_EQ(nodes.count(), 2U);
  EXPECT_EQ(nodes.processors[0], std::vector<int>{mine.front()});
  EXPECT_EQ(nodes.processors[1], std::vector<int>{mine.back()});
  EXPECT_EQ(numa_nodes(folder / "nothing").count(), 0U);
}

TEST(NumaNodes, ATeamIsSpreadOverThem) {
  const NumaNodes nodes = two_nodes();
  const std::vector<int> callers = processors_of_this_thread();
  constexpr unsigned kCount = 4;  // the caller and one helper on the first node, two on the second
  Threads threads(kCount, nodes);
  EXPECT_TRUE(threads.over_nodes());
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::multiset<std::vector<int>> affinities;
  const std::thread::id caller = std::this_thread::get_id();
  for (int call = 0; call < 10000 && seen.size() < kCount - 1; ++call) {
    threads.for_parts(kCount, [&](std::size_t) {
      std::this_thread::yield();
      const std::lock_guard lock(mutex);
      if (std::this_thread::get_id() == caller || !seen.insert(std::this_thread::get_id()).second) return;
      affinities.insert(processors_of_this_thread());
    });
  }
  ASSERT_EQ(seen.size(), kCount - 1);
  const std::multiset<std::vector<int>> wanted{nodes.processors[0], nodes.processors[1], nodes.processors[1]};
  EXPECT_EQ(affinities, wanted);
  EXPECT_EQ(processors_of_this_thread(), callers);  // the caller's affinity does not change

  EXPECT_FALSE(Threads(1, nodes).over_nodes());
  EXPECT_FALSE(Threads(2, NumaNodes{}).over_nodes());
  EXPECT_FALSE(Threads(2, NumaNodes{{callers}}).over_nodes());
}

TEST(NumaNodes, AWeightIsCopiedByThoseWhoReadIt) {
  constexpr std::size_t kRows = 1000, kColumns = 512;
  std::vector<float> numbers(kRows * kColumns);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 1001) - 500;
  const WeightView view{.format = &kF32Format, .rows = kRows, .columns = kColumns, .data = numbers.data()};
  const MachineMemory memory = machine_memory();
  if (memory.available < memory.all / 4 + 2 * view.bytes()) {
    REPRISE_SKIP_WITHOUT("memory", "weights are placed where a fourth of the memory stays free; of " +
                                       std::to_string(memory.all) + " bytes " +
                                       std::to_string(memory.available) + " are");
  }
  const Kernels& kernels = cpu_kernels(Isa::kPlain);
  Threads threads(2, two_nodes());

  HostWeight weight(view);
  weight.prepare(kernels, Compute::kF32, threads);
  ASSERT_TRUE(weight.is_distributed());
  EXPECT_NE(weight.view().data, view.data);
  EXPECT_EQ(std::memcmp(weight.view().data, numbers.data(), view.bytes()), 0);
  const void* const copy = weight.view().data;
  weight.prepare(kernels, Compute::kAuto, threads);  // packs once
  EXPECT_EQ(weight.view().data, copy);
  HostWeight moved = std::move(weight);
  EXPECT_EQ(moved.view().data, copy);

  HostWeight small(view.part(0, 10));
  small.prepare(kernels, Compute::kF32, threads);
  EXPECT_FALSE(small.is_distributed());
  Threads close(2, NumaNodes{});
  HostWeight left(view);
  left.prepare(kernels, Compute::kF32, close);
  EXPECT_FALSE(left.is_distributed());
  EXPECT_EQ(left.view().data, view.data);
}

}  // namespace
}  // namespace reprise::gpu
