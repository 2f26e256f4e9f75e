// Many concurrent requests, little memory, and faults: answers do not change, or fail with a named error.

#include <atomic>
#include <future>

#include "gpu/state/scarce_memory.h"
#include "tests/actors/engine_harness.h"
#include "tests/sanitized.h"

namespace reprise::actors {
namespace {

class StressTest : public testing::TestWithParam<std::string> {
 protected:
  EngineOptions options(const std::string& model = "qwen3_5_text") const {
    return EngineHarness::defaults(GetParam(), model);
  }
  bool grid() const { return GetParam() != "cpu"; }
  std::uint32_t on_grid(std::uint32_t at) const { return grid() ? at / 64 * 64 : at; }
};

/// For devices in host memory; a GPU has a fixed arena.
class HostStressTest : public StressTest {};

TokenList turn_of(std::uint32_t conversation, std::uint32_t turn) {
  return random_tokens(40 + 13 * ((conversation * 7 + turn * 3) % 9), 1000 * conversation + turn);
}

// Conversations of several turns that echo each reply, some with a common prefix.
struct Dialogues {
  static constexpr std::uint32_t kConversations = 32;
  static constexpr std::uint32_t kTurns = kSanitized ? 2 : 4;
  static TokenList opening(std::uint32_t conversation) { return random_tokens(300, conversation % 5); }
};

TEST_P(StressTest, ManyConversationsInLittleMemory) {
  std::vector<std::vector<Reply>> cold(Dialogues::kConversations);
  {
    EngineHarness harness(options());
    for (std::uint32_t c = 0; c < Dialogues::kConversations; ++c) {
      TokenList prompt = Dialogues::opening(c);
      for (std::uint32_t turn = 0; turn < Dialogues::kTurns; ++turn) {
        prompt = prompt + turn_of(c, turn);
        cold[c].push_back(harness.cold(prompt, 8));
        prompt = prompt + cold[c].back().tokens();
      }
    }
  }
  EngineOptions tight = options();
  tight.worker.state_bytes = 3 << 20;  // a few conversations, so snapshots are evicted
  tight.registry.budget_bytes = 2 << 20;
  tight.requests.verify_share = 0.2;
  EngineHarness harness(tight);
  std::atomic<bool> over{false};
  std::atomic<bool> done{false};
  std::thread watching([&] {
    while (!done) {
      if (harness.figure("state_used_bytes") > harness.figure("state_limit_bytes")) over = true;
      if (harness.figure("cache_bytes") > harness.figure("cache_budget_bytes")) over = true;
      std::this_thread::sleep_for(1ms);
    }
  });
  std::vector<std::thread> clients;
  for (std::uint32_t c = 0; c < Dialogues::kConversations; ++c) {
    clients.emplace_back([&, c] {
      TokenList prompt = Dialogues::opening(c);
      for (std::uint32_t turn = 0; turn < Dialogues::kTurns; ++turn) {
        prompt = prompt + turn_of(c, turn);
        const Reply reply = harness.ask(prompt, 8);
        EXPECT_FALSE(reply.error.has_value()) << reply.error->message;
        if (reply.error) return;
        EXPECT_TRUE(reply.choices == cold[c][turn].choices)
            << "conversation " << c << " turn " << turn << " restored " << reply.cache.restored_tokens;
        prompt = prompt + reply.tokens();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  done = true;
  watching.join();
  EXPECT_FALSE(over) << "a budget was exceeded";
  // How much concurrent requests restored depends on timing; afterwards it does not.
  harness.ask(Dialogues::opening(0));
  EXPECT_GT(harness.ask(Dialogues::opening(0)).cache.restored_tokens, 200U);
  EXPECT_GT(harness.figure("cache_evicted_total"), 0);
  EXPECT_EQ(harness.figure("cache_mismatches_total"), 0);
  expect_nothing_held(harness);
}

TEST_P(HostStressTest, FragmentedMemoryServesLikeLessMemory) {
  EngineHarness ample(options());
  EngineOptions tight = options();
  tight.worker.state_bytes = 4 << 20;
  gpu::ScarceMemory memory(1 << 20);  // fails long before the budget is used up
  tight.worker.memory = &memory;
  {
    EngineHarness harness(tight);
    std::vector<std::thread> clients;
    for (std::uint32_t c = 0; c < 8; ++c) {
      clients.emplace_back([&, c] {
        TokenList prompt = Dialogues::opening(c);
        for (std::uint32_t turn = 0; turn < 3; ++turn) {
          prompt = prompt + turn_of(c, turn);
          const Reply reply = harness.ask(prompt, 8);
          ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
          EXPECT_TRUE(reply.choices == ample.cold(prompt, 8).choices);
          prompt = prompt + reply.tokens();
        }
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_GT(memory.refusals(), 0U);
    EXPECT_GT(harness.figure("cache_evicted_total"), 0) << "snapshots made room";
    expect_nothing_held(harness);
  }
  EXPECT_EQ(memory.used(), 0U);
}

TEST_P(StressTest, AHundredRequestsAtOnce) {
  EngineHarness harness(options());
  std::vector<Reply> cold;
  for (std::uint32_t i = 0; i < 10; ++i) cold.push_back(harness.cold(random_tokens(70 + 11 * i, i), 4));
  std::vector<std::thread> clients;
  for (std::uint32_t i = 0; i < 100; ++i) {
    clients.emplace_back([&, i] {
      const Reply reply = harness.ask(random_tokens(70 + 11 * (i % 10), i % 10), 4);
      EXPECT_FALSE(reply.error.has_value()) << reply.error->message;
      EXPECT_TRUE(reply.choices == cold[i % 10].choices);
    });
  }
  for (std::thread& client : clients) client.join();
  expect_nothing_held(harness);
}

TEST_P(StressTest, PreemptedSequencesReplyAsAColdRun) {
  for (const std::uint64_t swap : {std::uint64_t{0}, std::uint64_t{256} << 20}) {
    EngineOptions tight = options();
    tight.worker.state_bytes = 700 << 10;
    tight.worker.reply_tokens_reserved = 1;  // admits more sequences than can grow
    tight.worker.swap_bytes = swap;
    EngineHarness harness(tight);
    constexpr std::uint32_t kRequests = 6;
    constexpr std::uint32_t kReply = 600;
    std::vector<Reply> cold;
    for (std::uint32_t i = 0; i < kRequests; ++i) cold.push_back(harness.cold(random_tokens(100, i), kReply));
    std::vector<std::future<Reply>> running;
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      running.push_back(
          std::async(std::launch::async, [&, i] { return harness.ask(random_tokens(100, i), kReply); }));
    }
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      const Reply reply = running[i].get();
      ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
      EXPECT_TRUE(reply.choices == cold[i].choices) << i;
    }
    EXPECT_GT(harness.figure("preemptions_total"), 0);
    expect_nothing_held(harness);
  }
}

TEST_P(StressTest, ConcurrentEqualPromptsComputeTheirPrefixOnce) {
  EngineOptions settings = options();
  settings.worker.max_sequences = 1;
  EngineHarness harness(settings);
  constexpr std::uint32_t kLength = 2000;
  constexpr std::uint32_t kRequests = 10;
  const TokenList prompt = random_tokens(kLength, 3);
  // Occupies the device until all requests have arrived.
  auto first_come = harness.engine().generate(EngineHarness::request(random_tokens(50, 99), 2000));
  ASSERT_TRUE(harness.eventually([&] { return harness.figure("decode_tokens_total") > 0; }));
  std::vector<runtime::StreamReader<protocol::Event>> running;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    // Half of them diverge at the end.
    running.push_back(harness.engine().generate(EngineHarness::request(
        i % 2 == 0 ? prompt : first(prompt, kLength - 200) + random_tokens(200, 50 + i))));
    ASSERT_TRUE(harness.eventually([&] { return harness.figure("cache_flights") == i + 1; }));
  }
  first_come.cancel();
  std::uint64_t prefilled = 0;
  for (auto& one : running) {
    const Reply reply = read_all(std::move(one));
    ASSERT_FALSE(reply.error.has_value());
    prefilled += reply.cache.prefilled_tokens;
  }
  EXPECT_LE(prefilled, kLength + 5 * 264 + 4 * 64) << "the beginning once, and every end";
  EXPECT_GE(harness.figure("cache_followers_total"), kRequests - 1);
  expect_nothing_held(harness);
}

TEST_P(StressTest, SeveralChoicesGoOnFromOnePrefill) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(500, 9);
  const auto ask = [&](bool cached) {
    protocol::GenerateRequest query = EngineHarness::request(prompt, 20);
    query.n = 4;
    query.sampling.temperature = 1.0;
    query.sampling.seed = 77;
    query.cache.enabled = cached;
    return harness.ask(std::move(query));
  };
  const std::uint64_t before = harness.engine().device_figures(GetParam()).prefill_tokens.load();
  const Reply cold = ask(false);
  ASSERT_FALSE(cold.error.has_value()) << cold.error->message;
  ASSERT_EQ(cold.choices.size(), 4U);
  EXPECT_EQ(harness.engine().device_figures(GetParam()).prefill_tokens.load() - before, prompt.size());
  EXPECT_NE(cold.choices[0].tokens, cold.choices[1].tokens);
  const Reply first_time = ask(true);
  const Reply second_time = ask(true);
  EXPECT_TRUE(first_time.choices == cold.choices);
  EXPECT_TRUE(second_time.choices == cold.choices);
  EXPECT_EQ(second_time.cache.restored_tokens, on_grid(499));
  EXPECT_EQ(second_time.usage.completion_tokens, 80U);
  expect_nothing_held(harness);
}

TEST_P(StressTest, FailedStepFailsRequestsAndModelIsReloaded) {
  using Kind = Fault::Kind;
  EngineOptions settings = options();
  settings.max_reloads = 10;
  EngineHarness harness(settings);
  const TokenList prompt = random_tokens(400, 4);
  const Reply good = harness.ask(prompt, 8);
  for (const Kind kind : {Kind::kFailedStep, Kind::kOutOfMemory}) {
    harness.faults().inject({.kind = kind, .after_steps = 3});
    const Reply broken = harness.ask(prompt + random_tokens(50, 8), 50);
    ASSERT_TRUE(broken.error.has_value());
    EXPECT_EQ(broken.error->kind, protocol::ErrorKind::kUnavailable) << broken.error->message;
    const Reply after = ask_until_available(harness, prompt, 8);
    ASSERT_FALSE(after.error.has_value()) << after.error->message;
    EXPECT_TRUE(after.choices == good.choices);
    EXPECT_EQ(after.cache.restored_tokens, 0U);
    EXPECT_EQ(after.cache.reason, MissReason::kLost);
    EXPECT_EQ(harness.ask(prompt, 8).cache.restored_tokens, on_grid(399));
  }
  EXPECT_EQ(harness.figure("device_faults_total"), 2);
  expect_nothing_held(harness);
}

TEST_P(StressTest, AModelThatFailsTooOftenStaysDown) {
  EngineOptions settings = options();
  settings.max_reloads = 1;
  EngineHarness harness(settings);
  for (int i = 0; i < 2; ++i) {
    harness.faults().inject({.kind = Fault::Kind::kFailedStep});
    EXPECT_TRUE(harness.ask(random_tokens(20, 1)).error.has_value());
    if (i == 0) {
      ASSERT_FALSE(ask_until_available(harness, random_tokens(20, 1), 2).error.has_value());
    }
  }
  ASSERT_TRUE(harness.eventually(
      [&] { return harness.engine().models().at(0).state == protocol::ModelCard::State::kFailed; }));
  const Reply reply = harness.ask(random_tokens(20, 1));
  ASSERT_TRUE(reply.error.has_value());
  EXPECT_NE(reply.error->message.find("failed too often"), std::string::npos) << reply.error->message;
}

TEST_P(StressTest, AStateThatIsNotFiniteIsNeverStored) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(300, 6);
  const Reply good = harness.cold(prompt);
  harness.faults().inject({.kind = Fault::Kind::kNanState});
  const Reply broken = harness.ask(prompt);
  ASSERT_TRUE(broken.error.has_value());
  EXPECT_EQ(broken.error->kind, protocol::ErrorKind::kInternal);
  EXPECT_GT(harness.figure("unhealthy_states_total"), 0);
  const Reply after = harness.ask(prompt);
  EXPECT_TRUE(after.choices == good.choices);
  EXPECT_EQ(after.cache.restored_tokens, 0U);
  EXPECT_EQ(after.cache.reason, MissReason::kUnhealthy);
  expect_nothing_held(harness);
}

TEST_P(StressTest, ADamagedSnapshotIsALoudMiss) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(300, 6);
  const Reply good = harness.ask(prompt);
  harness.faults().inject({.kind = Fault::Kind::kDamage});
  const Reply after = harness.ask(prompt);
  EXPECT_TRUE(after.choices == good.choices);
  EXPECT_EQ(after.cache.reason, MissReason::kCorrupt);
  EXPECT_GT(harness.figure("damaged_snapshots_total"), 0);
  EXPECT_EQ(harness.ask(prompt).cache.restored_tokens, on_grid(299)) << "and a good one took its place";
  expect_nothing_held(harness);
}

// Verifies before the answer ends, even without idle time.
TEST_P(StressTest, EveryHitIsVerifiedInline) {
  EngineOptions settings = options();
  settings.requests.verify_share = 1;
  settings.requests.verify_inline = true;
  settings.max_idle = 0;
  EngineHarness harness(settings);
  const TokenList prompt = random_tokens(300, 6);
  const Reply good = harness.ask(prompt);
  EXPECT_EQ(harness.figure("cache_verified_total"), 0);
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&] {
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(harness.ask(prompt).choices == good.choices);
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(harness.figure("cache_verified_total"), 20);
  EXPECT_EQ(harness.figure("cache_mismatches_total"), 0);
  harness.faults().inject({.kind = Fault::Kind::kWrongBits});
  const Reply wrong = harness.ask(prompt);
  ASSERT_TRUE(wrong.error.has_value()) << "a wrong state was served and nobody said so";
  EXPECT_EQ(wrong.error->kind, protocol::ErrorKind::kInternal);
  EXPECT_FALSE(wrong.done);
  EXPECT_EQ(harness.figure("cache_mismatches_total"), 1);
  // A state found wrong is not used again; other damaged ones are found the same way.
  Reply again;
  for (int i = 0; i < 20 && (i == 0 || again.error); ++i) again = harness.ask(prompt);
  EXPECT_TRUE(again.choices == good.choices);
  expect_nothing_held(harness);
}

TEST_P(StressTest, WhatCannotBeVerifiedIsCounted) {
  EngineOptions settings = options();
  settings.requests.verify_share = 1;
  settings.max_idle = 0;
  EngineHarness harness(settings);
  const TokenList prompt = random_tokens(300, 6);
  harness.ask(prompt);
  harness.ask(prompt);
  EXPECT_TRUE(harness.eventually([&] { return harness.figure("cache_unverified_total") == 1; }));
  EXPECT_EQ(harness.figure("cache_verified_total"), 0);
}

TEST_P(StressTest, HungDeviceIsReplacedOrLost) {
  EngineOptions settings = options();
  settings.max_step = 1500ms;
  std::atomic<bool> lost{false};
  settings.device_lost = [&lost](const std::string&) { lost.store(true); };
  EngineHarness harness(settings);
  const TokenList prompt = random_tokens(200, 2);
  const Reply good = harness.ask(prompt);
  harness.faults().inject({.kind = Fault::Kind::kHang, .hang_ms = 8000});
  const Reply hung = harness.ask(prompt + random_tokens(10, 1));
  ASSERT_TRUE(hung.error.has_value()) << "it waited for the device";
  EXPECT_EQ(hung.error->kind, protocol::ErrorKind::kUnavailable);
  if (GetParam().starts_with("cuda")) {  // nothing can stop a hung GPU
    EXPECT_TRUE(harness.eventually([&] { return lost.load(); }));
  } else {
    EXPECT_TRUE(ask_until_available(harness, prompt, 6).choices == good.choices);
    EXPECT_FALSE(lost.load());
  }
}

TEST_P(HostStressTest, StateMemoryIsAsConfigured) {
  EngineOptions settings = options();
  settings.worker.state_bytes =
      1ULL << 40;  // more than this machine has; memory is only allocated when touched
  EngineHarness harness(settings);
  EXPECT_EQ(harness.figure("state_limit_bytes"), static_cast<double>(1ULL << 40));
  EXPECT_FALSE(harness.ask(random_tokens(100, 1)).error.has_value());
}

TEST_P(StressTest, LostDeviceIsReportedToTheHost) {
  EngineOptions settings = options();
  std::atomic<bool> lost{false};
  settings.device_lost = [&lost](const std::string& why) {
    EXPECT_FALSE(why.empty());
    lost.store(true);
  };
  EngineHarness harness(settings);
  const TokenList prompt = random_tokens(200, 2);
  ASSERT_FALSE(harness.ask(prompt).error.has_value());
  harness.faults().inject({.kind = Fault::Kind::kDeviceLost});
  const Reply failed = harness.ask(prompt + random_tokens(10, 1));
  ASSERT_TRUE(failed.error.has_value());
  EXPECT_EQ(failed.error->kind, protocol::ErrorKind::kUnavailable);
  EXPECT_TRUE(harness.eventually([&] { return lost.load(); }));
  const Reply later = harness.ask(prompt);
  ASSERT_TRUE(later.error.has_value());
  EXPECT_NE(later.error->message.find("lost"), std::string::npos) << later.error->message;
}

TEST_P(StressTest, DisconnectedClientsLeaveNothingHeld) {
  EngineOptions settings = options();
  settings.worker.max_sequences = 4;
  EngineHarness harness(settings);
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    auto events = harness.engine().generate(EngineHarness::request(
        random_tokens(200 + random() % 1500, static_cast<std::uint32_t>(i % 20)), 500));
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    for (std::uint32_t taken = random() % 4; taken > 0; --taken) {
      static_cast<void>(events.next_blocking(runtime::Clock::now() + 20ms));
    }
  }
  expect_nothing_held(harness);
  EXPECT_FALSE(harness.ask(random_tokens(100, 1)).error.has_value());
}

TEST_P(StressTest, ASlowClientPausesItselfAlone) {
  EngineHarness harness(options());
  auto slow = harness.engine().generate(EngineHarness::request(random_tokens(50, 1), 1000));
  const Reply quick = harness.ask(random_tokens(50, 2), 300);
  EXPECT_EQ(quick.tokens().size(), 300U);
  // It pauses when its window is full, long before its end.
  EXPECT_TRUE(eventually_idle(harness.system()));
  EXPECT_LT(harness.figure("decode_tokens_total"), 300 + 500);
  const Reply late = read_all(std::move(slow));
  EXPECT_EQ(late.tokens().size(), 1000U);
  EXPECT_TRUE(late.choices == harness.cold(random_tokens(50, 1), 1000).choices);
}

TEST_P(StressTest, RequestThatNeverFitsIsRefusedWithItsCost) {
  EngineOptions tight = options();
  tight.worker.state_bytes = 1 << 20;
  EngineHarness harness(tight);
  const Reply reply = harness.ask(random_tokens(3900, 1), 150);
  if (reply.error) {
    EXPECT_EQ(reply.error->kind, protocol::ErrorKind::kTooLong);
    EXPECT_NE(reply.error->message.find("bytes of memory for its state"), std::string::npos)
        << reply.error->message;
  }
  EngineOptions smaller = options();
  smaller.worker.state_bytes = 200 << 10;
  EngineHarness little(smaller);
  const Reply refused = little.ask(random_tokens(3000, 1), 500);
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->kind, protocol::ErrorKind::kTooLong);
  EXPECT_NE(refused.error->message.find("bytes of memory for its state"), std::string::npos)
      << refused.error->message;
  EXPECT_FALSE(little.ask(random_tokens(100, 1), 5).error.has_value());
}

TEST_P(StressTest, CacheCanBeDisabledByRequestAndEngine) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(200, 1);
  EXPECT_EQ(harness.cold(prompt).cache.reason, MissReason::kRefused);
  EXPECT_EQ(harness.figure("cache_entries"), 0) << "and it wrote nothing";
  harness.ask(prompt);
  protocol::GenerateRequest query = EngineHarness::request(prompt);
  query.cache.min_tokens = 500;
  const Reply below = harness.ask(query);
  EXPECT_EQ(below.cache.reason, MissReason::kBelowMinimum);
  EXPECT_EQ(below.cache.restored_tokens, 0U);
  EngineOptions off = options();
  off.cache = false;
  EngineHarness without(off);
  EXPECT_EQ(without.ask(prompt).cache.reason, MissReason::kDisabled);
  EXPECT_EQ(without.ask(prompt).cache.restored_tokens, 0U);
}

TEST_P(StressTest, UnloadingFreesEverything) {
  EngineHarness harness(options());
  harness.ask(random_tokens(500, 1));
  EXPECT_GT(harness.figure("state_used_bytes"), 0);
  auto running = harness.engine().generate(EngineHarness::request(random_tokens(50, 3), 3000));
  ASSERT_TRUE(harness.engine().unload("m", 20s));
  EXPECT_EQ(harness.figure("state_used_bytes"), 0);
  EXPECT_EQ(harness.figure("snapshots"), 0);
  EXPECT_TRUE(read_all(std::move(running)).error.has_value());
  const Reply gone = harness.ask(random_tokens(10, 1));
  ASSERT_TRUE(gone.error.has_value());
  EXPECT_EQ(gone.error->kind, protocol::ErrorKind::kUnknownModel);
  // Two concurrent loads share one load and get two answers.
  const ModelSpec spec{.name = "m", .path = model_path("qwen3_5_text")};
  auto other = std::async(std::launch::async, [&] { return harness.engine().load(spec, 20s); });
  EXPECT_TRUE(harness.engine().load(spec, 20s).ok());
  EXPECT_TRUE(other.get().ok());
  EXPECT_FALSE(harness.ask(random_tokens(10, 1)).error.has_value());
  EXPECT_FALSE(harness.engine().load({.name = "none", .path = "/no/such/model"}, 20s).ok());
}

TEST_P(StressTest, SeveralModelsShareTheMemory) {
  EngineOptions two = options();
  two.models.push_back({.name = "other", .path = model_path("qwen3")});
  two.worker.state_bytes = 2 << 20;
  EngineHarness harness(two);
  for (std::uint32_t round = 0; round < 6; ++round) {
    for (const char* name : {"m", "other"}) {
      protocol::GenerateRequest query = EngineHarness::request(random_tokens(600, round));
      query.model = name;
      protocol::GenerateRequest cold = query;
      cold.cache.enabled = false;
      const Reply reply = harness.ask(query);
      ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
      EXPECT_TRUE(reply.choices == harness.ask(cold).choices);
    }
  }
  EXPECT_GT(harness.figure("cache_evicted_total"), 0);
  EXPECT_LE(harness.figure("state_used_bytes"), 2 << 20);
  expect_nothing_held(harness);
}

INSTANTIATE_TEST_SUITE_P(Devices, StressTest, testing::ValuesIn(test_devices()),
                         [](const auto& info) { return test_name(info.param); });
INSTANTIATE_TEST_SUITE_P(Devices, HostStressTest, testing::Values("cpu", "cpu-grid"),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace reprise::actors
