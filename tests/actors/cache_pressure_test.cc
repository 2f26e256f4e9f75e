// The engine with little memory and with long replies: waiting for memory, and states restored inside a
// reply.

#include "tests/actors/engine_harness.h"

namespace reprise::actors {
namespace {

EngineOptions small_engine(std::uint64_t bytes) {
  EngineOptions options = EngineHarness::defaults("cpu", "qwen3_5_text");
  options.worker.state_bytes = bytes;
  return options;
}

bool at_rest(EngineHarness& harness) {
  return harness.figure("requests_running") == 0 && harness.figure("sequences") == 0;
}

constexpr std::uint32_t kPrompt = 300;  // tokens

/// Bytes that hold about `conversations` of these prompts.
std::uint64_t memory_for(int conversations) {
  EngineHarness probe(EngineHarness::defaults("cpu", "qwen3_5_text"));
  EXPECT_FALSE(probe.ask(random_tokens(kPrompt, 1), 4).error);
  EXPECT_TRUE(probe.eventually([&] { return at_rest(probe); }));
  return static_cast<std::uint64_t>(probe.figure("cache_bytes")) * static_cast<std::uint64_t>(conversations);
}

// How much is freed ahead of need in a larger memory is MemoryReclaimer's, tested in memory_pressure_test.cc.
TEST(CachePressure, InASmallMemoryNothingGoesBeforeItIsNeeded) {
  constexpr int kConversations = 4;  // one of which takes more than a sixteenth of the memory
  EngineHarness harness(small_engine(memory_for(kConversations)));
  for (std::uint32_t i = 0; i < kConversations * 2; ++i) {
    EXPECT_FALSE(harness.ask(random_tokens(kPrompt, 100 + i), 4).error);
    EXPECT_TRUE(harness.eventually([&] { return at_rest(harness); }));
  }
  EXPECT_GT(harness.figure("cache_evicted_total"), 0);
  EXPECT_EQ(harness.figure("reclaims_ahead_total"), 0);
}

TEST(CachePressure, AConversationThatFillsTheMemoryAloneIsKept) {
  const TokenList prompt = random_tokens(600, 7);
  std::uint64_t bytes = 0;
  {
    EngineHarness probe(EngineHarness::defaults("cpu", "qwen3_5_text"));
    EXPECT_FALSE(probe.ask(prompt, 4).error);
    EXPECT_TRUE(probe.eventually([&] { return at_rest(probe); }));
    bytes = static_cast<std::uint64_t>(probe.figure("cache_bytes"));
  }
  EngineHarness harness(small_engine(bytes * 4));
  const Reply first = harness.ask(prompt, 4);
  ASSERT_FALSE(first.error) << first.error->message;
  ASSERT_TRUE(harness.eventually([&] { return at_rest(harness); }));
  const Reply again = harness.ask(prompt + first.tokens() + random_tokens(3, 8), 4);
  ASSERT_FALSE(again.error) << again.error->message;
  EXPECT_GE(again.cache.restored_tokens, prompt.size() - 1)
      << name_of(again.cache.reason) << ", entries " << harness.figure("cache_entries") << ", evicted "
      << harness.figure("cache_evicted_total") << ", evicted themselves "
      << harness.figure("cache_self_evicted_total");
}

// -- many at once

/// Returns the maximum number of sequences open at once while that many conversations with a common prefix
/// ran.
double max_at_once(std::uint64_t bytes, int conversations, bool shares) {
  EngineOptions options = EngineHarness::defaults("cpu", "qwen3");
  options.worker.state_bytes = bytes;
  options.requests.max_wait = 10min;  // however slow the machine
  EngineHarness harness(options);
  const TokenList beginning = random_tokens(1024, 51);
  const auto request = [&](int who) {
    protocol::GenerateRequest query = EngineHarness::request(beginning + random_tokens(20, 100 + who), 4);
    query.cache.enabled = shares;
    return query;
  };
  const Reply alone = harness.ask(request(0));
  std::vector<runtime::StreamReader<protocol::Event>> streams;
  for (int who = 0; who < conversations; ++who) streams.push_back(harness.engine().generate(request(who)));
  for (int who = 0; who < conversations; ++who) {
    const Reply reply = read_all(std::move(streams[static_cast<std::size_t>(who)]));
    EXPECT_FALSE(reply.error) << reply.error->message;
    if (who == 0) {
      EXPECT_EQ(reply.choices, alone.choices);
    }
  }
  expect_nothing_held(harness);
  return harness.figure("sequences_most");
}

TEST(Sharing, CommonPrefixLetsManyMoreConversationsFit) {
  constexpr int kConversations = 50;
  std::uint64_t one = 0;
  {
    EngineHarness probe(EngineHarness::defaults("cpu", "qwen3"));
    ASSERT_FALSE(probe.ask(random_tokens(1044, 51), 4).error);
    ASSERT_TRUE(probe.eventually([&] { return at_rest(probe); }));
    one = static_cast<std::uint64_t>(probe.figure("cache_bytes"));
  }
  const double apart = max_at_once(6 * one, 8, false);  // more than fit
  const double shared = max_at_once(6 * one, kConversations, true);
  EXPECT_LE(apart, 6);
  EXPECT_GE(shared, 5 * apart) << "of pages that are the same there is one";
}

// -- checkpoints inside replies

constexpr std::uint32_t kEvery = 64;

EngineOptions with_reply_checkpoints(const std::string& device, const std::string& model) {
  EngineOptions options = EngineHarness::defaults(device, model);
  options.requests.reply_checkpoint_tokens = kEvery;
  options.requests.prefill_history = true;  // in idle work, where no decoding interferes
  return options;
}

class ReplyCheckpointsOf : public ::testing::TestWithParam<OnDevice> {};

TEST_P(ReplyCheckpointsOf, EditedReplyIsRestoredNearTheEdit) {
  EngineHarness harness(with_reply_checkpoints(GetParam().device, GetParam().model));
  const TokenList prompt = random_tokens(100, 11);
  const Reply first = harness.ask(prompt, 300);
  ASSERT_FALSE(first.error) << first.error->message;
  ASSERT_TRUE(harness.eventually(
      [&] { return at_rest(harness) && harness.figure("cache_inserts_total", "reply") >= 1; }));
  for (const std::size_t cut : {290, 200, 150}) {
    const TokenList edited = prompt + reprise::actors::first(first.tokens(), cut) + random_tokens(5, 12);
    const Reply warm = harness.ask(edited, 8);
    const Reply cold = harness.cold(edited, 8);
    ASSERT_FALSE(warm.error || cold.error);
    EXPECT_EQ(warm.choices, cold.choices) << "edited at " << cut;
    EXPECT_GT(warm.cache.restored_tokens, prompt.size()) << "edited at " << cut;
    EXPECT_GE(warm.cache.restored_tokens + 2 * kEvery, prompt.size() + cut) << "edited at " << cut;
  }
}

TEST_P(ReplyCheckpointsOf, ReplyCutOffByItsClientIsRestoredNearItsEnd) {
  EngineHarness harness(with_reply_checkpoints(GetParam().device, GetParam().model));
  const TokenList prompt = random_tokens(100, 21);
  TokenList seen;
  {
    protocol::GenerateRequest request = EngineHarness::request(prompt, 3000);
    runtime::StreamReader<protocol::Event> events = harness.engine().generate(std::move(request));
    while (seen.size() < 3 * kEvery + 5) {
      runtime::Result<protocol::Event> event = events.next_blocking(runtime::Clock::now() + 60s);
      ASSERT_TRUE(event.ok());
      const auto* delta = std::get_if<protocol::Delta>(&*event);
      if (delta == nullptr) continue;
      for (const protocol::ReplyToken& token : delta->tokens) seen.push_back(token.id);
    }
  }  // destroys the engine
  ASSERT_TRUE(harness.eventually(
      [&] { return at_rest(harness) && harness.figure("cache_inserts_total", "reply") >= 1; }));
  const TokenList back = prompt + seen;
  const Reply warm = harness.ask(back, 8);
  const Reply cold = harness.cold(back, 8);
  ASSERT_FALSE(warm.error || cold.error);
  EXPECT_EQ(warm.choices, cold.choices);
  EXPECT_GE(warm.cache.restored_tokens + 2 * kEvery, back.size());
}

TEST_P(ReplyCheckpointsOf, OneConversationHasItsShareOfThem) {
  EngineOptions options = with_reply_checkpoints(GetParam().device, GetParam().model);
  options.requests.reply_checkpoint_tokens = 16;
  options.registry.cache.max_in_replies = 4;
  options.requests.reply_checkpoints = 4;
  EngineHarness harness(options);
  const Reply reply = harness.ask(random_tokens(100, 31), 400);
  ASSERT_FALSE(reply.error) << reply.error->message;
  ASSERT_TRUE(harness.eventually(
      [&] { return at_rest(harness) && harness.figure("cache_inserts_total", "reply") >= 1; }));
  const double gone = harness.figure("cache_capped_total") + harness.figure("cache_superseded_total");
  EXPECT_LE(harness.figure("cache_inserts_total", "reply") - gone, 5)
      << "four, and the end of what was prefilled";
}

TEST(ReplyCheckpoints, NoneWhereTheyAreTurnedOff) {
  EngineOptions options = EngineHarness::defaults("cpu", "qwen3_5_text");
  options.requests.reply_checkpoint_tokens = 0;
  EngineHarness harness(options);
  ASSERT_FALSE(harness.ask(random_tokens(50, 41), 300).error);
  EXPECT_EQ(harness.figure("cache_inserts_total", "reply"), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, ReplyCheckpointsOf,
                         ::testing::Values(OnDevice{"cpu", "qwen3_5_text"},
                                           OnDevice{"cpu-grid", "qwen3_5_text"}, OnDevice{"cpu", "qwen3"}),
                         name_of_pair);

}  // namespace
}  // namespace reprise::actors
