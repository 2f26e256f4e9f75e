#include "models/sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "tests/models/sampling/sample.h"

namespace reprise::models {
namespace {

using namespace test;

TEST(Logprobs, OnlyWhenAsked) {
  const Sampled none = sampled(Sampler({}, 3), {1, 2, 3});
  EXPECT_FALSE(none.logprob);
  EXPECT_TRUE(none.top.empty());
  const Sampled zero = sampled(Sampler({.logprobs = 0}, 3), {1, 2, 3});
  EXPECT_TRUE(zero.logprob);
  EXPECT_TRUE(zero.top.empty());
}

TEST(Logprobs, AreTheLogSoftmax) {
  const std::vector<float> logits = test::RandomLogits(12).make_distinct(5000);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  const Sampled out = sampled(Sampler({.temperature = 0, .logprobs = 20}, 5000), logits);
  ASSERT_EQ(out.top.size(), 20u);
  EXPECT_EQ(out.top[0], (TokenLogprob{out.token, *out.logprob}));
  for (std::size_t i = 0; i < out.top.size(); ++i) {
    EXPECT_NEAR(out.top[i].logprob, logits[static_cast<std::size_t>(out.top[i].token)] - std::log(sum), 1e-6);
    if (i > 0) {
      EXPECT_LT(out.top[i].logprob, out.top[i - 1].logprob);
    }
  }
}

TEST(Logprobs, SumToOne) {
  test::RandomLogits random(13);
  for (int round = 0; round < 20; ++round) {
    const Sampled out = sampled(Sampler({.logprobs = 20}, 20), random.make(20));
    double sum = 0;
    for (const TokenLogprob& entry : out.top) sum += std::exp(entry.logprob);
    EXPECT_EQ(out.top.size(), 20u);
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(Logprobs, AreTheModelsWhateverTheRequestDoes) {
  const std::vector<float> logits = test::RandomLogits(14).make_distinct(100);
  const Sampled model = sampled(Sampler({.temperature = 0, .logprobs = 20}, 100), logits);
  const TokenId worst = static_cast<TokenId>(std::min_element(logits.begin(), logits.end()) - logits.begin());
  Sampler bent({.temperature = 0.1,
                .top_k = 1,
                .repetition_penalty = 5,
                .logit_bias = {{worst, 1000}},
                .logprobs = 20},
               100);
  bent.accept(model.token, kOutput);
  const Sampled out = sampled(bent, logits);
  EXPECT_EQ(out.token, worst);
  EXPECT_EQ(out.top, model.top);
  const double difference = static_cast<double>(logits[static_cast<std::size_t>(worst)]) -
                            static_cast<double>(logits[static_cast<std::size_t>(model.token)]);
  EXPECT_NEAR(*out.logprob, *model.logprob + difference, 1e-9);
}

TEST(Logprobs, WithoutNumbers) {
  const Sampled out = sampled(Sampler({.temperature = 0, .logprobs = 5}, 4), {kNan, 0, -kInfinity, 0});
  EXPECT_EQ(out.token, 1);
  EXPECT_NEAR(*out.logprob, -std::log(2.0), 1e-12);
  ASSERT_EQ(out.top.size(), 2u);
  EXPECT_EQ(out.top[1].token, 3);

  const Sampled banned =
      sampled(Sampler({.temperature = 0, .logit_bias = {{0, -kInfinity}}, .logprobs = 2}, 2), {kInfinity, 1});
  EXPECT_EQ(banned.token, 1);
  EXPECT_EQ(*banned.logprob, -kInfinity);
  EXPECT_EQ(banned.top, (std::vector<TokenLogprob>{{0, 0}, {1, -kInfinity}}));
}

TEST(Logprobs, OfATokenThatNobodySampled) {
  SamplerScratch scratch;
  Sampled out{.token = 0};
  add_logprobs(out, std::vector<float>{0, 0, 0, 0}, 2, scratch);
  EXPECT_NEAR(*out.logprob, -std::log(4.0), 1e-12);
  EXPECT_EQ(out.top.size(), 2u);
  add_logprobs(out, std::vector<float>{kNan, -kInfinity}, 2, scratch);
  EXPECT_EQ(*out.logprob, -kInfinity);
  EXPECT_TRUE(out.top.empty());
}

}  // namespace
}  // namespace reprise::models
