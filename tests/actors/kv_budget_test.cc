// Requests with a KV budget (kv_budget) in the engine: the same answer cold and cached, no compacted state in
// the cache, and no effect without a budget.

#include "tests/actors/engine_harness.h"
#include "tests/require.h"

namespace reprise::actors {
namespace {

constexpr std::uint32_t kTokens = 120;  // the budget
constexpr std::uint32_t kReply = 12;

class KvBudgetTest : public testing::TestWithParam<OnDevice> {
 protected:
  static EngineOptions options() { return EngineHarness::defaults(GetParam().device, GetParam().model); }
  static protocol::GenerateRequest within(TokenList prompt, std::optional<std::uint32_t> budget = kTokens) {
    protocol::GenerateRequest query = EngineHarness::request(std::move(prompt), kReply);
    query.cache.kv_budget = budget;
    return query;
  }
  static Reply cold(EngineHarness& harness, protocol::GenerateRequest query) {
    query.cache.enabled = false;
    return harness.ask(std::move(query));
  }
};

TEST_P(KvBudgetTest, ColdAndCachedAgreeAndTheWindowIsComputed) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(600, 1);
  const Reply first = harness.ask(within(prompt));
  ASSERT_FALSE(first.error.has_value()) << first.error->message;
  ASSERT_TRUE(first.usage.kv.has_value());
  EXPECT_EQ(first.usage.kv->tokens, kTokens);
  EXPECT_EQ(first.usage.kv->full_bytes, 5 * first.usage.kv->bytes) << "ten pages and two";
  EXPECT_EQ(harness.figure("kv_compactions_total"), 1);
  EXPECT_EQ(harness.figure("kv_compacted_kept_bytes_total"), static_cast<double>(first.usage.kv->bytes));
  const Reply again = harness.ask(within(prompt));
  EXPECT_GE(again.cache.restored_tokens, 512U);
  EXPECT_LE(again.cache.restored_tokens, 600U - KvBudget{}.window);
  EXPECT_TRUE(again.choices == first.choices);
  EXPECT_TRUE(cold(harness, within(prompt)).choices == first.choices);
  EXPECT_FALSE(harness.cold(prompt, kReply).choices == first.choices) << "the budget changed nothing";
  // The next turn continues from exact states.
  const TokenList next = prompt + first.tokens() + random_tokens(90, 2);
  const Reply turn = harness.ask(within(next));
  EXPECT_GE(turn.cache.restored_tokens, 512U);
  EXPECT_TRUE(turn.choices == cold(harness, within(next)).choices);
  expect_nothing_held(harness);
}

TEST_P(KvBudgetTest, CompactedStatesAreNotCached) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(500, 3);
  const Reply compacted = harness.ask(within(prompt));
  ASSERT_FALSE(compacted.error.has_value()) << compacted.error->message;
  for (const TokenList& next : {prompt + compacted.tokens() + random_tokens(30, 4), prompt}) {
    const Reply plain = harness.ask(next, kReply);
    EXPECT_LE(plain.cache.restored_tokens, 500U);
    EXPECT_TRUE(plain.choices == harness.cold(next, kReply).choices);
  }
}

TEST_P(KvBudgetTest, OffOrLongerThanThePromptChangesNothing) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(300, 5);
  const Reply plain = harness.ask(within(prompt, std::nullopt));
  for (const std::uint32_t budget : {0U, 300U, 5000U}) {
    const Reply reply = harness.ask(within(prompt, budget));
    EXPECT_TRUE(reply.choices == plain.choices) << budget;
    EXPECT_FALSE(reply.usage.kv.has_value());
    EXPECT_GE(reply.cache.restored_tokens, 256U);
  }
  EXPECT_EQ(harness.figure("kv_compactions_total"), 0);
}

TEST_P(KvBudgetTest, ModelBudgetIsTheDefaultOfRequests) {
  EngineHarness plain(options());
  EngineOptions settings = options();
  settings.models[0].kv = {.tokens = kTokens, .window = 16, .sinks = 0, .pooling = KvBudget::Pooling::kMax};
  EngineHarness harness(settings);
  const TokenList prompt = random_tokens(400, 6);
  EXPECT_EQ(harness.ask(prompt).usage.kv.value_or(KvKept{}).tokens, kTokens);
  const Reply off = harness.ask(within(prompt, 0));
  EXPECT_FALSE(off.usage.kv.has_value());
  EXPECT_TRUE(off.choices == plain.ask(within(prompt, std::nullopt)).choices);
}

TEST_P(KvBudgetTest, SeveralChoicesGoOnFromIt) {
  const auto three = [](const TokenList& prompt) {
    protocol::GenerateRequest query = within(prompt);
    query.n = 3;
    query.sampling.temperature = 1.0;
    query.sampling.seed = 5;
    return query;
  };
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(400, 7);
  const Reply all = harness.ask(three(prompt));
  ASSERT_FALSE(all.error.has_value()) << all.error->message;
  ASSERT_EQ(all.choices.size(), 3U);
  EXPECT_TRUE(harness.ask(three(prompt)).choices == all.choices);
  expect_nothing_held(harness);
}

TEST_P(KvBudgetTest, TooFewAreRefusedByName) {
  EngineHarness harness(options());
  const Reply refused = harness.ask(within(random_tokens(50, 8), 20));
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->kind, protocol::ErrorKind::kInvalid);
  EXPECT_EQ(refused.error->param, "kv_budget");
  EXPECT_NE(refused.error->message.find("at least 36"), std::string::npos) << refused.error->message;
}

// More sequences than fit in memory: compacted ones are swapped out, and answer as if alone.
TEST_P(KvBudgetTest, TheSameAnswersInLittleMemory) {
  const auto long_reply = [](std::uint32_t client) {
    protocol::GenerateRequest request = within(random_tokens(500 + 13 * client, client));
    request.max_tokens = 300;
    return request;
  };
  EngineHarness ample(options());
  EngineOptions settings = options();
  settings.worker.reply_tokens_reserved = 1;
  const std::uint64_t whole = ample.ask(long_reply(5)).usage.kv.value_or(KvKept{}).full_bytes;
  for (settings.worker.state_bytes = whole;; settings.worker.state_bytes += whole / 4) {  // until one fits
    EngineHarness narrow(settings);
    if (!narrow.ask(long_reply(5)).error.has_value()) break;
  }
  settings.worker.state_bytes += settings.worker.state_bytes / 2;
  EngineHarness harness(settings);
  std::vector<std::thread> clients;
  for (std::uint32_t c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      for (std::uint32_t i = 0; i < 2; ++i) {
        const Reply reply = harness.ask(long_reply(c));
        ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
        EXPECT_TRUE(reply.choices == ample.ask(long_reply(c)).choices);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  expect_nothing_held(harness);
}

INSTANTIATE_TEST_SUITE_P(Places, KvBudgetTest,
                         testing::ValuesIn(present({{"cpu", "qwen3_5_text"},
                                                    {"cpu", "llama"},
                                                    {"cpu-grid", "qwen3_5_text"},
                                                    {"cuda:0", "qwen3_5_text"},
                                                    {"cuda:0", "llama"}})),
                         name_of_pair);

TEST(KvBudgetRefusals, ModelsThatCannotKeepToOneSayWhy) {
  EngineHarness latent(EngineHarness::defaults("cpu", "kimi_linear"));
  protocol::GenerateRequest query = EngineHarness::request(random_tokens(300, 9));
  query.cache.kv_budget = kTokens;
  const Reply refused = latent.ask(query);
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->kind, protocol::ErrorKind::kInvalid);
  EXPECT_NE(refused.error->message.find("latent"), std::string::npos) << refused.error->message;
  runtime::System system({.workers = 2});
  EngineOptions options = EngineHarness::defaults("cpu", "kimi_linear");
  options.models[0].kv.tokens = kTokens;
  Engine engine(system, options);
  const auto error = engine.wait_until_ready(60s);
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->message.find("kv_budget"), std::string::npos) << error->message;
}

}  // namespace
}  // namespace reprise::actors
