// A folder as a tier (common tests: tiers_test.cc): compressed files, and foreign or damaged files, which are
// misses with a reason.

#include <algorithm>
#include <fstream>

#include "tests/actors/tier_fixture.h"

namespace reprise::actors {
namespace {

using protocol::Tier;

class DiskTierTest : public TierFixture, public testing::WithParamInterface<OnDevice> {};

TEST_P(DiskTierTest, PackedStatesAreSmallerAndBitwiseIdentical) {
  const auto computed_bytes = [&](bool pack) {
    EngineOptions written = disk_options(GetParam());
    written.disk.pack = pack;
    written.disk.folder += pack ? "-packed" : "-plain";
    EngineHarness engine(written);
    compute(engine, prompt_);
    return engine.figure("tier_stored_bytes_total");
  };
  const double plain = computed_bytes(false), packed = computed_bytes(true);
  EXPECT_LT(packed, 0.95 * plain);
  PoisonedMemory poisoned;
  EngineOptions again = disk_options(GetParam());
  again.disk.folder += "-packed";  // reading does not depend on packing
  if (GetParam().device == "cpu") again.worker.memory = &poisoned;
  EngineHarness engine(again);
  const Reply restored = engine.ask(prompt_);
  EXPECT_EQ(restored.cache.tier, Tier::kDisk);
  EXPECT_EQ(restored.choices, engine.cold(prompt_).choices) << "the bits of a cold run";
  EXPECT_EQ(engine.figure("tier_refused_total"), 0);
}

TEST_P(DiskTierTest, DamagedFilesAreMissesThatSaySo) {
  TokenList next;
  {
    EngineHarness engine(disk_options(GetParam()));
    next = prompt_ + compute(engine, prompt_).tokens() + random_tokens(70, 2);
  }
  for (const std::filesystem::path& path : files('c')) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(60);
    file.put('\x55');
    file.put('\x55');
  }
  EngineHarness engine(disk_options(GetParam()));
  const Reply reply = engine.ask(next);
  ASSERT_FALSE(reply.error) << reply.error->message;
  EXPECT_EQ(reply.cache.restored_tokens, 0U);
  EXPECT_EQ(reply.cache.reason, MissReason::kCorrupt);
  EXPECT_GE(engine.figure("tier_refused_total", "seal"), 1);
  EXPECT_TRUE(logged("a snapshot on disk is not used (seal)"));
  EXPECT_EQ(reply.choices, engine.cold(next).choices);
}

TEST_P(DiskTierTest, MissingChunksAndForeignManifestsAreMisses) {
  TokenList next;
  {
    EngineHarness engine(disk_options(GetParam()));
    next = prompt_ + compute(engine, prompt_).tokens() + random_tokens(70, 2);
  }
  for (const std::filesystem::path& path : files('c')) std::filesystem::remove(path);
  const std::filesystem::path manifest = files('m').front();
  std::ofstream(manifest.parent_path() / ("m" + std::string(32, 'a')), std::ios::binary)
      << std::string(200, 'x');
  EngineHarness engine(disk_options(GetParam()));
  const Reply reply = engine.ask(next);
  ASSERT_FALSE(reply.error) << reply.error->message;
  EXPECT_EQ(reply.cache.restored_tokens, 0U);
  EXPECT_GE(engine.figure("tier_refused_total", "foreign"), 1);
  EXPECT_GE(engine.figure("tier_refused_total", "missing"), 1);
  EXPECT_EQ(reply.choices, engine.cold(next).choices);
}

TEST_P(DiskTierTest, AShorterSnapshotReplacesALostOne) {
  TokenList next;
  std::size_t first_tokens = 0;
  {
    EngineHarness engine(disk_options(GetParam()));
    const TokenList reply = compute(engine, prompt_).tokens();
    first_tokens = prompt_.size() + reply.size();
    const std::vector<std::filesystem::path> kept = files('c');
    const TokenList second = prompt_ + reply + random_tokens(30, 2);
    next = second + compute(engine, second).tokens() + random_tokens(70, 3);
    for (const std::filesystem::path& path : files('c')) {
      if (std::ranges::find(kept, path) == kept.end()) std::filesystem::remove(path);
    }
  }
  EngineHarness engine(disk_options(GetParam()));
  const Reply restored = engine.ask(next);
  ASSERT_FALSE(restored.error) << restored.error->message;
  EXPECT_GE(engine.figure("tier_refused_total", "missing"), 1);
  EXPECT_EQ(restored.cache.tier, Tier::kDisk);
  EXPECT_GT(restored.cache.restored_tokens, 0U);
  EXPECT_LT(restored.cache.restored_tokens, first_tokens);
  EXPECT_EQ(restored.choices, engine.cold(next).choices) << "the bits of a cold run";
}

TEST_P(DiskTierTest, UnusableFolderDisablesTierNotRequests) {
  std::ofstream(dir_.path() / "cache") << "a file, where a folder should be";
  EngineHarness engine(disk_options(GetParam()));
  const Reply reply = engine.ask(prompt_);
  EXPECT_FALSE(reply.error);
  EXPECT_TRUE(engine.eventually([&] { return engine.figure("tier_off") == 1; }));
  EXPECT_TRUE(logged("cache tier: writes disabled"));
  EXPECT_FALSE(engine.ask(prompt_ + random_tokens(10, 4)).error);
}

TEST_P(DiskTierTest, TwoEnginesShareAFolder) {
  EngineHarness one(disk_options(GetParam())), two(disk_options(GetParam()));
  EXPECT_EQ(two.ask(prompt_ + random_tokens(80, 9)).cache.restored_tokens, 0U);
  // Other servers' snapshots are looked up periodically: one of these is found, and the earlier ones are
  // misses.
  Reply restored;
  TokenList next;
  for (std::uint32_t i = 0; restored.cache.tier != Tier::kDisk && i < 500; ++i) {
    const TokenList other = random_tokens(300, 77 + i);
    compute(one, other);
    next = other + random_tokens(80, 10);
    restored = two.ask(next);
  }
  EXPECT_EQ(restored.cache.tier, Tier::kDisk);
  EXPECT_EQ(restored.choices, two.cold(next).choices);
}

INSTANTIATE_TEST_SUITE_P(Devices, DiskTierTest,
                         testing::Values(OnDevice{"cpu", "qwen3_5_text"},
                                         OnDevice{"cpu-grid", "qwen3_5_text"}, OnDevice{"cpu", "llama"}),
                         name_of_pair);

}  // namespace
}  // namespace reprise::actors
