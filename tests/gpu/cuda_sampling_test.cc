// Sampling on a GPU compared with models/sampling/sampler.h.
//
// The two sum weights in different orders, so if the random draw or top_p's cutoff is extremely close to the
// boundary between two tokens, either token is accepted.

#include "gpu/cuda/rows/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "gpu/devices.h"
#include "models/sampling/noise.h"
#include "models/sampling/sampler.h"
#include "models/sampling/softmax.h"
#include "tests/require.h"

namespace reprise::gpu::cuda {
namespace {

using models::Sampler;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingRow row_of(const SamplingParams& params) {
  return {.temperature = params.temperature,
          .top_p = params.top_p,
          .min_p = params.min_p,
          .u = fixed_uniform(models::uniform(params.seed, 0, 0)),
          .top_k = static_cast<std::int32_t>(params.top_k)};
}

/// Returns -1 for no token.
std::int32_t token_on_host(const Sampler& sampler, std::span<const float> logits) {
  models::SamplerScratch scratch;
  const models::SampleResult result = sampler.sample(logits, scratch);
  const auto* sampled = std::get_if<models::Sampled>(&result);
  return sampled == nullptr ? -1 : sampled->token;
}

/// Reference sampling step by step for any u and top_p. Requires: a usable logit.
std::int32_t draw_slowly(std::span<const float> logits, const SamplingParams& params, double u,
                         double top_p) {
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInfinity) order.push_back(static_cast<std::int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  const models::Softmax softmax(models::best_logit(logits), params.temperature);
  const auto weight = [&](std::int32_t token) {
    return softmax.weight(logits[static_cast<std::size_t>(token)]);
  };
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < order.size()) {
    order.resize(static_cast<std::size_t>(params.top_k));
  }
  double mass = 0;
  for (const std::int32_t token : order) mass += weight(token);
  std::vector<std::int32_t> kept;
  double sum = 0;
  for (const std::int32_t token : order) {
    if (!kept.empty() && top_p < 1 && sum >= top_p * mass) break;
    if (weight(token) < params.min_p) break;
    kept.push_back(token);
    sum += weight(token);
  }
  double passed = 0;
  for (const std::int32_t token : kept) {
    passed += weight(token);
    if (passed > u * sum) return token;
  }
  return kept.back();
}

bool is_near(std::span<const float> logits, const SamplingParams& params, std::int32_t token) {
  constexpr double kHair = 1e-6;
  const double u = models::uniform(params.seed, 0, 0);
  for (const double du : {-kHair, 0.0, kHair}) {
    for (const double dp : {-kHair, 0.0, kHair}) {
      const double top_p = params.top_p < 1 ? std::clamp(params.top_p + dp, 0.0, 0.999999999) : 1;
      if (draw_slowly(logits, params, std::clamp(u + du, 0.0, 0.999999999), top_p) == token) return true;
    }
  }
  return false;
}

std::vector<float> bell(std::size_t count, float width, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, width);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

/// Rounds to bf16's precision, so that many logits are equal.
std::vector<float> coarse(std::vector<float> logits) {
  for (float& logit : logits) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &logit, 4);
    bits &= 0xffff0000;
    std::memcpy(&logit, &bits, 4);
  }
  return logits;
}

std::vector<SamplingParams> parameter_sets() {
  std::vector<SamplingParams> sets;
  for (const double temperature : {0.1, 0.7, 1.0, 3.0}) {
    for (const std::int64_t top_k : {0, 1, 20, 3000}) {
      for (const double top_p : {1.0, 0.95, 0.3, 0.0}) {
        for (const double min_p : {0.0, 0.05, 1.0}) {
          SamplingParams params;
          params.temperature = temperature;
          params.top_k = top_k;
          params.top_p = top_p;
          params.min_p = min_p;
          sets.push_back(params);
        }
      }
    }
  }
  return sets;
}

class CudaSamplingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
    use_device(0);
  }

  /// `logits` has one row per entry of `params` and is adjusted in place.
  std::vector<SampledToken> run(std::vector<float>& logits, const std::vector<SamplingRow>& params,
                                const std::vector<LogitAdjustment>& adjustments = {},
                                const std::vector<std::uint32_t>& masks = {}) {
    Stream stream;
    DeviceBytes on_device(logits.size() * sizeof(float));
    DeviceBytes rows(params.size() * sizeof(SamplingRow));
    DeviceBytes list(adjustments.size() * sizeof(LogitAdjustment));
    DeviceBytes words(masks.size() * sizeof(std::uint32_t));
    DeviceBytes out(params.size() * sizeof(SampledToken));
    DeviceBytes workspace(sampling_workspace(static_cast<int>(params.size())));
    copy_to_device(words.data(), masks.data(), words.size(), stream.handle());
    copy_to_device(on_device.data(), logits.data(), on_device.size(), stream.handle());
    copy_to_device(rows.data(), params.data(), rows.size(), stream.handle());
    copy_to_device(list.data(), adjustments.data(), list.size(), stream.handle());
    sample(on_device.as<float>(), static_cast<int>(params.size()),
           static_cast<int>(logits.size() / params.size()), static_cast<int>(logits.size() / params.size()),
           rows.as<SamplingRow>(), list.as<LogitAdjustment>(),
           masks.empty() ? nullptr : words.as<std::uint32_t>(), workspace.data(), out.as<SampledToken>(),
           stream.handle());
    std::vector<SampledToken> sampled(params.size());
    copy_to_host(sampled.data(), out.data(), out.size(), stream.handle());
    copy_to_host(logits.data(), on_device.data(), on_device.size(), stream.handle());
    stream.wait();
    return sampled;
  }

  SampledToken run_one(std::vector<float> logits, const SamplingParams& params) {
    return run(logits, {row_of(params)}).at(0);
  }

  /// Runs every parameter set as a row of one batch, each with its own seed.
  void expect_as_on_host(const std::vector<float>& logits, const char* what, bool exactly = false) {
    std::vector<SamplingParams> sets = parameter_sets();
    std::vector<SamplingRow> rows;
    std::vector<float> batch;
    for (SamplingParams& params : sets) {
      params.seed = ++seed_;
      rows.push_back(row_of(params));
      batch.insert(batch.end(), logits.begin(), logits.end());
    }
    const std::vector<SampledToken> sampled = run(batch, rows);
    std::size_t other = 0;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const std::int32_t expected = token_on_host(Sampler(sets[i], logits.size()), logits);
      if (sampled[i].token == expected) continue;
      ++other;
      EXPECT_TRUE(!exactly && expected >= 0 && is_near(logits, sets[i], sampled[i].token))
          << what << ", " << logits.size() << " tokens: " << sampled[i].token << " and not " << expected
          << "; temperature " << sets[i].temperature << " top_k " << sets[i].top_k << " top_p "
          << sets[i].top_p << " min_p " << sets[i].min_p << " seed " << sets[i].seed;
    }
    EXPECT_LE(other, sets.size() / 50) << what << ": too many fall near an edge";
  }

  std::uint64_t seed_ = 0;
};

// Rows without a mask are not affected.
TEST_F(CudaSamplingTest, AMaskLeavesWhatItAllows) {
  constexpr std::size_t kTokens = 3001;
  const std::vector<float> logits = bell(kTokens, 3, 5);
  std::vector<std::uint32_t> mask((kTokens + 31) / 32);
  std::vector<float> allowed(kTokens, -std::numeric_limits<float>::infinity());
  for (std::size_t token = 7; token < kTokens; token += 97) {
    mask[token / 32] |= 1U << token % 32;
    allowed[token] = logits[token];
  }
  for (SamplingParams params : parameter_sets()) {
    params.seed = ++seed_;
    std::vector<SamplingRow> rows(2, row_of(params));
    rows[1].first_mask_word = 0;
    std::vector<float> batch = logits;
    batch.insert(batch.end(), logits.begin(), logits.end());
    const std::vector<SampledToken> sampled = run(batch, rows, {}, mask);
    EXPECT_EQ(sampled[0].token, run_one(logits, params).token);
    ASSERT_TRUE(sampled[1].token >= 0 && allowed[static_cast<std::size_t>(sampled[1].token)] > -1e30F);
    EXPECT_EQ(sampled[1].token, run_one(allowed, params).token);
  }
}

TEST_F(CudaSamplingTest, GreedyTakesTheFirstOfTheBest) {
  SamplingParams greedy;
  greedy.temperature = 0;
  for (const std::size_t vocab : {1, 31, 1024, 1025, 50000, 248320}) {
    std::vector<float> logits = coarse(bell(vocab, 3, static_cast<std::uint32_t>(vocab)));
    EXPECT_EQ(run_one(logits, greedy).token, token_on_host(Sampler(greedy, vocab), logits)) << vocab;
    std::mt19937 random(4);
    const std::size_t at = random() % vocab;
    logits[at] = 1000;
    logits[vocab - 1] = 1000;
    EXPECT_EQ(run_one(logits, greedy).token, static_cast<std::int32_t>(at)) << vocab;
    std::fill(logits.begin(), logits.end(), -3.0F);
    EXPECT_EQ(run_one(logits, greedy).token, 0) << vocab;
  }
}

TEST_F(CudaSamplingTest, ZeroHasNoSign) {
  for (const double temperature : {0.0, 1.0}) {
    SamplingParams params;
    params.temperature = temperature;
    params.top_k = 1;
    EXPECT_EQ(run_one({-1, -0.0F, 0.0F, -0.0F}, params).token, 1);
    EXPECT_EQ(run_one({-1, 0.0F, -0.0F, 0.0F}, params).token, 1);
  }
}

TEST_F(CudaSamplingTest, WhatIsNoNumberIsNeverChosen) {
  for (const double temperature : {0.0, 1.0}) {
    SamplingParams params;
    params.temperature = temperature;
    SampledToken none = run_one({kNan, -kInfinity, kNan}, params);
    EXPECT_EQ(none.token, -1);
    EXPECT_EQ(none.health, SampledToken::kNotFinite);
    none = run_one({-kInfinity, -kInfinity}, params);
    EXPECT_EQ(none.token, -1);
    EXPECT_EQ(none.health, 0U);
    for (params.seed = 0; params.seed < 20; ++params.seed) {
      const SampledToken one = run_one({kNan, -kInfinity, -2, kNan, -kInfinity}, params);
      EXPECT_EQ(one.token, 2);
      EXPECT_EQ(one.health, SampledToken::kNotFinite | SampledToken::kUsable);
      const SampledToken best = run_one({5, kInfinity, 7, kInfinity, kNan}, params);
      EXPECT_TRUE(best.token == 1 || (best.token == 3 && temperature > 0)) << best.token;
      EXPECT_EQ(best.token,
                token_on_host(Sampler(params, 5), std::vector<float>{5, kInfinity, 7, kInfinity, kNan}));
      EXPECT_EQ(best.health, SampledToken::kNotFinite | SampledToken::kUsable);
      EXPECT_EQ(run_one({5, -kInfinity, 7}, params).health, SampledToken::kUsable);
    }
  }
}

TEST_F(CudaSamplingTest, ChoosesAsTheHostDoes) {
  for (const std::size_t vocab : {2, 17, 1000, 5000, 151936, 248320}) {
    for (const float width : {0.5F, 2.0F, 8.0F}) {
      expect_as_on_host(bell(vocab, width, static_cast<std::uint32_t>(vocab)), "a bell");
    }
    std::vector<float> holes = bell(vocab, 3, 5);
    for (std::size_t i = 0; i < vocab; i += 3) holes[i] = i % 2 == 0 ? kNan : -kInfinity;
    expect_as_on_host(holes, "a bell with holes");
  }
}

TEST_F(CudaSamplingTest, OrdersEqualLogitsByTheirIds) {
  for (const std::size_t vocab : {17, 1000, 5000, 151936}) {
    expect_as_on_host(coarse(bell(vocab, 2, static_cast<std::uint32_t>(vocab))), "few digits");
    expect_as_on_host(std::vector<float>(vocab, -1.5F), "all equal", true);
    std::vector<float> few(vocab);
    for (std::size_t i = 0; i < vocab; ++i) few[i] = static_cast<float>(i * 7919 % 3);
    expect_as_on_host(few, "three values");
  }
}

TEST_F(CudaSamplingTest, FindsItsWayInACrowd) {
  for (const std::size_t vocab : {5000, 100000}) {
    std::mt19937 random(8);
    std::vector<float> close(vocab);
    for (float& logit : close) logit = 5 + static_cast<float>(random() % 1000000) * 1e-9F;
    expect_as_on_host(close, "all close to 5");
    for (float& logit : close) logit = static_cast<float>(random() % 1000000) * 1e-9F - 5e-4F;
    expect_as_on_host(close, "on both sides of 0");
    for (std::size_t i = 0; i < 3000; ++i) close[i * 7919 % vocab] = 0.00025F;
    expect_as_on_host(close, "with many equals among them");
  }
}

TEST_F(CudaSamplingTest, DrawsEveryTokenAsOftenAsItWeighs) {
  const std::vector<float> logits = {0, std::log(2.0F), std::log(5.0F), -kInfinity, std::log(2.0F)};
  constexpr int kTimes = 4000;
  std::vector<SamplingRow> rows;
  std::vector<float> batch;
  for (int i = 0; i < kTimes; ++i) {
    rows.push_back({.u = fixed_uniform((i + 0.5) / kTimes)});
    batch.insert(batch.end(), logits.begin(), logits.end());
  }
  std::vector<int> times(logits.size());
  for (const SampledToken& sampled : run(batch, rows)) ++times.at(static_cast<std::size_t>(sampled.token));
  EXPECT_EQ(times, (std::vector<int>{400, 800, 2000, 0, 800}));
}

TEST_F(CudaSamplingTest, AdjustsBeforeItChooses) {
  constexpr std::size_t kVocab = 3000;
  std::mt19937 random(9);
  for (const double temperature : {0.0, 0.8}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      SamplingParams params;
      params.temperature = temperature;
      params.top_k = 30;
      params.repetition_penalty = 1.3;
      params.presence_penalty = 0.5;
      params.frequency_penalty = 0.25;
      params.seed = seed;
      constexpr TokenId kBest = 2000;
      std::vector<float> logits = bell(kVocab, 3, static_cast<std::uint32_t>(seed));
      logits[kBest] = 20;
      std::vector<LogitAdjustment> list = {{.token = 1}};  // another row's
      params.logit_bias = {{kBest, -kInfinity}, {5, 3.5F}, {5, 1.25F}, {7, -100}};
      for (const LogitBias& bias : params.logit_bias) {
        list.push_back({.token = bias.token, .bias = bias.bias});
      }
      Sampler sampler(params, kVocab);
      std::vector<int> outputs(kVocab);
      for (int i = 0; i < 50; ++i) {
        const auto token = static_cast<TokenId>(10 + random() % 40);
        sampler.accept(token, models::TokenOrigin::kOutput);
        ++outputs[static_cast<std::size_t>(token)];
      }
      for (std::size_t token = 0; token < kVocab; ++token) {
        if (outputs[token] == 0) continue;
        list.push_back({.token = static_cast<std::int32_t>(token),
                        .penalty = 1.3F,
                        .subtract = 0.5F + 0.25F * static_cast<float>(outputs[token])});
      }
      SamplingRow row = row_of(params);
      row.u = fixed_uniform(models::uniform(params.seed, 0, sampler.state().step));
      row.first_adjustment = 1;
      row.adjustments = static_cast<std::int32_t>(list.size() - 1);
      std::vector<float> batch = logits;
      const SampledToken sampled = run(batch, {row}, list).at(0);
      EXPECT_EQ(sampled.token, token_on_host(sampler, logits)) << temperature << " " << seed;
      EXPECT_EQ(sampled.health, SampledToken::kUsable) << "a ban is no fault of the model's";
      EXPECT_EQ(batch[kBest], -kInfinity);
      EXPECT_EQ(batch[5], logits[5] + 3.5F + 1.25F);
      EXPECT_EQ(batch[1], logits[1]);
    }
  }
  // All tokens banned, though the model's logits were usable.
  std::vector<float> two = {1, 2};
  const SampledToken banned = run(two, {{.temperature = 0, .adjustments = 2}},
                                  {{.token = 0, .bias = -kInfinity}, {.token = 1, .bias = -kInfinity}})
                                  .at(0);
  EXPECT_EQ(banned.token, -1);
  EXPECT_EQ(banned.health, SampledToken::kUsable);
}

TEST_F(CudaSamplingTest, ARowDependsOnItselfAlone) {
  constexpr std::size_t kVocab = 20000;
  const std::vector<float> logits = bell(kVocab, 2, 1);
  SamplingParams params;
  params.top_p = 0.9;
  std::vector<float> batch;
  std::vector<SamplingRow> rows;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const std::vector<float> one = i % 3 == 0 ? logits : bell(kVocab, 3, i);
    batch.insert(batch.end(), one.begin(), one.end());
    params.temperature = i % 3 == 0 ? 1 : i % 3 - 1;
    rows.push_back(row_of(params));
  }
  params.temperature = 1;
  const std::int32_t alone = run_one(logits, params).token;
  const std::vector<SampledToken> sampled = run(batch, rows);
  for (std::size_t i = 0; i < sampled.size(); i += 3) EXPECT_EQ(sampled[i].token, alone) << i;
}

}  // namespace
}  // namespace reprise::gpu::cuda
