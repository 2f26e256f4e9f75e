// Snapshots in a folder: what one engine computed another restores, with the bits of a cold run, and whatever lies
// there instead is a miss that says why.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "tests/actors/engine_harness.h"
#include "tests/actors/poisoned_memory.h"

namespace reprise::actors {
namespace {

namespace fs = std::filesystem;
using protocol::Tier;

class DiskTierTest : public testing::TestWithParam<std::pair<std::string, std::string>> {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "reprise-disk-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  virtual std::string device() const { return GetParam().first; }
  virtual std::string model() const { return GetParam().second; }

  EngineOptions options() {
    EngineOptions options = EngineHarness::defaults(device(), model());
    options.disk.folder = folder_ + "/cache";
    options.disk.master_key = protocol::snapshots::master_key("a secret for the tests");
    options.disk.even_if_slower = true;
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_.push_back(line);
    };
    return options;
  }
  bool logged(const std::string& text) {
    const std::lock_guard lock(mutex_);
    for (const std::string& line : log_) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  }

  /// Answers a prompt and waits until what it leaves has been written.
  Reply compute(EngineHarness& engine, const TokenList& prompt) {
    Reply reply = engine.ask(prompt);
    EXPECT_TRUE(engine.eventually([&] { return engine.figure("tier_stored_total") >= 1; }));
    settle(engine);
    return reply;
  }
  /// Until nothing is written any more.
  void settle(EngineHarness& engine) {
    double before = -1;
    EXPECT_TRUE(engine.eventually([&] {
      const double now = engine.figure("tier_stored_bytes_total");
      std::this_thread::sleep_for(50ms);
      return std::exchange(before, now) == now && engine.figure("tier_waiting") == 0;
    }));
  }
  std::vector<fs::path> files(char kind) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file() && entry.path().filename().string().front() == kind &&
          entry.path().filename().string().size() == 33) {
        found.push_back(entry.path());
      }
    }
    return found;
  }

  const TokenList prompt_ = random_tokens(300, 1);
  std::string folder_;
  std::mutex mutex_;
  std::vector<std::string> log_;  // guarded by mutex_
};

TEST_P(DiskTierTest, WhatOneEngineComputedTheNextRestores) {
  Reply first;
  {
    EngineHarness engine(options());
    first = compute(engine, prompt_);
    EXPECT_EQ(first.cache.tier, std::nullopt);
  }
  PoisonedMemory poisoned;
  EngineOptions again = options();
  if (device() == "cpu") again.worker.memory = &poisoned;
  EngineHarness engine(again);
  const TokenList next = prompt_ + first.tokens() + random_tokens(70, 2);
  const Reply restored = engine.ask(next);
  ASSERT_FALSE(restored.error) << restored.error->message;
  EXPECT_EQ(restored.cache.tier, Tier::kDisk);
  EXPECT_GE(restored.cache.restored_tokens, 192U);
  EXPECT_LE(restored.cache.restored_tokens, 306U);
  EXPECT_EQ(restored.cache.restored_tokens + restored.cache.prefilled_tokens, next.size());
  EXPECT_EQ(restored.cache.reason, MissReason::kNone);
  const Reply cold = engine.cold(next);
  EXPECT_EQ(restored.choices, cold.choices) << "the bits of a cold run";
  EXPECT_EQ(engine.figure("cache_brought_total", "disk"), 1);
  EXPECT_EQ(engine.figure("tier_refused_total"), 0);
  // It stands above again.
  const Reply again_above = engine.ask(prompt_ + first.tokens() + random_tokens(70, 3));
  EXPECT_EQ(again_above.cache.tier, Tier::kDevice);
  EXPECT_GE(again_above.cache.restored_tokens, restored.cache.restored_tokens);
}

TEST_P(DiskTierTest, WhatIsPackedIsSmallerAndHasTheSameBits) {
  const auto computed_bytes = [&](bool pack) {
    EngineOptions written = options();
    written.disk.pack = pack;
    written.disk.folder += pack ? "-packed" : "-plain";
    EngineHarness engine(written);
    compute(engine, prompt_);
    return engine.figure("tier_stored_bytes_total");
  };
  const double plain = computed_bytes(false), packed = computed_bytes(true);
  EXPECT_LT(packed, 0.95 * plain);
  PoisonedMemory poisoned;
  EngineOptions again = options();
  again.disk.folder += "-packed";  // whoever reads need not pack
  if (device() == "cpu") again.worker.memory = &poisoned;
  EngineHarness engine(again);
  const Reply restored = engine.ask(prompt_);
  EXPECT_EQ(restored.cache.tier, Tier::kDisk);
  EXPECT_EQ(restored.choices, engine.cold(prompt_).choices) << "the bits of a cold run";
  EXPECT_EQ(engine.figure("tier_refused_total"), 0);
}

TEST_P(DiskTierTest, PagesThatSnapshotsHaveInCommonAreStoredOnce) {
  EngineHarness engine(options());
  compute(engine, prompt_);
  const std::size_t chunks = files('c').size();
  const double stored = engine.figure("tier_stored_total");
  engine.ask(first(prompt_, 256) + random_tokens(100, 5));
  ASSERT_TRUE(engine.eventually([&] { return engine.figure("tier_stored_total") > stored; }));
  settle(engine);
  const double more = engine.figure("tier_stored_total") - stored;
  // Each new snapshot has at most a slot and a tail of its own, and all of them the one or two pages behind the fork.
  EXPECT_LE(static_cast<double>(files('c').size() - chunks), 2 * more + 2);
}

TEST_P(DiskTierTest, AnotherSecretOrTenantGetsNothing) {
  {
    EngineHarness engine(options());
    compute(engine, prompt_);
  }
  EngineOptions with_other_secret = options();
  with_other_secret.disk.master_key = protocol::snapshots::master_key("another secret, as long");
  EngineHarness stranger(with_other_secret);
  EXPECT_EQ(stranger.ask(prompt_).cache.restored_tokens, 0U);
  EngineHarness engine(options());
  protocol::GenerateRequest of_other_tenant = EngineHarness::request(prompt_);
  of_other_tenant.name_space = "1 somebody";
  EXPECT_EQ(engine.ask(of_other_tenant).cache.restored_tokens, 0U);
  EXPECT_EQ(engine.ask(prompt_).cache.tier, Tier::kDisk);
}

TEST_P(DiskTierTest, DamagedFilesAreMissesThatSaySo) {
  TokenList next;
  {
    EngineHarness engine(options());
    next = prompt_ + compute(engine, prompt_).tokens() + random_tokens(70, 2);
  }
  for (const fs::path& path : files('c')) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(60);
    file.put('\x55');
    file.put('\x55');
  }
  EngineHarness engine(options());
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
    EngineHarness engine(options());
    next = prompt_ + compute(engine, prompt_).tokens() + random_tokens(70, 2);
  }
  for (const fs::path& path : files('c')) fs::remove(path);
  const fs::path manifest = files('m').front();
  std::ofstream(manifest.parent_path() / ("m" + std::string(32, 'a')), std::ios::binary)
      << std::string(200, 'x');
  EngineHarness engine(options());
  const Reply reply = engine.ask(next);
  ASSERT_FALSE(reply.error) << reply.error->message;
  EXPECT_EQ(reply.cache.restored_tokens, 0U);
  EXPECT_GE(engine.figure("tier_refused_total", "foreign"), 1);
  EXPECT_GE(engine.figure("tier_refused_total", "missing"), 1);
  EXPECT_EQ(reply.choices, engine.cold(next).choices);
}

TEST_P(DiskTierTest, TheFolderStaysWithinItsBound) {
  EngineOptions small = options();
  small.disk.most_bytes = 300'000;
  EngineHarness engine(small);
  for (std::uint32_t i = 0; i < 12; ++i) {
    engine.ask(random_tokens(200, 100 + i));
    settle(engine);
    std::uint64_t bytes = 0;
    for (const char kind : {'m', 'c'}) {
      for (const fs::path& path : files(kind)) bytes += fs::file_size(path);
    }
    EXPECT_LE(bytes, 300'000U);
  }
  EXPECT_GT(engine.figure("tier_evicted_total") + engine.figure("tier_no_room_total"), 0);
  EXPECT_FALSE(engine.ask(prompt_).error);
}

TEST_P(DiskTierTest, AFolderThatCannotBeUsedTurnsTheTierOffAndRequestsGoOn) {
  std::ofstream(folder_ + "/cache") << "a file, where a folder should be";
  EngineHarness engine(options());
  const Reply reply = engine.ask(prompt_);
  EXPECT_FALSE(reply.error);
  EXPECT_TRUE(engine.eventually([&] { return engine.figure("tier_off") == 1; }));
  EXPECT_TRUE(logged("snapshots are not written any more"));
  EXPECT_FALSE(engine.ask(prompt_ + random_tokens(10, 4)).error);
}

TEST_P(DiskTierTest, TwoEnginesShareAFolder) {
  EngineHarness one(options()), two(options());
  EXPECT_EQ(two.ask(prompt_ + random_tokens(80, 9)).cache.restored_tokens, 0U);
  const TokenList other = random_tokens(300, 77);
  compute(one, other);
  std::this_thread::sleep_for(600ms);  // news of others are looked for twice a second at most
  const TokenList next = other + random_tokens(80, 10);
  const Reply restored = two.ask(next);
  EXPECT_EQ(restored.cache.tier, Tier::kDisk);
  EXPECT_EQ(restored.choices, two.cold(next).choices);
}

INSTANTIATE_TEST_SUITE_P(Devices, DiskTierTest,
                         testing::Values(std::pair<std::string, std::string>("cpu", "qwen3_5_text"),
                                         std::pair<std::string, std::string>("cpu-grid", "qwen3_5_text"),
                                         std::pair<std::string, std::string>("cpu", "llama")),
                         [](const auto& info) {
                           return test_name(info.param.first + "_" + info.param.second);
                         });

}  // namespace
}  // namespace reprise::actors
