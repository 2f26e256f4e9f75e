// A shared store as a tier (common tests: tiers_test.cc): if it is gone or hangs, hits are lost, but no
// requests.

#include <atomic>
#include <thread>

#include "tests/actors/tier_fixture.h"
#include "tests/require.h"

namespace reprise::actors {
namespace {

using protocol::Tier;
using test::FakeRedis;
using test::RedisServer;

class RemoteTierTest : public TierFixture {
 protected:
  void SetUp() override {
    if (!RedisServer::is_installed()) REPRISE_SKIP_WITHOUT("redis", "no redis-server in PATH");
  }
};
using RemoteTierGoneTest = TierFixture;

TEST_F(RemoteTierTest, WhatOneServerPackedAnotherRestores) {
  const RedisServer store;
  EngineOptions packing = remote_options(store.port());
  packing.remote.pack = true;
  EngineHarness one(packing);
  compute(one, prompt_);
  EngineHarness two(remote_options(store.port()));
  const Reply restored = two.ask(prompt_);
  EXPECT_EQ(restored.cache.tier, Tier::kRemote);
  EXPECT_EQ(restored.choices, two.cold(prompt_).choices) << "the bits of a cold run";
}

TEST_F(RemoteTierTest, WhatIsInTheFolderIsNotAskedOfTheStore) {
  const RedisServer store;
  EngineOptions options = remote_options(store.port());
  options.disk.folder = dir_.path() / "cache";
  options.disk.master_key = options.remote.master_key;
  options.disk.even_if_slower = true;
  {
    EngineHarness one(options);
    compute(one, prompt_);
  }
  {
    EngineHarness two(options);
    EXPECT_EQ(two.ask(prompt_).cache.tier, Tier::kDisk);
    EXPECT_EQ(two.figure("tier_fetches_total", "remote"), 0);
  }
  std::filesystem::remove_all(dir_.path() / "cache");
  EngineHarness three(options);
  EXPECT_EQ(three.ask(prompt_).cache.tier, Tier::kRemote);
}

TEST_F(RemoteTierTest, RequestsGoOnWhileTheStoreStopsAndStarts) {
  RedisServer store;
  EngineHarness engine(remote_options(store.port()));
  const Reply cold = engine.cold(prompt_);
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, failed{0}, wrong{0};
  std::thread load([&] {
    for (std::uint32_t i = 0; !stop; ++i) {
      const Reply other = engine.ask(random_tokens(200, 1000 + i), 2);
      const Reply same = engine.ask(prompt_);
      if (other.error || same.error) ++failed;
      if (same.choices != cold.choices) ++wrong;
      ++answered;
    }
  });
  const auto more = [&](int count) {
    const int before = answered;
    EXPECT_TRUE(engine.eventually([&] { return answered >= before + count; }));
  };
  for (int round = 0; round < 3; ++round) {
    more(3);
    store.stop();
    EXPECT_TRUE(engine.eventually([&] { return engine.figure("tier_off", "remote") == 1; }));
    more(3);
    store.start();
    EXPECT_TRUE(engine.eventually([&] { return engine.figure("tier_off", "remote") == 0; }));
  }
  const double stored = engine.figure("tier_stored_total");
  more(3);
  EXPECT_TRUE(engine.eventually([&] { return engine.figure("tier_stored_total") > stored; }))
      << "it is used again";
  stop = true;
  load.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(wrong, 0);
}

TEST_F(RemoteTierGoneTest, HungStoreCostsOneTimeoutInTotal) {
  const FakeRedis store(FakeRedis::Manner::kSilent);
  EngineOptions options = remote_options(store.port());
  options.remote.redis->limits.answer = 200ms;
  options.remote.retry = 1h;
  EngineHarness engine(options);
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_FALSE(engine.ask(random_tokens(100, i), 1).error);
  EXPECT_EQ(engine.figure("tier_off", "remote"), 1);
  // The writer's at its start, and the reader's, if it was asked meanwhile.
  EXPECT_LE(store.connections(), 2);
}

TEST_F(RemoteTierGoneTest, NoStoreIsNoReasonNotToServe) {
  std::uint16_t port = 0;
  const int closed = test::bind_anywhere(port);
  EngineHarness engine(remote_options(port));
  EXPECT_FALSE(engine.ask(random_tokens(300, 1)).error);
  EXPECT_TRUE(engine.eventually([&] { return engine.figure("tier_off", "remote") == 1; }));
  EXPECT_EQ(engine.ask(random_tokens(300, 1)).cache.tier, Tier::kDevice);
  ::close(closed);
}

}  // namespace
}  // namespace reprise::actors
