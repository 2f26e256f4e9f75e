// Common tests of all tiers: restored states are bitwise identical to a cold run's, visible only to their
// tenant, and bounded in size.

#include "tests/actors/tier_fixture.h"
#include "tests/require.h"

namespace reprise::actors {
namespace {

using protocol::Tier;

struct TierOn {
  Tier tier;
  OnDevice on;

  friend void PrintTo(const TierOn& one, std::ostream* out) {
    *out << name_of(one.tier) << ", " << one.on.model;
  }
};

class TierTest : public TierFixture, public testing::WithParamInterface<TierOn> {
 protected:
  void SetUp() override {
    if (tier() != Tier::kRemote) return;
    if (!test::RedisServer::is_installed()) REPRISE_SKIP_WITHOUT("redis", "no redis-server in PATH");
    store_.emplace();
  }
  static Tier tier() { return GetParam().tier; }
  static const OnDevice& on() { return GetParam().on; }
  EngineOptions options(const std::string& secret = kSecret) {
    if (tier() == Tier::kHost) return host_options(on());
    return tier() == Tier::kDisk ? disk_options(on(), secret) : remote_options(store_->port(), on(), secret);
  }
  /// Returns another engine than the one that computed it, or the same after it evicted it; with poisoned
  /// memory.
  EngineHarness& after(std::unique_ptr<EngineHarness>& engine) {
    if (tier() == Tier::kHost) {
      compute(*engine, random_tokens(200, 2));
      return *engine;
    }
    engine.reset();
    EngineOptions again = options();
    if (on().device == "cpu") again.worker.memory = &poisoned_;
    engine = std::make_unique<EngineHarness>(again);
    return *engine;
  }

  PoisonedMemory poisoned_;
  std::optional<test::RedisServer> store_;
};

TEST_P(TierTest, WhatWasComputedComesBack) {
  EngineOptions computing = options();
  if (tier() == Tier::kHost && on().device == "cpu") computing.worker.memory = &poisoned_;
  auto engine = std::make_unique<EngineHarness>(computing);
  const Reply first = compute(*engine, prompt_);
  EXPECT_EQ(first.cache.tier, std::nullopt);
  EngineHarness& next_engine = after(engine);
  const TokenList next = prompt_ + first.tokens() + random_tokens(70, 3);
  const Reply restored = next_engine.ask(next);
  ASSERT_FALSE(restored.error) << restored.error->message;
  EXPECT_EQ(restored.cache.tier, tier());
  EXPECT_GE(restored.cache.restored_tokens, tier() == Tier::kRemote ? 299U : 192U);
  EXPECT_LE(restored.cache.restored_tokens, 306U);
  EXPECT_EQ(restored.cache.restored_tokens + restored.cache.prefilled_tokens, next.size());
  EXPECT_EQ(restored.choices, next_engine.cold(next).choices) << "the bits of a cold run";
  EXPECT_EQ(next_engine.figure("cache_brought_total", std::string(name_of(tier()))), 1);
  EXPECT_EQ(next_engine.figure("tier_refused_total"), 0);
  if (tier() == Tier::kHost) return;  // its device keeps one entry
  EXPECT_EQ(restored.cache.reason, MissReason::kNone);
  const Reply above = next_engine.ask(prompt_ + first.tokens() + random_tokens(70, 4));
  EXPECT_EQ(above.cache.tier, Tier::kDevice) << "the device has it again";
  EXPECT_GE(above.cache.restored_tokens, restored.cache.restored_tokens);
}

TEST_P(TierTest, AnotherSecretOrTenantGetsNothing) {
  auto engine = std::make_unique<EngineHarness>(options());
  const Reply first = compute(*engine, prompt_);
  // Continues from the newest snapshot: an earlier one may be evicted before it was copied.
  const TokenList next = prompt_ + first.tokens() + random_tokens(70, 3);
  if (tier() != Tier::kHost) {
    EngineHarness stranger(options("another secret, as long"));
    EXPECT_EQ(stranger.ask(next).cache.restored_tokens, 0U);
  }
  EngineHarness& next_engine = after(engine);
  protocol::GenerateRequest of_other_tenant = EngineHarness::request(next);
  of_other_tenant.cache.name_space = "1 somebody";
  EXPECT_EQ(next_engine.ask(of_other_tenant).cache.restored_tokens, 0U);
  next_engine.settle();
  EXPECT_EQ(next_engine.ask(next).cache.tier, tier());
}

TEST_P(TierTest, PagesInCommonAreKeptOnce) {
  EngineOptions ample = options();
  ample.registry.cache.max_entries = 1000;
  EngineHarness engine(ample);
  const auto bytes_of = [&](const TokenList& prompt) {
    const double before = engine.figure("tier_stored_bytes_total");
    compute(engine, prompt);
    return engine.figure("tier_stored_bytes_total") - before;
  };
  const TokenList once = random_tokens(390, 7);
  const double alone = bytes_of(once);
  ASSERT_GT(alone, 0);
  EXPECT_LT(bytes_of(first(once, 300) + random_tokens(90, 8)), 0.9 * alone)
      << "a stranger would take as much";
}

TEST_P(TierTest, ItStaysWithinItsBound) {
  constexpr std::uint64_t kMax = 300'000;
  if (tier() == Tier::kRemote) return;  // the store has its own bound
  EngineOptions small = options();
  small.host.max_bytes = tier() == Tier::kHost ? kMax : 0;
  small.disk.max_bytes = kMax;
  EngineHarness engine(small);
  for (std::uint32_t i = 0; i < 12; ++i) {
    EXPECT_FALSE(engine.ask(random_tokens(200, 100 + i)).error);
    engine.settle();
    EXPECT_LE(engine.figure("tier_bytes", "host"), kMax);
    std::uint64_t bytes = 0;
    for (const char kind : {'m', 'c'}) {
      for (const auto& path : files(kind)) bytes += std::filesystem::file_size(path);
    }
    EXPECT_LE(bytes, kMax);
  }
  EXPECT_GT(engine.figure("tier_evicted_total") + engine.figure("tier_no_room_total"), 0);
  EXPECT_FALSE(engine.ask(prompt_).error);
}

std::vector<TierOn> tiers_and_devices() {
  std::vector<TierOn> all;
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    for (const char* device : {"cpu", "cpu-grid"}) all.push_back({tier, {device, "qwen3_5_text"}});
    all.push_back({tier, {"cpu", "llama"}});
  }
  for (const OnDevice& gpu : present({{"cuda:0", "qwen3_5_text"}})) all.push_back({Tier::kHost, gpu});
  all.push_back({Tier::kRemote, {"cpu", "qwen3_5_text"}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Tiers, TierTest, testing::ValuesIn(tiers_and_devices()), [](const auto& info) {
  return test_name(std::string(name_of(info.param.tier)) + "_" + info.param.on.device + "_" +
                   info.param.on.model);
});

}  // namespace
}  // namespace reprise::actors
