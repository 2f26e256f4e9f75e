// Snapshots in a store that servers share: what one engine computed another restores, with the bits of a cold run. A
// store that is gone, or hangs, costs hits and never requests.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/actors/engine_harness.h"
#include "tests/actors/poisoned_memory.h"
#include "tests/protocol/snapshots/redis_server.h"
#include "tests/require.h"

namespace reprise::actors {
namespace {

using protocol::Tier;
using test::FakeRedis;
using test::RedisServer;

EngineOptions options_with(std::uint16_t port, const std::string& secret = "a secret for the tests") {
  EngineOptions options = EngineHarness::defaults("cpu", "qwen3_5_text");
  options.remote.redis = protocol::snapshots::RedisSettings{
      .address = {.host = "127.0.0.1", .port = port}, .ttl = 1000s, .limits = {.connect = 2s, .answer = 10s}};
  options.remote.master_key = protocol::snapshots::master_key(secret);
  options.remote.even_if_slower = true;
  options.remote.retry = 20ms;
  return options;
}

/// Until what was computed has been written.
void settle(EngineHarness& engine, double stored = 1) {
  EXPECT_TRUE(engine.eventually(
      [&] { return engine.figure("tier_stored_total") >= stored && engine.figure("tier_waiting") == 0; }));
}

class RemoteTierTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_installed()) REPRISE_SKIP_WITHOUT("redis", "no redis-server in PATH");
  }
  const TokenList prompt_ = random_tokens(300, 1);
};

TEST_F(RemoteTierTest, WhatOneServerComputedAnotherRestores) {
  const RedisServer store;
  EngineHarness one(options_with(store.port()));
  const Reply first = one.ask(prompt_);
  EXPECT_EQ(first.cache.tier, std::nullopt);
  settle(one);
  PoisonedMemory poisoned;
  EngineOptions second = options_with(store.port());
  second.worker.memory = &poisoned;
  EngineHarness two(second);
  const TokenList next = prompt_ + first.tokens() + random_tokens(70, 2);
  const Reply restored = two.ask(next);
  ASSERT_FALSE(restored.error) << restored.error->message;
  EXPECT_EQ(restored.cache.tier, Tier::kRemote);
  EXPECT_GE(restored.cache.restored_tokens, 299U);
  EXPECT_EQ(restored.choices, two.cold(next).choices) << "the bits of a cold run";
  EXPECT_EQ(two.figure("cache_brought_total", "remote"), 1);
  EXPECT_EQ(two.figure("tier_refused_total"), 0);
}

TEST_F(RemoteTierTest, WhatOneServerPackedAnotherRestores) {
  const RedisServer store;
  EngineOptions packing = options_with(store.port());
  packing.remote.pack = true;
  EngineHarness one(packing);
  one.ask(prompt_);
  settle(one);
  EngineHarness two(options_with(store.port()));
  const Reply restored = two.ask(prompt_);
  EXPECT_EQ(restored.cache.tier, Tier::kRemote);
  EXPECT_EQ(restored.choices, two.cold(prompt_).choices) << "the bits of a cold run";
}

TEST_F(RemoteTierTest, AnotherSecretOrTenantGetsNothing) {
  const RedisServer store;
  EngineHarness one(options_with(store.port()));
  one.ask(prompt_);
  settle(one);
  EngineHarness stranger(options_with(store.port(), "another secret, as long"));
  EXPECT_EQ(stranger.ask(prompt_).cache.restored_tokens, 0U);
  EngineHarness two(options_with(store.port()));
  protocol::GenerateRequest of_other_tenant = EngineHarness::request(prompt_);
  of_other_tenant.name_space = "1 somebody";
  EXPECT_EQ(two.ask(of_other_tenant).cache.restored_tokens, 0U);
  EXPECT_EQ(two.ask(prompt_).cache.tier, Tier::kRemote);
}

TEST_F(RemoteTierTest, WhatIsInTheFolderIsNotAskedOfTheStore) {
  const RedisServer store;
  std::string pattern = std::filesystem::temp_directory_path() / "reprise-remote-XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  EngineOptions options = options_with(store.port());
  options.disk.folder = folder;
  options.disk.master_key = options.remote.master_key;
  options.disk.even_if_slower = true;
  {
    EngineHarness one(options);
    one.ask(prompt_);
    settle(one, 4);
  }
  {
    EngineHarness two(options);
    EXPECT_EQ(two.ask(prompt_).cache.tier, Tier::kDisk);
    EXPECT_EQ(two.figure("tier_fetches_total", "remote"), 0);
  }
  std::filesystem::remove_all(folder);
  {
    EngineHarness three(options);
    EXPECT_EQ(three.ask(prompt_).cache.tier, Tier::kRemote);
  }
  std::filesystem::remove_all(folder);  // after the engine, which still writes there
}

TEST_F(RemoteTierTest, RequestsGoOnWhileTheStoreStopsAndStarts) {
  RedisServer store;
  EngineHarness engine(options_with(store.port()));
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
    EXPECT_TRUE(engine.eventually([&] { return answered >= before + count; }, 60s));
  };
  for (int round = 0; round < 3; ++round) {
    more(3);
    store.stop();
    EXPECT_TRUE(engine.eventually([&] { return engine.figure("tier_off", "remote") == 1; }, 60s));
    more(3);
    store.start();
    EXPECT_TRUE(engine.eventually([&] { return engine.figure("tier_off", "remote") == 0; }, 60s));
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

TEST(RemoteTierGoneTest, AStoreThatHangsCostsOneTimeoutNotEveryRequests) {
  const FakeRedis store(FakeRedis::Manner::kSilent);
  EngineOptions options = options_with(store.port());
  options.remote.redis->limits.answer = 200ms;
  options.remote.retry = 1h;
  EngineHarness engine(options);
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_FALSE(engine.ask(random_tokens(100, i), 1).error);
  EXPECT_EQ(engine.figure("tier_off", "remote"), 1);
  // The writer, when it began, and the reader, if it was asked at that moment.
  EXPECT_LE(store.connections(), 2);
}

TEST(RemoteTierGoneTest, NoStoreIsNoReasonNotToServe) {
  std::uint16_t port = 0;
  ::close(test::listen_anywhere(port));
  EngineHarness engine(options_with(port));
  EXPECT_FALSE(engine.ask(random_tokens(300, 1)).error);
  EXPECT_TRUE(engine.eventually([&] { return engine.figure("tier_off", "remote") == 1; }));
  EXPECT_EQ(engine.ask(random_tokens(300, 1)).cache.tier, Tier::kDevice);
}

}  // namespace
}  // namespace reprise::actors
