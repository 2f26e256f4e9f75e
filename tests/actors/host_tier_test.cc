// Snapshots in the host's memory: what a device has given up comes back, with the bits of a cold run, within a bound.

#include <gtest/gtest.h>

#include <cstring>

#include "tests/actors/engine_harness.h"
#include "tests/actors/poisoned_memory.h"

namespace reprise::actors {
namespace {

using protocol::Tier;

class HostTierTest : public testing::TestWithParam<std::pair<std::string, std::string>> {
 protected:
  /// A device that keeps next to nothing.
  EngineOptions options(std::uint64_t host_bytes = 64ULL << 20) {
    EngineOptions options = EngineHarness::defaults(GetParam().first, GetParam().second);
    options.registry.cache.max_entries = 1;
    options.host.most_bytes = host_bytes;
    options.host.even_if_slower = true;
    return options;
  }
  /// Until nothing is read from the device any more, and has not been for a while: what a request leaves is kept behind it.
  static void settle(EngineHarness& engine) {
    constexpr int kAlike = 6;  // looks that see the same
    double before = -1;
    int alike = 0;
    EXPECT_TRUE(engine.eventually([&] {
      const double now = engine.figure("tier_stored_total") + engine.figure("tier_overtaken_total");
      std::this_thread::sleep_for(50ms);
      alike = std::exchange(before, now) == now && engine.figure("tier_waiting") == 0 ? alike + 1 : 0;
      return alike >= kAlike;
    }));
  }
  const TokenList prompt_ = random_tokens(300, 1);
};

TEST_P(HostTierTest, WhatTheDeviceGaveUpComesBack) {
  PoisonedMemory poisoned;
  EngineOptions small = options();
  if (GetParam().first == "cpu") small.worker.memory = &poisoned;
  EngineHarness engine(small);
  const Reply first = engine.ask(prompt_);
  settle(engine);
  EXPECT_GE(engine.figure("tier_stored_total"), 1);
  engine.ask(random_tokens(200, 2));  // the device holds this one instead
  settle(engine);
  const TokenList next = prompt_ + first.tokens() + random_tokens(70, 3);
  const Reply restored = engine.ask(next);
  ASSERT_FALSE(restored.error) << restored.error->message;
  EXPECT_EQ(restored.cache.tier, Tier::kHost);
  EXPECT_GE(restored.cache.restored_tokens, 192U);
  EXPECT_EQ(restored.choices, engine.cold(next).choices) << "the bits of a cold run";
  EXPECT_EQ(engine.figure("cache_brought_total", "host"), 1);
  EXPECT_EQ(engine.figure("tier_refused_total"), 0);
}

TEST_P(HostTierTest, WhatItBringsLiesInTheBuffersThatItWasGiven) {
  constexpr int kNaN = 0xFF;
  EngineOptions given = options();
  given.host.buffers = std::make_shared<gpu::TransferBuffers>(
      [](std::size_t bytes) {
        std::shared_ptr<std::byte> block(new std::byte[bytes], std::default_delete<std::byte[]>());
        std::memset(block.get(), kNaN, bytes);
        return block;
      },
      64ULL << 20);
  EngineHarness engine(given);
  const Reply first = engine.ask(prompt_);
  settle(engine);
  EXPECT_GT(given.host.buffers->made_bytes(), 0U) << "made before there is a hurry";
  engine.ask(random_tokens(200, 2));
  settle(engine);
  const std::uint64_t made = given.host.buffers->made_bytes();
  const TokenList next = prompt_ + first.tokens() + random_tokens(70, 3);
  const Reply restored = engine.ask(next);
  ASSERT_FALSE(restored.error) << restored.error->message;
  EXPECT_EQ(restored.cache.tier, Tier::kHost);
  EXPECT_EQ(restored.choices, engine.cold(next).choices) << "the bits of a cold run";
  EXPECT_EQ(given.host.buffers->made_bytes(), made) << "one that was there was used";
}

TEST_P(HostTierTest, AnotherNamespaceGetsNothing) {
  EngineHarness engine(options());
  engine.ask(prompt_);
  settle(engine);
  engine.ask(random_tokens(200, 2));
  protocol::GenerateRequest stranger = EngineHarness::request(prompt_);
  stranger.name_space = "1 somebody";
  EXPECT_EQ(engine.ask(stranger).cache.restored_tokens, 0U);
}

TEST_P(HostTierTest, ItStaysWithinItsBound) {
  constexpr std::uint64_t kMost = 300'000;
  EngineHarness engine(options(kMost));
  for (std::uint32_t i = 0; i < 12; ++i) {
    EXPECT_FALSE(engine.ask(random_tokens(200, 100 + i)).error);
    settle(engine);
    EXPECT_LE(engine.figure("tier_bytes", "host"), kMost);
  }
  EXPECT_GT(engine.figure("tier_evicted_total") + engine.figure("tier_no_room_total"), 0);
}

TEST_P(HostTierTest, PagesThatStatesHaveInCommonAreHeldOnce) {
  EngineOptions roomy = options();
  roomy.registry.cache.max_entries = 1000;
  EngineHarness engine(roomy);
  const auto bytes_of = [&](const TokenList& prompt) {
    const double before = engine.figure("tier_bytes", "host");
    EXPECT_FALSE(engine.ask(prompt).error);
    settle(engine);
    return engine.figure("tier_bytes", "host") - before;
  };
  const TokenList once = random_tokens(390, 7);
  const double alone = bytes_of(once);
  ASSERT_GT(alone, 0);
  EXPECT_LT(bytes_of(first(once, 300) + random_tokens(90, 8)), 0.9 * alone)
      << "a stranger would take as much";
}

std::vector<std::pair<std::string, std::string>> devices_and_models() {
  std::vector<std::pair<std::string, std::string>> all = {{"cpu", "llama"}};
  for (const std::string& device : test_devices()) all.emplace_back(device, "qwen3_5_text");
  return all;
}

INSTANTIATE_TEST_SUITE_P(Devices, HostTierTest, testing::ValuesIn(devices_and_models()),
                         [](const auto& info) {
                           return test_name(info.param.first + "_" + info.param.second);
                         });

}  // namespace
}  // namespace reprise::actors
