// HostTier without an engine: states of several MiB, copied by several threads, and abandoned ones.

#include <gtest/gtest.h>

#include "actors/tiers/host_tier.h"
#include "runtime/system.h"
#include "tests/eventually.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::Fetched;
using protocol::MissReason;

constexpr std::uint64_t kPatternPage = 600'000, kPatternSlot = 5'000'000;

/// A byte that depends on its offset and, in pages, on the page.
std::byte content(std::uint64_t page, std::uint64_t at) {
  return static_cast<std::byte>(at * 31 + at / 1000 + page * 7);
}

class PatternDevice : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::ReadKv>;
  static constexpr const char* kName = "pattern device";
  protocol::ReadKv::Reply on(protocol::ReadKv read) {
    for (std::uint64_t i = 0; i < read.to.size(); ++i) {
      read.to[i] = read.slot ? content(99, i) : content(read.first_page + i / kPatternPage, i % kPatternPage);
    }
    return protocol::Nothing{};
  }
};

class HostTierActorTest : public testing::Test {
 protected:
  void TearDown() override { system_.stop(); }
  void start(bool even_if_slower, HostTierSettings settings = {}) {
    settings.max_bytes = 64 << 20;
    settings.even_if_slower = even_if_slower;
    tier_ = system_.spawn<HostTier>({.placement = runtime::Placement::own_thread()}, settings, figures_);
    store(200, 1);
  }
  void store(std::uint32_t at, std::uint64_t count) {
    tier_.tell(protocol::StoreState{.kind = kKind,
                                    .tokens = prompt_,
                                    .at = at,
                                    .snapshot = {.generation = 1, .number = 1},
                                    .worker = device_});
    ASSERT_TRUE(eventually([&] { return figures_->stored.load() == count; }));
  }
  Fetched fetch(double seconds_per_token) {
    auto fetched = tier_.ask_blocking(
        protocol::FetchState{
            .kind = kKind, .prompt = prompt_, .at_most = 999, .seconds_per_token = seconds_per_token},
        20s);
    EXPECT_TRUE(fetched.ok());
    return fetched.ok() ? std::move(*fetched) : Fetched{};
  }

  const protocol::StateKind kKind{
      .model = 7, .arithmetic = 1, .page_bytes = kPatternPage, .slot_bytes = kPatternSlot, .page_tokens = 64};
  const SharedTokens prompt_ = std::make_shared<const TokenList>(TokenList(1000, 5));
  const std::shared_ptr<TierFigures> figures_ = std::make_shared<TierFigures>();
  runtime::System system_{{.workers = 2}};
  runtime::RefOf<PatternDevice> device_ = system_.spawn<PatternDevice>();
  runtime::RefOf<HostTier> tier_;
};

TEST_F(HostTierActorTest, EveryByteComesBackToItsPlace) {
  start(true);
  const Fetched fetched = fetch(0);
  ASSERT_TRUE(fetched.state);
  const std::span<const std::byte> bytes = fetched.state->bytes;
  ASSERT_EQ(bytes.size(), 4 * kPatternPage + kPatternSlot);
  std::size_t wrong = 0;
  for (std::uint64_t i = 0; i < bytes.size(); ++i) {
    wrong += bytes[i] != (i < 4 * kPatternPage ? content(i / kPatternPage, i % kPatternPage)
                                               : content(99, i - 4 * kPatternPage));
  }
  EXPECT_EQ(wrong, 0U);
}

TEST_F(HostTierActorTest, AStateAboveTheBoundIsRestoredAlone) {
  start(true, {.loading_bytes = 6 << 20});  // the state has 7 MiB, the shorter one 5
  store(64, 2);
  const Fetched large = fetch(0);
  ASSERT_TRUE(large.state);
  EXPECT_EQ(large.state->stored, 200U);
  const Fetched none = fetch(0);
  EXPECT_FALSE(none.state) << "while the other is held";
  EXPECT_EQ(none.reason, MissReason::kNoMemory);
}

TEST_F(HostTierActorTest, AShorterStateIsTriedForLackOfMemory) {
  start(true, {.loading_bytes = 14 << 20});
  store(64, 2);
  const Fetched large = fetch(0), shorter = fetch(0);
  ASSERT_TRUE(large.state && shorter.state);
  EXPECT_EQ(large.state->stored, 200U);
  EXPECT_EQ(shorter.state->stored, 64U);
}

TEST_F(HostTierActorTest, StatesOfAnUnloadedModelAreFreed) {
  start(true);
  const auto unload = [&](std::uint64_t model, const char* prefix) {
    tier_.tell(protocol::UnloadStates{.model = model, .prefix = prefix});
  };
  unload(8, "");
  unload(7, "adapter");
  EXPECT_TRUE(fetch(0).state) << "another model, another namespace";
  const std::uint64_t held = figures_->bytes.load();
  EXPECT_GT(held, 0U);
  tier_.tell(protocol::StoreState{.kind = kKind,
                                  .name_space = "adapter 1",
                                  .tokens = prompt_,
                                  .at = 200,
                                  .snapshot = {.generation = 1, .number = 2},
                                  .worker = device_});
  ASSERT_TRUE(eventually([&] { return figures_->bytes.load() == 2 * held; }));
  unload(7, "adapter 1");
  EXPECT_TRUE(eventually([&] { return figures_->bytes.load() == held; }));
  EXPECT_TRUE(fetch(0).state) << "the model's own";
  unload(7, "");
  EXPECT_TRUE(eventually([&] { return figures_->bytes.load() == 0; }));
  EXPECT_FALSE(fetch(0).state);
}

TEST_F(HostTierActorTest, WhatIsComputedSoonerIsLeft) {
  start(false);
  EXPECT_TRUE(fetch(1e-9).state) << "nobody knows yet how long it takes";
  TierFigures::add(figures_->load_ns, 3'600'000'000'000);  // 1 h
  const Fetched left = fetch(1e-3);
  EXPECT_FALSE(left.state);
  EXPECT_EQ(left.reason, MissReason::kSlowerThanComputing);
  EXPECT_EQ(figures_->slower.load(), 1U);
  EXPECT_TRUE(fetch(0).state) << "nobody knows how long computing takes";
  EXPECT_TRUE(fetch(3600).state);
}

}  // namespace
}  // namespace reprise::actors
