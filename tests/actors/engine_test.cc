// The engine through its public interface: the tokens restored, and equal answers with and without the cache.

#include "tests/actors/engine_harness.h"

namespace reprise::actors {
namespace {

class EngineTest : public testing::TestWithParam<OnDevice> {
 protected:
  EngineHarness harness_{EngineHarness::defaults(GetParam().device, GetParam().model)};
  bool grid() const { return GetParam().device != "cpu"; }
  std::uint32_t on_grid(std::uint32_t tokens) const { return grid() ? tokens / 64 * 64 : tokens; }
};

TEST_P(EngineTest, TurnsOfRawPrompts) {
  constexpr std::uint32_t kLength = 1024;
  const auto row = [&](const char* what, const TokenList& prompt, std::uint32_t asked_for) {
    const Reply cold = harness_.cold(prompt);
    const Reply warm = harness_.ask(prompt);
    EXPECT_FALSE(warm.error.has_value()) << what << ": " << warm.error->message;
    EXPECT_TRUE(warm.choices == cold.choices) << what;
    EXPECT_GE(warm.cache.restored_tokens, on_grid(asked_for)) << what << ": " << name_of(warm.cache.reason);
    EXPECT_EQ(warm.cache.restored_tokens + warm.cache.prefilled_tokens, prompt.size()) << what;
    EXPECT_EQ(cold.cache.reason, MissReason::kRefused);
    return warm.tokens();
  };
  const TokenList a = random_tokens(kLength, 1);
  const TokenList reply = row("cold", a, 0);
  const TokenList a2 = a + reply + random_tokens(32, 2);
  row("the next turn", a2, kLength - 1);
  row("the same again", a2, static_cast<std::uint32_t>(a2.size() - 1));
  row("another conversation", random_tokens(kLength, 3), 0);
  row("back to the first", a2 + random_tokens(32, 4), static_cast<std::uint32_t>(a2.size() - 1));
  const TokenList middle = first(a, kLength / 2);
  row("a branch from the middle", middle + random_tokens(256, 5), 0);
  row("another branch", middle + random_tokens(256, 6), kLength / 2);
  const TokenList edited = random_tokens(kLength, 7);
  row("a long prompt", edited, 0);
  for (const double at : {.9, .7, .5, .3}) {
    const auto cut = static_cast<std::uint32_t>(kLength * at);
    row("an edit", first(edited, cut) + random_tokens(100, static_cast<std::uint32_t>(100 * at)),
        static_cast<std::uint32_t>(cut * .75) - 64);
  }
  const TokenList shared = random_tokens(kLength, 8);
  row("a shared beginning, once", shared + random_tokens(48, 9), 0);
  row("twice", shared + random_tokens(48, 10), 0);
  row("a third time", shared + random_tokens(48, 11), kLength);
  EXPECT_TRUE(harness_.eventually([&] { return harness_.figure("sequences") == 0; }));
}

TEST_P(EngineTest, APinnedPromptOutlivesOthers) {
  EngineOptions options = EngineHarness::defaults(GetParam().device, GetParam().model);
  options.registry.cache.max_entries = 3;
  EngineHarness engine(options);
  const TokenList kept = random_tokens(200, 1), passing = random_tokens(200, 2);
  protocol::GenerateRequest query = EngineHarness::request(kept, 2);
  query.cache.pin = std::chrono::seconds(1000);
  const Reply pinned = engine.ask(query);
  EXPECT_GE(pinned.usage.cache.pinned_tokens, 128U);
  EXPECT_EQ(engine.figure("cache_pinned"), 1);
  EXPECT_EQ(engine.ask(passing, 2).usage.cache.pinned_tokens, 0U);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_FALSE(engine.ask(random_tokens(200, 10 + i), 2).error);
  EXPECT_EQ(engine.ask(kept, 2).cache.restored_tokens, std::min(pinned.usage.cache.pinned_tokens, 199U));
  EXPECT_LT(engine.ask(passing, 2).cache.restored_tokens, 128U);
}

TEST_P(EngineTest, EndsInTheMiddleOfAStep) {
  for (std::uint32_t i = 0; i < 8; ++i) {
    auto harness =
        std::make_unique<EngineHarness>(EngineHarness::defaults(GetParam().device, GetParam().model));
    auto events = harness->engine().generate(EngineHarness::request(random_tokens(2048, i), 1'000'000));
    const WorkerFigures& figures = harness->engine().device_figures(GetParam().device);
    ASSERT_TRUE(harness->eventually([&] { return figures.step_began_ns.load() != 0; }));
    harness.reset();
    const Reply reply = read_all(std::move(events));
    EXPECT_FALSE(reply.done);
    EXPECT_TRUE(reply.error.has_value());
  }
}

std::vector<OnDevice> everywhere() {
  std::vector<OnDevice> all;
  for (const char* model : {"qwen3_5_text", "qwen3"}) {
    for (const std::string& device : test_devices()) all.push_back({device, model});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Devices, EngineTest, testing::ValuesIn(everywhere()), name_of_pair);

}  // namespace
}  // namespace reprise::actors
