#include "models/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "tests/models/sampling/sample.h"

namespace reprise::models {
namespace {

using namespace test;

// ---- greedy ----

TEST(Greedy, TakesTheBestAndTheLowestIdAmongEquals) {
  EXPECT_EQ(greedy({1, 3, 2}), 1);
  EXPECT_EQ(greedy({1, 3, 3, 3}), 1);
  EXPECT_EQ(greedy({-5, -5}), 0);
  EXPECT_EQ(greedy({7}), 0);
  EXPECT_EQ(greedy({-0.0f, 0.0f}), 0);
  test::RandomLogits random(1);
  for (int round = 0; round < 50; ++round) {
    const std::vector<float> logits = random.make(1 + random.below(2000));
    EXPECT_EQ(greedy(logits), std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
}

TEST(Greedy, FiltersAndSeedsDoNotMatter) {
  const std::vector<float> logits = test::RandomLogits(2).make(500);
  EXPECT_EQ(greedy(logits, {.top_k = 7, .top_p = 0.1, .min_p = 0.9, .seed = 99}), greedy(logits));
}

TEST(Greedy, OneCandidateIsGreedyAtAnyTemperature) {
  test::RandomLogits random(3);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> logits = random.make(300);
    EXPECT_EQ(sample(Sampler({.temperature = 5, .top_k = 1, .seed = seed}, 300), logits), greedy(logits));
    EXPECT_EQ(sample(Sampler({.temperature = 5, .top_p = 0, .seed = seed}, 300), logits), greedy(logits));
    const std::vector<float> distinct = random.make_distinct(300);
    EXPECT_EQ(sample(Sampler({.min_p = 1, .seed = seed}, 300), distinct), greedy(distinct));
    EXPECT_EQ(sample(Sampler({.temperature = 1e-40, .seed = seed}, 300), distinct), greedy(distinct));
  }
}

// ---- determinism ----

TEST(Determinism, SeedChoiceAndStepDecide) {
  const std::vector<float> flat(1000, 0);
  const auto run = [&](std::uint64_t seed, std::uint32_t choice) {
    Sampler sampler({.seed = seed}, 1000, choice);
    return generate(sampler, flat, 50);
  };
  const std::vector<TokenId> tokens = run(7, 0);
  EXPECT_EQ(run(7, 0), tokens);
  EXPECT_NE(run(8, 0), tokens);
  EXPECT_NE(run(7, 1), tokens);
  EXPECT_NE(run(8, 1), run(7, 1));
  EXPECT_GT(std::set<TokenId>(tokens.begin(), tokens.end()).size(), 40u);
}

TEST(Determinism, SamplingChangesNothing) {
  const std::vector<float> logits = test::RandomLogits(6).make(500);
  Sampler sampler({.temperature = 3, .repetition_penalty = 1.1, .logprobs = 3}, 500);
  sampler.accept(4, kPrompt);
  const SamplerState before = sampler.state();
  const Sampled first = sampled(sampler, logits);
  EXPECT_EQ(sampled(sampler, logits), first);
  EXPECT_EQ(sampler.state(), before);
}

TEST(Determinism, TheLengthOfThePromptIsNoStep) {
  const std::vector<float> flat(1000, 0);
  Sampler plain({.seed = 5}, 1000), prompted({.seed = 5}, 1000);
  for (TokenId i = 0; i < 77; ++i) prompted.accept(i, kPrompt);
  EXPECT_EQ(generate(prompted, flat, 20), generate(plain, flat, 20));
}

// Independent of another sampler's scratch, interleaved sequences and threads.
TEST(Determinism, CompanyDoesNotMatter) {
  test::RandomLogits random(8);
  const std::vector<float> logits = random.make(2000), others = random.make(777);
  const SamplingParams params{
      .temperature = 2, .top_p = 0.9, .frequency_penalty = 0.3, .seed = 3, .logprobs = 5};
  Sampler alone(params, 2000);
  const std::vector<TokenId> tokens = generate(alone, logits, 40);

  const auto in_company = [&] {
    Sampler sampler(params, 2000), other({.temperature = 9, .logit_bias = {{3, 5}}, .logprobs = 20}, 777);
    SamplerScratch scratch;
    std::vector<TokenId> out;
    for (int i = 0; i < 40; ++i) {
      other.accept(std::get<Sampled>(other.sample(others, scratch)).token, kOutput);
      out.push_back(std::get<Sampled>(sampler.sample(logits, scratch)).token);
      sampler.accept(out.back(), kOutput);
    }
    return out;
  };
  std::vector<std::vector<TokenId>> outs(3);
  std::vector<std::thread> threads;
  for (auto& out : outs) threads.emplace_back([&out, &in_company] { out = in_company(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& out : outs) EXPECT_EQ(out, tokens);
}

// A seed must give the same text on every machine, compiler and release.
TEST(Determinism, TokensOfASeed) {
  std::vector<float> logits(1000);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 7919 % 1000) / 128;
  Sampler plain({.seed = 2026}, 1000),
      filtered({.temperature = 0.7, .top_k = 50, .top_p = 0.9, .seed = 2026}, 1000, 1);
  EXPECT_EQ(generate(plain, logits, 8), (std::vector<TokenId>{495, 655, 323, 325, 62, 852, 968, 707}));
  EXPECT_EQ(generate(filtered, logits, 8), (std::vector<TokenId>{605, 420, 99, 951, 605, 210, 963, 889}));
}

// ---- state ----

const SamplingParams kPenalized{.temperature = 2,
                                .repetition_penalty = 1.2,
                                .repetition_last_n = 30,
                                .presence_penalty = 0.4,
                                .frequency_penalty = 0.2,
                                .seed = 17};

TEST(State, RestoredGoesOnTheSameWay) {
  const std::vector<float> logits = test::RandomLogits(9).make(200);
  Sampler sampler(kPenalized, 200);
  for (TokenId i = 0; i < 50; ++i) sampler.accept(i * 3 % 200, kPrompt);
  generate(sampler, logits, 25);
  const SamplerState snapshot = sampler.state();
  const std::vector<TokenId> tail = generate(sampler, logits, 60);

  Sampler fresh(kPenalized, 200);
  generate(fresh, logits, 5);  // arbitrary earlier use
  fresh.restore(snapshot);
  EXPECT_EQ(fresh.state(), snapshot);
  EXPECT_EQ(generate(fresh, logits, 60), tail);
  EXPECT_EQ(fresh.state(), sampler.state());

  sampler.restore(snapshot);
  EXPECT_EQ(generate(sampler, logits, 60), tail);
}

TEST(State, FollowsFromTheTokens) {
  const std::vector<float> logits = test::RandomLogits(10).make(200);
  Sampler sampler(kPenalized, 200);
  const std::vector<TokenId> tokens = generate(sampler, logits, 40);
  Sampler replayed(kPenalized, 200);
  for (const TokenId token : tokens) replayed.accept(token, kOutput);
  EXPECT_EQ(replayed.state(), sampler.state());
  EXPECT_EQ(replayed.state().step, 40u);
}

TEST(State, OneStateGoesOnAsSeveralChoices) {
  const std::vector<float> logits = test::RandomLogits(11).make(200);
  Sampler first(kPenalized, 200, 0);
  for (TokenId i = 0; i < 50; ++i) first.accept(i, kPrompt);
  Sampler second(kPenalized, 200, 1), cold(kPenalized, 200, 1);
  second.restore(first.state());
  for (TokenId i = 0; i < 50; ++i) cold.accept(i, kPrompt);
  const std::vector<TokenId> tokens = generate(second, logits, 30);
  EXPECT_EQ(tokens, generate(cold, logits, 30));
  EXPECT_NE(tokens, generate(first, logits, 30));
}

TEST(State, DifferenceShows) {
  Sampler a(kPenalized, 10), b(kPenalized, 10);
  EXPECT_EQ(a.state(), b.state());
  a.accept(1, kPrompt);
  EXPECT_NE(a.state(), b.state());
  b.accept(1, kOutput);
  EXPECT_NE(a.state(), b.state());
}

TEST(State, RemembersDistinctTokensAndOnlyIfItMust) {
  Sampler plain({}, 100), output_only({.presence_penalty = 1}, 100), all({.repetition_penalty = 1.1}, 100);
  for (int i = 0; i < 10000; ++i) {
    for (Sampler* sampler : {&plain, &output_only, &all}) {
      sampler->accept(i % 60, kPrompt);
      sampler->accept(i % 7, kOutput);
    }
  }
  EXPECT_EQ(plain.state().seen.size(), 0u);
  EXPECT_EQ(output_only.state().seen.size(), 7u);
  EXPECT_EQ(all.state().seen.size(), 60u);
}

// ---- NaN and infinity ----

SampleResult try_sample(const SamplingParams& params, const std::vector<float>& logits) {
  SamplerScratch scratch;
  return Sampler(params, logits.size()).sample(logits, scratch);
}

TEST(NoNumber, IsNeverChosen) {
  test::RandomLogits random(15);
  const std::vector<SamplingParams> wishes{{.temperature = 0},
                                           {.temperature = 50},
                                           {.top_k = 5},
                                           {.top_p = 0.9},
                                           {.temperature = 50, .min_p = 0.01}};
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits = random.make(40);
    for (float& logit : logits) {
      if (random.below(4) != 0) logit = random.below(2) != 0 ? kNan : -kInfinity;
    }
    logits[random.below(40)] = 1;
    for (SamplingParams params : wishes) {
      params.seed = static_cast<std::uint64_t>(round);
      const TokenId token = std::get<Sampled>(try_sample(params, logits)).token;
      EXPECT_TRUE(std::isfinite(logits[static_cast<std::size_t>(token)]));
    }
  }
}

TEST(NoNumber, InfinityBeatsAllAndSharesWithItsLike) {
  std::vector<float> logits(100, 30);
  logits[40] = logits[60] = kInfinity;
  logits[10] = kNan;
  EXPECT_EQ(greedy(logits), 40);
  for (const SamplingParams& params : {SamplingParams{}, {.top_k = 5}, {.top_p = 0.99}, {.min_p = 0.5}}) {
    Sampler sampler(params, 100);
    std::map<TokenId, int> counts;
    for (const TokenId token : generate(sampler, logits, 400)) ++counts[token];
    EXPECT_EQ(counts.size(), 2u);
    EXPECT_NEAR(counts[40], 200, 60);
    EXPECT_NEAR(counts[60], 200, 60);
  }
}

TEST(NoNumber, NothingLeftIsAnError) {
  for (const SamplingParams& params : {SamplingParams{}, {.temperature = 0}, {.top_k = 2, .logprobs = 3}}) {
    for (const float value : {kNan, -kInfinity}) {
      EXPECT_EQ(std::get<SampleError>(try_sample(params, std::vector<float>(300, value))),
                SampleError::kNoLogits);
    }
  }
  EXPECT_EQ(std::get<SampleError>(try_sample({.logit_bias = {{0, -kInfinity}}}, {1, kNan})),
            SampleError::kAllBanned);
  EXPECT_STREQ(to_string(SampleError::kNoLogits), "the model gave no usable logit");
  EXPECT_STREQ(to_string(SampleError::kAllBanned), "logit_bias and penalties leave no token to choose");
}

// ---- misuse ----

TEST(SamplerDeathTest, MisuseEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Sampler({.top_p = 2}, 10), "parameters are invalid");
  EXPECT_DEATH(Sampler({}, 0), "empty or larger than token ids reach");
  EXPECT_DEATH(Sampler({}, 10).accept(10, kPrompt), "outside the vocabulary");
  EXPECT_DEATH(Sampler({}, 10).accept(-1, kPrompt), "outside the vocabulary");
  EXPECT_DEATH(greedy(std::vector<float>{}), "empty or larger than token ids reach");
  EXPECT_DEATH(try_sample({}, {}), "empty or larger than token ids reach");
  EXPECT_DEATH(sample(Sampler({}, 10), {1, 2}), "not the size of the vocabulary");
}

}  // namespace
}  // namespace reprise::models
