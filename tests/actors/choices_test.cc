// Several choices of one request (n > 1), tenants and priorities: none blocks others, feasible requests are
// not refused, and nothing leaks.

#include <atomic>

#include "tests/actors/engine_harness.h"

namespace reprise::actors {
namespace {

class ChoicesTest : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::uint32_t kReply = 12;

  EngineOptions options(std::uint64_t state_bytes) const {
    EngineOptions settings = EngineHarness::defaults(GetParam(), "qwen3_5_text");
    settings.worker.state_bytes = state_bytes;
    return settings;
  }
  static protocol::GenerateRequest several(const TokenList& prompt, std::uint32_t n, std::uint32_t seed,
                                           std::uint32_t max_tokens = kReply) {
    protocol::GenerateRequest query = EngineHarness::request(prompt, max_tokens);
    query.n = n;
    query.sampling.temperature = 1.0;
    query.sampling.seed = seed;
    return query;
  }
  /// Returns the bytes of a sequence of that many tokens.
  static std::uint64_t cost(EngineHarness& harness, std::uint64_t tokens) {
    EXPECT_TRUE(harness.eventually([&] { return harness.figure("sequences") == 0; }));
    const double before = harness.figure("state_used_bytes");
    const double decoded = harness.figure("decode_tokens_total");
    protocol::GenerateRequest query = EngineHarness::request(random_tokens(tokens, 4321), 4000);
    query.cache.enabled = false;
    auto events = harness.engine().generate(std::move(query));  // pauses when its window is full
    EXPECT_TRUE(harness.eventually([&] { return harness.figure("decode_tokens_total") > decoded; }));
    const auto bytes = static_cast<std::uint64_t>(harness.figure("state_used_bytes") - before);
    return bytes;
  }
};

TEST_P(ChoicesTest, InAMemoryThatIsFullOfSnapshots) {
  EngineHarness ample(options(256 << 20));
  EngineHarness harness(options(2 << 20));
  for (std::uint32_t i = 0; i < 60; ++i) {
    ASSERT_FALSE(harness.ask(random_tokens(150 + i % 7, i)).error.has_value());
  }
  ASSERT_GT(harness.figure("cache_evicted_total"), 0) << "the memory is not full";
  std::vector<std::thread> clients;
  for (std::uint32_t c = 0; c < 6; ++c) {
    clients.emplace_back([&, c] {
      for (std::uint32_t i = 0; i < 8; ++i) {
        const TokenList prompt = random_tokens(100 + 37 * i + c, c % 3);
        const Reply reply = harness.ask(several(prompt, 2, i));
        ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
        EXPECT_TRUE(reply.choices == ample.ask(several(prompt, 2, i)).choices);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  expect_nothing_held(harness);
}

TEST_P(ChoicesTest, ChoicesNeedMemoryForOneAndUseMore) {
  EngineHarness ample(options(256 << 20));
  const TokenList prompt = random_tokens(300, 5);
  const Reply all = ample.ask(several(prompt, 16, 3));
  ASSERT_FALSE(all.error.has_value()) << all.error->message;
  const std::uint64_t one = cost(ample, 300);
  // Memory for the sequence and the state after its prompt, but not for a second sequence.
  EngineHarness narrow(options(one * 5 / 2));
  const Reply reply = narrow.ask(several(prompt, 16, 3));
  ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
  EXPECT_TRUE(reply.choices == all.choices);
  expect_nothing_held(narrow);
  EngineHarness wider(options(one * 5));
  EXPECT_TRUE(wider.ask(several(prompt, 16, 3)).choices == all.choices);
  expect_nothing_held(wider);
}

TEST_P(ChoicesTest, RequestThatNeverFitsIsRefusedAtOnce) {
  EngineHarness ample(options(256 << 20));
  const std::uint64_t one = cost(ample, 1000);
  EngineHarness harness(options(one + one / 10));
  const TokenList prompt = random_tokens(1000, 5);
  ASSERT_FALSE(harness.ask(prompt, 2).error.has_value());
  const Reply refused = harness.ask(several(prompt, 2, 1, 2));
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->kind, protocol::ErrorKind::kTooLong) << refused.error->message;
  EXPECT_NE(refused.error->message.find("bytes of memory for its state"), std::string::npos)
      << refused.error->message;
}

// A request with hundreds of choices must not delay another client's single one.
TEST_P(ChoicesTest, ManyChoicesDoNotDelayAnotherClient) {
  EngineOptions settings = options(64 << 20);
  settings.worker.max_sequences = 8;
  EngineHarness harness(settings);
  std::vector<runtime::StreamReader<protocol::Event>> crowd;
  for (std::uint32_t i = 0; i < 3; ++i) {
    protocol::GenerateRequest request = several(random_tokens(60, 100 + i), 16, i, 150);
    request.origin.id = "crowd";
    crowd.push_back(harness.engine().generate(std::move(request)));
  }
  std::vector<std::thread> readers;
  std::atomic<std::uint32_t> crowd_tokens{0};
  for (auto& events : crowd) {
    readers.emplace_back([&] {
      const Reply reply = read_all(std::move(events));
      EXPECT_FALSE(reply.error.has_value()) << reply.error->message;
      for (const Reply::Choice& choice : reply.choices) {
        crowd_tokens += static_cast<std::uint32_t>(choice.tokens.size());
      }
    });
  }
  EXPECT_TRUE(harness.eventually([&] { return harness.figure("sequences") == 8; }));
  protocol::GenerateRequest stranger = EngineHarness::request(random_tokens(50, 1), 5);
  stranger.origin.id = "stranger";
  const Reply reply = harness.ask(std::move(stranger));
  // It waited for one choice to end and had its five steps; the large request still has hundreds of choices
  // to decode.
  const double crowd_runs = harness.figure("requests_running");
  EXPECT_FALSE(reply.error.has_value()) << reply.error->message;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(crowd_tokens, 3U * 16 * 150);
  EXPECT_GT(crowd_runs, 0) << "it stood behind all of them";
  expect_nothing_held(harness);
}

TEST_P(ChoicesTest, ClientsThatVanishInAnyPhaseLeaveNoSequence) {
  EngineOptions settings = options(3 << 20);
  settings.worker.max_sequences = 6;
  EngineHarness harness(settings);
  std::mt19937 random(3);
  for (int i = 0; i < 80; ++i) {
    auto events = harness.engine().generate(
        several(random_tokens(50 + random() % 400, i % 10), 8, static_cast<std::uint32_t>(i), 400));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
  }
  expect_nothing_held(harness);
  EXPECT_FALSE(harness.ask(several(random_tokens(60, 2), 4, 1)).error.has_value());
}

// The client stops reading, its window fills, and then it leaves.
TEST_P(ChoicesTest, AClientThatStallsAndGoesIsSeenGoing) {
  EngineHarness harness(options(64 << 20));
  auto events = harness.engine().generate(several(random_tokens(100, 2), 4, 1, 3000));
  EXPECT_TRUE(eventually_idle(harness.system(), [&] { return harness.figure("decode_tokens_total") > 0; }));
  EXPECT_GT(harness.figure("sequences"), 0);
  events.cancel();
  expect_nothing_held(harness);
}

TEST_P(ChoicesTest, ATenantStaysWithinItsShareAndOthersPass) {
  EngineHarness ample(options(256 << 20));
  const std::uint64_t one = cost(ample, 320);
  EngineHarness harness(options(one * 40));
  const auto ask_as = [&](const char* tenant, double share, std::uint32_t seed, std::uint32_t tokens) {
    protocol::GenerateRequest request = EngineHarness::request(random_tokens(300, seed), tokens);
    request.origin.tenant = tenant;
    request.origin.tenant_share = share;
    return harness.engine().generate(std::move(request));
  };
  // They pause with full windows; the share holds at most eight.
  std::vector<runtime::StreamReader<protocol::Event>> greedy;
  for (std::uint32_t i = 0; i < 12; ++i) greedy.push_back(ask_as("greedy", 0.2, i, 1000));
  EXPECT_TRUE(harness.eventually([&] { return harness.figure("requests_waiting") >= 4; }));
  EXPECT_LE(harness.figure("sequences"), 8);
  EXPECT_TRUE(harness.eventually([&] { return harness.figure("sequences") >= 2; }));
  // Works even with the prompt of a waiting one.
  const Reply other = read_all(ask_as("other", 0, 11, 5));
  EXPECT_FALSE(other.error.has_value()) << other.error->message;
  const Reply too_much = [&] {
    protocol::GenerateRequest request = EngineHarness::request(random_tokens(3000, 1), 500);
    request.origin.tenant = "greedy";
    request.origin.tenant_share = 0.1;
    return harness.ask(std::move(request));
  }();
  ASSERT_TRUE(too_much.error.has_value());
  EXPECT_NE(too_much.error->message.find("share of its tenant"), std::string::npos)
      << too_much.error->message;
  greedy.clear();
  expect_nothing_held(harness);
}

INSTANTIATE_TEST_SUITE_P(Devices, ChoicesTest, testing::ValuesIn(test_devices()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace reprise::actors
