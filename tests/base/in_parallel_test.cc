// Each part runs exactly once, and all have ended on return.

#include "base/in_parallel.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise {
namespace {

TEST(InParallelTest, EachPartIsDoneOnce) {
  for (const std::size_t parts : {0U, 1U, 7U, 1000U}) {
    std::vector<int> done(parts);
    in_parallel(parts, [&](std::size_t part) { ++done[part]; });
    EXPECT_EQ(done, std::vector<int>(parts, 1));
    in_parallel(
        parts, [&](std::size_t part) { ++done[part]; }, 1);
    EXPECT_EQ(done, std::vector<int>(parts, 2));
  }
}

TEST(InParallelTest, FewPartsAndManyHaveABoundedNumberOfThreads) {
  EXPECT_EQ(threads_for(0, 8), 1U);
  EXPECT_EQ(threads_for(8, 8), 1U);
  EXPECT_LE(threads_for(9, 8), 2U);
  EXPECT_LE(threads_for(1'000'000, 1), 8U);
  EXPECT_GE(threads_for(1'000'000, 1), 1U);
}

}  // namespace
}  // namespace reprise
