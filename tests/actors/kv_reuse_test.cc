// Compacted states across turns (kv_reuse), through the whole engine: what a turn goes on from, when it does not, and that nothing of
// it meets exact states.

#include "models/model.h"
#include "tests/actors/engine_harness.h"
#include "tests/require.h"

namespace reprise::actors {
namespace {

constexpr std::uint32_t kReuseBudget = 200;
constexpr std::uint32_t kReuseReply = 48;    // comes to a place of the grid
constexpr std::uint32_t kReusePrompt = 600;  // of the first turn

class KvReuseTest : public testing::TestWithParam<OnDevice> {
 protected:
  static EngineOptions options() { return EngineHarness::defaults(GetParam().device, GetParam().model); }
  static bool on_grid() { return GetParam().device != "cpu"; }
  static protocol::GenerateRequest turn(TokenList prompt, std::optional<bool> reuse = true,
                                        std::uint32_t budget = kReuseBudget) {
    protocol::GenerateRequest wish = EngineHarness::request(std::move(prompt), kReuseReply);
    wish.kv_budget = budget;
    wish.kv_reuse = reuse;
    return wish;
  }
  static std::uint32_t reused(const Reply& reply) {
    EXPECT_FALSE(reply.error.has_value()) << reply.error->message;
    return reply.usage.kv_reused;
  }
  /// Tokens that the state behind a turn is of: all but the last, or those up to the last place of the grid.
  static std::uint32_t kept_behind(std::size_t prompt) {
    const auto tokens = static_cast<std::uint32_t>(prompt + kReuseReply - 1);
    return on_grid() ? tokens / 64 * 64 : tokens;
  }
};

TEST_P(KvReuseTest, TheNextTurnGoesOnFromItAndSaysSo) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(kReusePrompt, 1);
  const Reply first = harness.ask(turn(prompt));
  EXPECT_EQ(reused(first), 0U);
  ASSERT_TRUE(first.usage.kv.has_value());
  const TokenList next = prompt + first.tokens() + random_tokens(30, 2);
  const Reply second = harness.ask(turn(next));
  EXPECT_EQ(reused(second), kept_behind(kReusePrompt));
  EXPECT_EQ(second.cache.restored_tokens, kept_behind(kReusePrompt));
  EXPECT_EQ(second.usage.kv->tokens, first.usage.kv->tokens + next.size() - kReusePrompt);
  EXPECT_LT(second.usage.kv->bytes, second.usage.kv->full_bytes);
  EXPECT_EQ(harness.figure("kv_compactions_total"), 1) << "what is gone on from is kept whole";
  EXPECT_EQ(harness.figure("kv_compacted_reuses_total"), 1);
  const Reply anew = harness.ask(turn(next, false));
  EXPECT_EQ(reused(anew), 0U);
  EXPECT_FALSE(anew.choices == second.choices) << "the two are the same: nothing was shown";
  // The third from the second's.
  const TokenList third = next + second.tokens() + random_tokens(10, 3);
  EXPECT_EQ(reused(harness.ask(turn(third))), kept_behind(next.size()));
  expect_nothing_held(harness);
}

TEST_P(KvReuseTest, AnswersDoNotDependOnHowOftenOrHowSliced) {
  const TokenList prompt = random_tokens(kReusePrompt, 4);
  std::optional<Reply> expected;
  for (const std::uint32_t slice : {4096U, 64U}) {
    EngineOptions wish = options();
    wish.worker.batch = BatchLimits{.tokens = slice};
    EngineHarness harness(wish);
    const Reply first = harness.ask(turn(prompt));
    const TokenList next = prompt + first.tokens() + random_tokens(90, 5);
    for (int i = 0; i < 2; ++i) {
      const Reply second = harness.ask(turn(next));
      EXPECT_EQ(reused(second), kept_behind(kReusePrompt));
      if (!expected) expected = second;
      EXPECT_TRUE(second.choices == expected->choices) << slice;
    }
  }
}

TEST_P(KvReuseTest, WithoutItNothingOfItIsThere) {
  EngineHarness plain(options());
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(kReusePrompt, 6);
  const Reply off = plain.ask(turn(prompt, std::nullopt));
  EXPECT_EQ(plain.figure("cache_namespaces"), 1);
  const TokenList next = prompt + off.tokens() + random_tokens(30, 7);
  const Reply off_next = plain.ask(turn(next, std::nullopt));
  EXPECT_EQ(reused(off_next), 0U);
  // Nor for those who do not ask for it where others do.
  const Reply on = harness.ask(turn(prompt));
  EXPECT_EQ(harness.figure("cache_namespaces"), 2);
  EXPECT_TRUE(on_grid() || on.choices == off.choices);
  static_cast<void>(harness.ask(turn(prompt + on.tokens() + random_tokens(30, 8))));
  EXPECT_TRUE(harness.ask(turn(next, false)).choices == off_next.choices);
  const Reply exact = harness.ask(prompt + on.tokens() + random_tokens(40, 9), kReuseReply);
  EXPECT_FALSE(exact.usage.kv.has_value());
  EXPECT_TRUE(exact.choices ==
              harness.cold(prompt + on.tokens() + random_tokens(40, 9), kReuseReply).choices);
}

TEST_P(KvReuseTest, OthersDoNotFindIt) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(kReusePrompt, 10);
  const TokenList next = prompt + harness.ask(turn(prompt)).tokens() + random_tokens(30, 11);
  EXPECT_EQ(reused(harness.ask(turn(next, true, kReuseBudget + 1))), 0U) << "another budget";
  protocol::GenerateRequest other = turn(next);
  other.name_space = "1:b:";
  EXPECT_EQ(reused(harness.ask(other)), 0U) << "another tenant";
  protocol::GenerateRequest cold = turn(next);
  cold.cache_prompt = false;
  EXPECT_EQ(reused(harness.ask(cold)), 0U) << "one that reads no cache";
  EXPECT_GT(reused(harness.ask(turn(next))), 0U);
}

TEST_P(KvReuseTest, WhatHasOutgrownItIsCompactedAnew) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(kReusePrompt, 12);
  const TokenList next = prompt + harness.ask(turn(prompt)).tokens() + random_tokens(230, 13);
  const Reply second = harness.ask(turn(next));
  EXPECT_EQ(reused(second), 0U);
  ASSERT_TRUE(second.usage.kv.has_value());
  EXPECT_LE(second.usage.kv->tokens, kReuseBudget);
  EXPECT_TRUE(on_grid() || second.choices == harness.ask(turn(next, false)).choices);
  EXPECT_EQ(reused(harness.ask(turn(next + second.tokens() + random_tokens(5, 14)))),
            kept_behind(next.size()));
  expect_nothing_held(harness);
}

TEST_P(KvReuseTest, OfTheModelHoldsForRequestsThatSayNothing) {
  EngineOptions wish = options();
  wish.models[0].kv.tokens = kReuseBudget;
  wish.models[0].kv_reuse = true;
  EngineHarness harness(wish);
  const TokenList prompt = random_tokens(kReusePrompt, 15);
  const TokenList next = prompt + harness.ask(prompt, kReuseReply).tokens() + random_tokens(30, 16);
  EXPECT_EQ(reused(harness.ask(turn(next, false))), 0U);
  EXPECT_GT(reused(harness.ask(next, kReuseReply)), 0U);
}

TEST_P(KvReuseTest, SeveralChoicesLeaveOneEach) {
  EngineHarness harness(options());
  protocol::GenerateRequest three = turn(random_tokens(kReusePrompt, 17));
  three.n = 3;
  three.sampling.temperature = 1.0;
  three.sampling.seed = 5;
  const Reply all = harness.ask(three);
  ASSERT_EQ(all.choices.size(), 3U);
  for (const Reply::Choice& choice : all.choices) {
    const TokenList next = random_tokens(kReusePrompt, 17) + choice.tokens + random_tokens(9, 18);
    EXPECT_EQ(reused(harness.ask(turn(next))), kept_behind(kReusePrompt));
  }
  expect_nothing_held(harness);
}

// Many in a memory for few: states go, sequences give way; each answer is one of the two that there are, and says which.
TEST_P(KvReuseTest, InLittleMemoryAnAnswerIsWhatItSays) {
  EngineHarness roomy(options());
  struct Talk {
    TokenList prompt, next;
    Reply first, reused, anew;
  };
  std::vector<Talk> talks(4);
  for (std::uint32_t c = 0; c < talks.size(); ++c) {
    Talk& talk = talks[c];
    talk.prompt = random_tokens(kReusePrompt + 13 * c, 20 + c);
    talk.first = roomy.ask(turn(talk.prompt));
    talk.next = talk.prompt + talk.first.tokens() + random_tokens(30, 30 + c);
    talk.reused = roomy.ask(turn(talk.next));
    EXPECT_GT(reused(talk.reused), 0U)
        << "talk " << c << ", " << protocol::name_of(talk.reused.cache.reason) << ", known "
        << talk.reused.cache.known_tokens << ", restored " << talk.reused.cache.restored_tokens;
    EngineHarness fresh(options());
    talk.anew = fresh.ask(turn(talk.next));
    EXPECT_EQ(reused(talk.anew), 0U);
  }
  EngineOptions wish = options();
  wish.worker.reply_tokens_priced = 1;
  const std::uint64_t whole = talks[3].first.usage.kv.value_or(KvKept{}).full_bytes;
  for (wish.worker.state_bytes = whole;; wish.worker.state_bytes += whole / 4) {  // until one fits
    EngineHarness narrow(wish);
    if (!narrow.ask(turn(talks[3].next)).error.has_value()) break;
  }
  wish.worker.state_bytes += wish.worker.state_bytes / 2;
  EngineHarness harness(wish);
  std::vector<std::thread> clients;
  for (const Talk& talk : talks) {
    clients.emplace_back([&] {
      for (int i = 0; i < 2; ++i) {
        const Reply first = harness.ask(turn(talk.prompt));
        ASSERT_FALSE(first.error.has_value()) << first.error->message;
        EXPECT_TRUE(first.choices == talk.first.choices);
        const Reply second = harness.ask(turn(talk.next));
        const bool went_on = reused(second) > 0;
        EXPECT_TRUE(second.choices == (went_on ? talk.reused : talk.anew).choices) << went_on;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  expect_nothing_held(harness);
}

INSTANTIATE_TEST_SUITE_P(Places, KvReuseTest,
                         testing::ValuesIn(present({{"cpu", "qwen3_5_text"},
                                                    {"cpu", "llama"},
                                                    {"cpu-grid", "qwen3_5_text"},
                                                    {"cuda:0", "qwen3_5_text"},
                                                    {"cuda:0", "llama"}})),
                         name_of_pair);

// The definition, without an engine: the prompt compacted, the reply fed token by token, the rest of the next prompt behind it.
class ReuseReference : public testing::TestWithParam<std::string> {};

TEST_P(ReuseReference, IsTheSequenceThatNeverLeft) {
  EngineHarness harness(EngineHarness::defaults("cpu", GetParam()));
  const auto ask = [&](TokenList prompt) {
    protocol::GenerateRequest wish = EngineHarness::request(std::move(prompt), kReuseReply);
    wish.kv_budget = kReuseBudget;
    wish.kv_reuse = true;
    return harness.ask(std::move(wish));
  };
  const TokenList prompt = random_tokens(kReusePrompt, 40);
  const Reply first = ask(prompt);
  const TokenList next = prompt + first.tokens() + random_tokens(40, 41);
  const Reply second = ask(next);
  ASSERT_EQ(second.usage.kv_reused, kReusePrompt + kReuseReply - 1);

  gpu::Threads threads(1);
  const auto model =
      models::load_on_cpu(model_path(GetParam()), models::compute_options("auto", "auto", ""), threads);
  gpu::StateStore store(model->state().sizes(), {.pages = 100, .slots = 4});
  std::optional<gpu::Sequence> sequence = store.open();
  ASSERT_TRUE(sequence && sequence->reserve(kReusePrompt));
  const KvBudget budget{.tokens = kReuseBudget};
  const auto tail = models::PromptTail::make(model->state().tail_bytes(), budget.window);
  const auto feed = [&](std::span<const TokenId> tokens, models::PromptTail* remembered) {
    EXPECT_TRUE(sequence->reserve(tokens.size()));
    const models::Slice slice{.sequence = &*sequence, .tokens = tokens, .tail = remembered};
    const std::span<const float> logits = model->forward({&slice, 1});
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  };
  TokenId best = feed(prompt, tail.get());
  std::optional<gpu::PageRun> pages = store.take_pages(kReuseBudget);
  ASSERT_TRUE(pages.has_value());
  model->compact({.sequence = &*sequence, .tail = tail.get(), .budget = budget, .into = &*pages});
  sequence->replace_pages(std::move(*pages), kReuseBudget);
  const auto decode = [&] {
    TokenList reply = {best};
    while (reply.size() < kReuseReply) reply.push_back(feed(std::span(reply).last(1), nullptr));
    return reply;
  };
  EXPECT_EQ(decode(), first.tokens());
  best = feed(std::span(next).subspan(kReusePrompt + kReuseReply - 1), nullptr);
  EXPECT_EQ(decode(), second.tokens());
}

INSTANTIATE_TEST_SUITE_P(Models, ReuseReference, testing::Values("qwen3_5_text", "llama"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace reprise::actors
