#include "models/sampling/sampler.h"

#include <cmath>

#include "tests/models/sampling/sample.h"

namespace reprise::models {
namespace {

using namespace test;

/// The logit of `token` after bias and penalties, measured as the highest logit at which a rival still loses.
float adjusted(const Sampler& sampler, TokenId token, float logit) {
  constexpr std::size_t kRival = 9;
  std::vector<float> logits(10, -kInfinity);
  logits[static_cast<std::size_t>(token)] = logit;
  float wins = -1e6f, loses = 1e6f;
  while (std::nextafter(wins, loses) != loses) {
    const float middle = wins + (loses - wins) / 2;
    logits[kRival] = middle;
    (sample(sampler, logits) == token ? wins : loses) = middle;
  }
  return wins;
}

/// A greedy sampler of ten tokens after a prompt and an output.
Sampler after(SamplingParams params, const std::vector<TokenId>& prompt, const std::vector<TokenId>& output) {
  params.temperature = 0;
  Sampler sampler(params, 10);
  for (const TokenId token : prompt) sampler.accept(token, kPrompt);
  for (const TokenId token : output) sampler.accept(token, kOutput);
  return sampler;
}

TEST(Bias, IsAddedAsItIs) {
  const Sampler sampler = after({.logit_bias = {{1, 2.5f}, {2, -100}, {3, 1}, {3, 0.5f}}}, {}, {});
  EXPECT_EQ(adjusted(sampler, 0, 1), 1);
  EXPECT_EQ(adjusted(sampler, 1, 1), 3.5f);
  EXPECT_EQ(adjusted(sampler, 2, 101), 1);  // a bias of -100 does not ban a token
  EXPECT_EQ(adjusted(sampler, 3, 1), 2.5f);
}

TEST(Bias, MinusInfinityBans) {
  EXPECT_EQ(greedy({5, 4, 3}, {.logit_bias = {{0, -kInfinity}}}), 1);
  EXPECT_EQ(greedy({kInfinity, 4, 3}, {.logit_bias = {{0, -kInfinity}}}), 1);
}

TEST(Penalties, RepetitionAppliesOncePerTokenOfPromptOrReply) {
  const Sampler sampler = after({.repetition_penalty = 2}, {1, 1, 1}, {2, 2});
  EXPECT_EQ(adjusted(sampler, 0, 3), 3);
  EXPECT_EQ(adjusted(sampler, 1, 3), 1.5f);
  EXPECT_EQ(adjusted(sampler, 1, -3), -6);
  EXPECT_EQ(adjusted(sampler, 1, 0), 0);
  EXPECT_EQ(adjusted(sampler, 2, 3), 1.5f);
  EXPECT_EQ(adjusted(after({.repetition_penalty = 0.5}, {1}, {}), 1, 3), 6);
}

TEST(Penalties, RepetitionWindow) {
  // The last three tokens are 2, 1, 3.
  const Sampler sampler = after({.repetition_penalty = 2, .repetition_last_n = 3}, {0, 1, 4, 2}, {1, 3});
  EXPECT_EQ(adjusted(sampler, 0, 4), 4);
  EXPECT_EQ(adjusted(sampler, 1, 4), 2);
  EXPECT_EQ(adjusted(sampler, 2, 4), 2);
  EXPECT_EQ(adjusted(sampler, 3, 4), 2);
  EXPECT_EQ(adjusted(sampler, 4, 4), 4);
  for (const std::int64_t all : {0, -1, 6, 1000}) {
    const Sampler whole = after({.repetition_penalty = 2, .repetition_last_n = all}, {0, 1, 4, 2}, {1, 3});
    for (TokenId token = 0; token < 5; ++token) EXPECT_EQ(adjusted(whole, token, 4), 2) << all;
  }
}

TEST(Penalties, PresenceAndFrequencyLookAtTheOutputAlone) {
  const Sampler presence = after({.presence_penalty = 0.5}, {1, 1}, {2, 2, 3});
  EXPECT_EQ(adjusted(presence, 1, 1), 1);
  EXPECT_EQ(adjusted(presence, 2, 1), 0.5f);
  EXPECT_EQ(adjusted(presence, 3, 1), 0.5f);
  const Sampler frequency = after({.frequency_penalty = 0.25}, {1, 1}, {2, 2, 3});
  EXPECT_EQ(adjusted(frequency, 1, 1), 1);
  EXPECT_EQ(adjusted(frequency, 2, 1), 0.5f);
  EXPECT_EQ(adjusted(frequency, 3, 1), 0.75f);
  const Sampler reward = after({.presence_penalty = -1, .frequency_penalty = -0.5}, {1}, {2, 2});
  EXPECT_EQ(adjusted(reward, 1, 1), 1);
  EXPECT_EQ(adjusted(reward, 2, 1), 3);
}

TEST(Penalties, ComeAfterTheBiasAndRepetitionFirst) {
  const Sampler sampler = after({.repetition_penalty = 2,
                                 .presence_penalty = 0.5,
                                 .frequency_penalty = 0.25,
                                 .logit_bias = {{1, 4}, {2, 4}}},
                                {1}, {2, 2, 2});
  EXPECT_EQ(adjusted(sampler, 1, -1), 1.5f);                 // (-1 + 4) / 2
  EXPECT_EQ(adjusted(sampler, 2, -1), 1.5f - 0.5f - 0.75f);  // ... - 0.5 - 3 * 0.25
  EXPECT_EQ(adjusted(sampler, 2, -6), -4 - 0.5f - 0.75f);    // (-6 + 4) * 2 ...
}

TEST(Penalties, ActOnTheDrawToo) {
  Sampler sampler({.presence_penalty = 2, .seed = 8}, 2);
  sampler.accept(0, kOutput);
  int ones = 0;
  for (int i = 0; i < 5000; ++i) {
    Sampler other = sampler;
    other.restore({.step = static_cast<std::uint64_t>(i), .accepted = 1, .seen = sampler.state().seen});
    ones += sample(other, {0, 0});
  }
  EXPECT_NEAR(ones / 5000.0, 1 / (1 + std::exp(-2.0)), 0.02);
}

}  // namespace
}  // namespace reprise::models
