#include "gpu/threads.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <latch>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace reprise::gpu {
namespace {

/// Uses plain integers on purpose: a part run twice, or a join that does not synchronize, is a data race a
/// sanitizer reports.
void expect_each_part_once(Threads& threads, std::size_t parts) {
  std::vector<int> done(parts);
  threads.for_parts(parts, [&](std::size_t part) { ++done[part]; });
  EXPECT_EQ(done, std::vector<int>(parts, 1));
}

class TeamOf : public testing::TestWithParam<unsigned> {};

TEST_P(TeamOf, DoesEachPartOnce) {
  Threads threads(GetParam());
  EXPECT_EQ(threads.count(), GetParam());
  for (std::size_t parts = 0; parts < 40; ++parts) expect_each_part_once(threads, parts);
  expect_each_part_once(threads, 10000);
}

TEST_P(TeamOf, TakesManyCallsInARow) {
  Threads threads(GetParam());
  const std::size_t parts = GetParam() + 1;
  std::vector<std::uint64_t> sums(parts);
  const std::uint64_t calls = 3000;
  for (std::uint64_t call = 0; call < calls; ++call) {
    // Each call reads what another thread may have written in the previous one.
    threads.for_parts(parts, [&](std::size_t part) { sums[(part + call) % parts] += 1; });
  }
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}), calls * parts);
}

TEST_P(TeamOf, WakesHelpersThatSleep) {
  Threads threads(GetParam());
  for (int call = 0; call < 5; ++call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // longer than helpers spin
    expect_each_part_once(threads, 20);
  }
}

TEST_P(TeamOf, CutsRangesAtGrains) {
  Threads threads(GetParam());
  for (const std::size_t grain : {1, 3, 8, 64}) {
    for (const std::size_t size : {0, 1, 7, 8, 9, 63, 64, 65, 200, 1000}) {
      std::vector<int> done(size);
      std::vector<int> cuts(size + 1);
      threads.for_ranges(size, grain, [&](std::size_t begin, std::size_t end) {
        cuts[begin] = 1;
        for (std::size_t i = begin; i < end; ++i) ++done[i];
      });
      EXPECT_EQ(done, std::vector<int>(size, 1)) << size << " by " << grain;
      for (std::size_t i = 0; i < size; ++i) {
        EXPECT_TRUE(cuts[i] == 0 || i % grain == 0) << size << " by " << grain << " was cut at " << i;
      }
    }
  }
}

TEST_P(TeamOf, EndsWithoutWork) {
  for (int i = 0; i < 20; ++i) Threads threads(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Sizes, TeamOf, testing::Values(1U, 2U, 3U, 8U));

TEST(Team, OfOneRunsOnTheCaller) {
  Threads threads(1);
  const std::thread::id caller = std::this_thread::get_id();
  std::size_t next = 0;
  threads.for_parts(10, [&](std::size_t part) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(part, next++);
  });
}

TEST(Team, HasAThreadForEachCoreUnlessTold) {
  Threads threads;
  EXPECT_EQ(threads.count(), static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN)));
  std::latch all(threads.count());  // each part waits for all others: with a thread less this would hang
  threads.for_parts(threads.count(), [&](std::size_t) { all.arrive_and_wait(); });
}

TEST(Team, MovesBetweenCallersOneAtATime) {
  Threads threads(3);
  for (int i = 0; i < 10; ++i) std::thread([&] { expect_each_part_once(threads, 50); }).join();
}

}  // namespace
}  // namespace reprise::gpu
