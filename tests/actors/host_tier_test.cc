// Host memory as a tier (common tests: tiers_test.cc): the transfer buffers.

#include <cstring>

#include "gpu/state/transfer_buffers.h"
#include "tests/actors/tier_fixture.h"

namespace reprise::actors {
namespace {

using protocol::Tier;

class HostTierTest : public TierFixture, public testing::WithParamInterface<OnDevice> {};

TEST_P(HostTierTest, FetchedStatesUseTheTransferBuffers) {
  constexpr int kNaN = 0xFF;
  EngineOptions given = host_options(GetParam());
  given.host.buffers = std::make_shared<gpu::TransferBuffers>(
      [](std::size_t bytes) {
        std::shared_ptr<std::byte> block(new std::byte[bytes], std::default_delete<std::byte[]>());
        std::memset(block.get(), kNaN, bytes);
        return block;
      },
      64ULL << 20);
  EngineHarness engine(given);
  const Reply first = engine.ask(prompt_);
  engine.settle();
  EXPECT_GT(given.host.buffers->made_bytes(), 0U) << "made before there is a hurry";
  engine.ask(random_tokens(200, 2));
  engine.settle();
  const std::uint64_t made = given.host.buffers->made_bytes();
  const TokenList next = prompt_ + first.tokens() + random_tokens(70, 3);
  const Reply restored = engine.ask(next);
  ASSERT_FALSE(restored.error) << restored.error->message;
  EXPECT_EQ(restored.cache.tier, Tier::kHost);
  EXPECT_EQ(restored.choices, engine.cold(next).choices) << "the bits of a cold run";
  EXPECT_EQ(given.host.buffers->made_bytes(), made) << "one that was there was used";
}

INSTANTIATE_TEST_SUITE_P(Devices, HostTierTest,
                         testing::ValuesIn(present({{"cpu", "llama"},
                                                    {"cpu", "qwen3_5_text"},
                                                    {"cpu-grid", "qwen3_5_text"},
                                                    {"cuda:0", "qwen3_5_text"}})),
                         name_of_pair);

}  // namespace
}  // namespace reprise::actors
