#include "base/sampling.h"

#include <gtest/gtest.h>

#include <limits>

namespace reprise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kVocab = 100;

/// Returns "field: reason" for all errors, one per line.
std::string error_of(const SamplingParams& params) {
  std::string all;
  for (const ParamError& error : params.validate(kVocab)) {
    if (!all.empty()) all += '\n';
    all += error.describe();
  }
  return all;
}

TEST(SamplingParams, DefaultsAndExtremesAreValid) {
  EXPECT_EQ(error_of({}), "");
  EXPECT_EQ(error_of({.temperature = 0, .top_k = -1, .top_p = 0, .min_p = 1}), "");
  EXPECT_EQ(error_of({.temperature = 100, .top_k = 1'000'000, .top_p = 1}), "");
  EXPECT_EQ(error_of({.repetition_penalty = 100, .repetition_last_n = -5}), "");
  EXPECT_EQ(error_of({.presence_penalty = -2, .frequency_penalty = 2}), "");
  EXPECT_EQ(error_of({.logit_bias = {{0, -100}, {99, 100}, {5, -std::numeric_limits<float>::infinity()}}}),
            "");
  EXPECT_EQ(error_of({.logprobs = 0}), "");
  EXPECT_EQ(error_of({.logprobs = 20}), "");
}

TEST(SamplingParams, EveryErrorNamesItsField) {
  EXPECT_EQ(error_of({.temperature = -0.5}), "temperature: must lie between 0 and 100, is -0.5");
  EXPECT_EQ(error_of({.temperature = 101}), "temperature: must lie between 0 and 100, is 101");
  EXPECT_EQ(error_of({.temperature = kNan}), "temperature: must lie between 0 and 100, is nan");
  EXPECT_EQ(error_of({.temperature = kInfinity}), "temperature: must lie between 0 and 100, is inf");
  EXPECT_EQ(error_of({.top_k = -2}), "top_k: must be at least 1, or 0 or -1 for all, is -2");
  EXPECT_EQ(error_of({.top_p = 1.5}), "top_p: must lie between 0 and 1, is 1.5");
  EXPECT_EQ(error_of({.top_p = -0.1}), "top_p: must lie between 0 and 1, is -0.1");
  EXPECT_EQ(error_of({.min_p = 2}), "min_p: must lie between 0 and 1, is 2");
  EXPECT_EQ(error_of({.min_p = kNan}), "min_p: must lie between 0 and 1, is nan");
  EXPECT_EQ(error_of({.repetition_penalty = 0}), "repetition_penalty: must be above 0 and at most 100, is 0");
  EXPECT_EQ(error_of({.repetition_penalty = kNan}),
            "repetition_penalty: must be above 0 and at most 100, is nan");
  EXPECT_EQ(error_of({.presence_penalty = 2.5}), "presence_penalty: must lie between -2 and 2, is 2.5");
  EXPECT_EQ(error_of({.frequency_penalty = -3}), "frequency_penalty: must lie between -2 and 2, is -3");
  EXPECT_EQ(error_of({.logit_bias = {{100, 1}}}), "logit_bias: token 100 is not in the vocabulary of 100");
  EXPECT_EQ(error_of({.logit_bias = {{-1, 1}}}), "logit_bias: token -1 is not in the vocabulary of 100");
  EXPECT_EQ(error_of({.logit_bias = {{7, static_cast<float>(kNan)}}}),
            "logit_bias: token 7 has a bias of nan, which is no finite number");
  EXPECT_EQ(error_of({.logit_bias = {{7, static_cast<float>(kInfinity)}}}),
            "logit_bias: token 7 has a bias of inf, which is no finite number");
  EXPECT_EQ(error_of({.logprobs = 21}), "logprobs: must lie between 0 and 20, is 21");
  EXPECT_EQ(error_of({.logprobs = -1}), "logprobs: must lie between 0 and 20, is -1");
}

TEST(SamplingParams, ReportsAllErrorsInOrder) {
  const auto errors = SamplingParams{.temperature = -1, .top_p = 7, .logprobs = 99}.validate(kVocab);
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].field, "temperature");
  EXPECT_EQ(errors[1].field, "top_p");
  EXPECT_EQ(errors[2].field, "logprobs");
}

TEST(SamplingOverrides, ClientOverridesModelAndModelOverridesDefaults) {
  SamplingOverrides client;
  client.temperature = 0.5;
  client.seed = 7;
  client.logprobs = 3;
  SamplingOverrides model;
  model.temperature = 0.9;
  model.top_k = 20;
  model.logit_bias = {{4, -1.0F}};
  SamplingParams wanted;
  wanted.temperature = 0.5;
  wanted.top_k = 20;
  wanted.seed = 7;
  wanted.logprobs = 3;
  wanted.logit_bias = {{4, -1.0F}};
  EXPECT_EQ(resolve(client, model), wanted);
  EXPECT_EQ(resolve({}, {}), SamplingParams());
}

TEST(SamplingOverrides, EveryFieldIsTaken) {
  const SamplingOverrides all{.temperature = 0.1,
                              .top_k = 2,
                              .top_p = 0.3,
                              .min_p = 0.4,
                              .repetition_penalty = 1.5,
                              .repetition_last_n = 6,
                              .presence_penalty = 0.7,
                              .frequency_penalty = 0.8,
                              .logit_bias = {{9, 1.0F}},
                              .seed = 10,
                              .logprobs = 11};
  const SamplingParams wanted{.temperature = 0.1,
                              .top_k = 2,
                              .top_p = 0.3,
                              .min_p = 0.4,
                              .repetition_penalty = 1.5,
                              .repetition_last_n = 6,
                              .presence_penalty = 0.7,
                              .frequency_penalty = 0.8,
                              .logit_bias = {{9, 1.0F}},
                              .seed = 10,
                              .logprobs = 11};
  EXPECT_EQ(resolve(all, {}), wanted);
  EXPECT_EQ(resolve({}, all), wanted);
}

}  // namespace
}  // namespace reprise
