#include "actors/device/worker_figures.h"

#include <gtest/gtest.h>

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;

// Polls, every 50 ms, a step that began at `began` and lasts `takes`.
void watch(StepWatch& watch, std::int64_t began, std::chrono::nanoseconds& now,
           std::chrono::nanoseconds takes) {
  for (const auto end = now + takes; now < end; now += 50ms) watch.look(began, now);
}

TEST(StepWatch, AStepBeyondTheFloorHangs) {
  StepWatch steps;
  std::chrono::nanoseconds now = 1s;
  const StepPatience patience{.floor = 120s};
  watch(steps, 1, now, 119s);
  EXPECT_FALSE(steps.hangs(patience));
  watch(steps, 1, now, 2s);
  EXPECT_TRUE(steps.hangs(patience));
  steps.look(0, now);
  EXPECT_FALSE(steps.hangs(patience)) << "it ended after all";
}

TEST(StepWatch, LargeWeightsTakeTheirTimeOnACpu) {
  const StepPatience bf16_27b{.floor = 120s, .weight_bytes = 54'000'000'000};
  EXPECT_EQ(max_step(bf16_27b, 0s), 2700s);
  EXPECT_EQ(max_step({.floor = 120s, .weight_bytes = 54'000'000'000, .on_gpu = true}, 0s), 120s);
  EXPECT_EQ(max_step({.floor = 120s, .weight_bytes = 1'600'000'000}, 0s), 120s);
  StepWatch steps;
  std::chrono::nanoseconds now = 1s;
  watch(steps, 1, now, 600s);
  EXPECT_FALSE(steps.hangs(bf16_27b)) << "a slice of a large model on a slow CPU";
  watch(steps, 1, now, 2200s);
  EXPECT_TRUE(steps.hangs(bf16_27b));
}

TEST(StepWatch, ADeviceThatWasSlowBeforeMaySlowDownFurther) {
  StepWatch steps;
  std::chrono::nanoseconds now = 1s;
  const StepPatience patience{.floor = 120s};
  watch(steps, 1, now, 100s);
  watch(steps, 2, now, 300s);
  EXPECT_NEAR(steps.longest().count() * 1e-9, 100, 1);
  EXPECT_FALSE(steps.hangs(patience));
  watch(steps, 2, now, 150s);
  EXPECT_TRUE(steps.hangs(patience));
  steps.forget();
  EXPECT_EQ(steps.longest(), 0s);
  EXPECT_FALSE(steps.hangs(patience));
}

TEST(StepWatch, TimeInWhichNobodyWatchedDoesNotCount) {
  StepWatch steps;
  std::chrono::nanoseconds now = 1s;
  const StepPatience patience{.floor = 120s};
  watch(steps, 1, now, 10s);
  now += std::chrono::hours(8);  // the machine was suspended
  watch(steps, 1, now, 10s);
  EXPECT_FALSE(steps.hangs(patience));
  EXPECT_LT(steps.seen(), 22s);
}

}  // namespace
}  // namespace reprise::actors
