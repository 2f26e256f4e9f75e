// Conversations of several turns on every family, among them those whose state has no pages: replies
// from states that were restored from the device or a lower tier are bitwise identical to those of a cold run.

#include "models/gpu_plan.h"
#include "models/model_files.h"
#include "tests/actors/tier_fixture.h"
#include "tests/models/family_table.h"

namespace reprise::actors {
namespace {

using protocol::Tier;

class FamilyTurnsTest : public TierFixture, public testing::WithParamInterface<OnDevice> {
 protected:
  static constexpr std::uint32_t kLength = 300;

  std::uint32_t on_grid(std::uint32_t tokens) const {
    return GetParam().device == "cpu" ? tokens : tokens / 64 * 64;
  }
  /// Sends `next`, which continues a prompt that `engine` has computed. Expects a state restored from `tier`.
  void expect_restored(EngineHarness& engine, const TokenList& next, Tier tier) {
    const Reply restored = engine.ask(next);
    ASSERT_FALSE(restored.error) << restored.error->message;
    EXPECT_EQ(restored.cache.tier, tier);
    EXPECT_GE(restored.cache.restored_tokens, 192U);
    EXPECT_EQ(restored.cache.restored_tokens + restored.cache.prefilled_tokens, next.size());
    EXPECT_TRUE(restored.choices == engine.cold(next).choices) << "not the bits of a cold run";
  }
};

TEST_P(FamilyTurnsTest, TurnsHaveTheBitsOfColdRuns) {
  EngineOptions options = EngineHarness::defaults(GetParam().device, GetParam().model);
  options.requests.verify_share = 1;
  EngineHarness engine(options);
  const auto turn = [&](const char* what, const TokenList& prompt, std::uint32_t restored) {
    const Reply cold = engine.cold(prompt);
    const Reply warm = engine.ask(prompt);
    EXPECT_FALSE(warm.error.has_value()) << what << ": " << warm.error->message;
    EXPECT_TRUE(warm.choices == cold.choices) << what;
    EXPECT_GE(warm.cache.restored_tokens, on_grid(restored)) << what << ": " << name_of(warm.cache.reason);
    return prompt + warm.tokens();
  };
  const TokenList first_turn = turn("the first", random_tokens(kLength, 1), 0);
  const TokenList second = turn("the second", first_turn + random_tokens(30, 2), kLength - 1);
  turn("the third", second + random_tokens(30, 3), kLength + 29);
  turn("another", random_tokens(100, 4), 0);
  turn("a branch", first(first_turn, kLength) + random_tokens(20, 5), kLength * 3 / 4);
  EXPECT_TRUE(engine.eventually([&] { return engine.figure("cache_verified_total") >= 3; }));
  EXPECT_EQ(engine.figure("cache_mismatches_total"), 0);
  EXPECT_EQ(engine.figure("damaged_snapshots_total"), 0);
}

TEST_P(FamilyTurnsTest, DamageIsALoudMiss) {
  EngineHarness engine(EngineHarness::defaults(GetParam().device, GetParam().model));
  const Reply good = engine.ask(prompt_);
  engine.faults().inject({.kind = Fault::Kind::kDamage});
  const Reply after = engine.ask(prompt_);
  EXPECT_TRUE(after.choices == good.choices);
  EXPECT_EQ(after.cache.reason, MissReason::kCorrupt);
  EXPECT_GT(engine.figure("damaged_snapshots_total"), 0);
}

TEST_P(FamilyTurnsTest, HostMemoryBringsStatesBack) {
  EngineHarness engine(host_options(GetParam()));
  const Reply reply = compute(engine, prompt_);
  compute(engine, random_tokens(200, 2));  // evicts the first conversation from the device
  expect_restored(engine, prompt_ + reply.tokens() + random_tokens(30, 3), Tier::kHost);
}

TEST_P(FamilyTurnsTest, AnotherEngineReadsStatesFromDisk) {
  EngineOptions options = disk_options(GetParam());
  const Reply reply = [&] {
    EngineHarness engine(options);
    return compute(engine, prompt_);
  }();
  PoisonedMemory poisoned;
  if (GetParam().device == "cpu") options.worker.memory = &poisoned;
  EngineHarness engine(options);
  expect_restored(engine, prompt_ + reply.tokens() + random_tokens(30, 3), Tier::kDisk);
}

std::vector<OnDevice> families_and_devices() {
  std::vector<OnDevice> all;
  for (const models::test::FamilySample& row : models::test::family_samples()) {
    const models::ModelFiles sample = models::ModelFiles::open(models::test::sample_checkpoint(row));
    for (const std::string& device : test_devices()) {
      if (device != "cuda:0" || !models::gpu_refusal(sample.config())) all.push_back({device, row.sample});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyTurnsTest, testing::ValuesIn(families_and_devices()), name_of_pair);

}  // namespace
}  // namespace reprise::actors
