// The main function of every GoogleTest program. Ends with 77, which ctest reports as skipped, where all tests that were to run
// were skipped, and with 2 where REPRISE_REQUIRE names what no test can want.

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/require.h"

int main(int argc, char** argv) {
  constexpr int kAllSkipped = 77;
  testing::InitGoogleTest(&argc, argv);
  bool unknown = false;
  reprise::test::each_of_list(reprise::test::required_list(), [&](std::string_view item) {
    if (reprise::test::is_need(item)) return;
    unknown = true;
    std::fprintf(stderr, "REPRISE_REQUIRE: expected names of tests/require.h, got '%s'\n",
                 std::string(item).c_str());
  });
  if (unknown) return 2;
  const int result = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  const bool all_skipped =
      all.skipped_test_count() > 0 && all.skipped_test_count() == all.test_to_run_count();
  return result == 0 && all_skipped ? kAllSkipped : result;
}
