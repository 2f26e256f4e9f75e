// The choice between reading a state and computing it, by the measured speeds.

#include "actors/tiers/tier_figures.h"

#include <gtest/gtest.h>

namespace reprise::actors {
namespace {

void load(TierFigures& figures, std::uint64_t bytes, double seconds) {
  TierFigures::add(figures.loaded_bytes, bytes);
  TierFigures::add(figures.load_ns, static_cast<std::uint64_t>(seconds * 1e9));
}

TEST(TierSpeed, IsNotGuessed) {
  TierFigures figures;
  EXPECT_EQ(figures.bytes_per_second(), 0);
  EXPECT_FALSE(figures.would_lose(1 << 30, 1, 0.001));
  load(figures, 1'000'000, 1);
  EXPECT_FALSE(figures.would_lose(1 << 30, 1, 0)) << "computing may be slower";
  EXPECT_TRUE(figures.would_lose(1'000'000, 100, 0.001));
  EXPECT_FALSE(figures.would_lose(1'000'000, 2'000, 0.001));
}

TEST(TierSpeed, OneSlowReadIsNotRememberedForEver) {
  TierFigures figures;
  load(figures, 1'000'000, 60);  // the disk slept
  const auto is_read = [&] { return !figures.would_lose(1'000'000, 1'000, 0.001); };
  std::uint32_t refused = 0;
  while (!is_read() && refused < 1'000) ++refused;
  EXPECT_EQ(refused, TierFigures::kRetryAfter);
  load(figures, 1'000'000, 0.1);
  EXPECT_NEAR(figures.bytes_per_second(), 1e7, 1) << "by the new read alone";
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(is_read());
}

TEST(TierSpeed, ASlowTierIsTriedSeldom) {
  TierFigures figures;
  int reads = 0;
  for (int i = 0; i < 1'000; ++i) {
    if (figures.would_lose(1'000'000, 100, 0.001)) continue;
    ++reads;
    load(figures, 1'000'000, 60);
  }
  EXPECT_LE(reads, 1'000 / static_cast<int>(TierFigures::kRetryAfter) + 1);
  EXPECT_GE(reads, 10);
}

}  // namespace
}  // namespace reprise::actors
