#include "models/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "models/sampling/noise.h"
#include "tests/models/sampling/sample.h"

namespace reprise::models {
namespace {

using namespace test;

/// Applies the filters' definitions in order, in double with a full sort. `margin`: distance of the closest
/// decision from the opposite outcome, as a fraction of the mass.
struct Reference {
  std::vector<TokenId> kept;
  TokenId token = -1;
  double margin = 1;

  Reference(const SamplingParams& params, const std::vector<float>& logits, double u) {
    kept.resize(logits.size());
    std::iota(kept.begin(), kept.end(), 0);
    const auto logit = [&](TokenId id) { return static_cast<double>(logits[static_cast<std::size_t>(id)]); };
    std::stable_sort(kept.begin(), kept.end(), [&](TokenId a, TokenId b) { return logit(a) > logit(b); });

    if (params.top_k > 0) kept.resize(std::min(kept.size(), static_cast<std::size_t>(params.top_k)));

    std::vector<double> p;  // of the kept tokens, normalized
    const auto normalize = [&] {
      p.clear();
      for (const TokenId id : kept) p.push_back(std::exp((logit(id) - logit(kept[0])) / params.temperature));
      const double sum = std::accumulate(p.begin(), p.end(), 0.0);
      for (double& x : p) x /= sum;
    };
    const auto consider = [&](double distance) { margin = std::min(margin, std::abs(distance)); };

    normalize();
    if (params.top_p < 1) {
      std::size_t count = 0;
      double sum = 0;
      do {
        sum += p[count++];
        consider(sum - params.top_p);
      } while (count < kept.size() && sum < params.top_p);
      kept.resize(count);
      normalize();
    }
    if (params.min_p > 0) {
      std::size_t count = 1;
      for (; count < kept.size(); ++count) {
        consider(p[count] / p[0] - params.min_p);
        if (p[count] < params.min_p * p[0]) break;
      }
      kept.resize(count);
      normalize();
    }
    double sum = 0;
    for (std::size_t i = 0; i < kept.size() && token < 0; ++i) {
      sum += p[i];
      if (i + 1 < kept.size()) consider(sum - u);
      if (sum > u || i + 1 == kept.size()) token = kept[i];
    }
  }
};

/// Compares with the reference, on random logits each step.
void expect_reference(SamplingParams params, std::size_t vocab, int steps, bool ties = true) {
  params.seed = 1234;
  Sampler sampler(params, vocab, 3);
  SamplerScratch scratch;
  test::RandomLogits random(vocab);
  int too_close = 0;
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> logits = ties ? random.make(vocab) : random.make_distinct(vocab);
    const Reference reference(params, logits, uniform(1234, 3, static_cast<std::uint64_t>(step)));
    const TokenId token = std::get<Sampled>(sampler.sample(logits, scratch)).token;
    if (reference.margin > 1e-6) {
      ASSERT_EQ(token, reference.token) << "step " << step << ", margin " << reference.margin;
    } else {
      ++too_close;
    }
    sampler.accept(token, kOutput);
  }
  EXPECT_LE(too_close, 1 + steps / 20);
}

TEST(Filters, NoneIsThePlainDistribution) {
  expect_reference({}, 50, 2000);
  expect_reference({}, 3000, 100, false);
  expect_reference({.temperature = 20}, 3000, 100);
}

TEST(Filters, Temperature) {
  for (const double temperature : {0.1, 0.5, 0.9, 1.7, 100.0})
    expect_reference({.temperature = temperature}, 300, 200);
}

TEST(Filters, TopK) {
  for (const std::int64_t k : {-1, 0, 1, 2, 5, 20, 64, 65, 299, 300, 301, 100000}) {
    expect_reference({.temperature = 3, .top_k = k}, 300, 200);
  }
}

TEST(Filters, TopP) {
  for (const double p : {0.0, 0.01, 0.3, 0.5, 0.9, 0.95, 0.999}) {
    expect_reference({.top_p = p}, 300, 200);
    expect_reference({.temperature = 4, .top_p = p}, 300, 200);
  }
}

TEST(Filters, MinP) {
  for (const double p : {0.001, 0.01, 0.1, 0.33, 0.9}) {
    expect_reference({.min_p = p}, 300, 200);
    expect_reference({.temperature = 4, .min_p = p}, 300, 200);
  }
}

TEST(Filters, Together) {
  test::RandomLogits random(99);
  for (int round = 0; round < 60; ++round) {
    const SamplingParams params{.temperature = 0.3 + 0.1 * static_cast<double>(random.below(40)),
                                .top_k = static_cast<std::int64_t>(random.below(100)),
                                .top_p = 0.01 * static_cast<double>(random.below(101)),
                                .min_p = 0.003 * static_cast<double>(random.below(100))};
    expect_reference(params, 1 + random.below(500), 40);
  }
}

TEST(Filters, LargeVocabulary) {
  const std::size_t vocab = 248320;
  expect_reference({.temperature = 0.6, .top_k = 20, .top_p = 0.95}, vocab, 3, false);
  expect_reference({.temperature = 0.5, .top_p = 0.9}, vocab, 3, false);
  expect_reference({.temperature = 2}, vocab, 3, false);
}

// top_p counts the mass left by top_k, not the total.
TEST(Filters, TopPLooksAtWhatTopKLeft) {
  const std::vector<float> logits(100, 0);  // ten kept, of a tenth each
  std::map<TokenId, int> seen;
  Sampler sampler({.top_k = 10, .top_p = 0.45}, 100);
  for (const TokenId token : generate(sampler, logits, 500)) ++seen[token];
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(seen.rbegin()->first, 4);
}

TEST(Draw, FollowsTheDistribution) {
  constexpr int kDraws = 40000;
  test::RandomLogits random(5);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::vector<float> logits = random.make(20);
    for (float& logit : logits) logit /= 4;  // no token is rare
    const SamplingParams params{.temperature = 0.8, .top_k = seed > 3 ? 12 : 0, .seed = seed};
    Sampler sampler(params, logits.size());
    std::map<TokenId, int> counts;
    for (const TokenId token : generate(sampler, logits, kDraws)) ++counts[token];

    const std::vector<TokenId> kept = Reference(params, logits, 0).kept;
    double total = 0, chi2 = 0;
    const auto weight = [&](TokenId id) { return std::exp(logits[static_cast<std::size_t>(id)] / 0.8); };
    for (const TokenId id : kept) total += weight(id);
    for (const TokenId id : kept) {
      const double expected = weight(id) / total * kDraws;
      ASSERT_GT(expected, 20);
      chi2 += std::pow(counts[id] - expected, 2) / expected;
    }
    EXPECT_EQ(counts.size(), kept.size());
    EXPECT_LT(chi2, 55) << seed;  // at most 19 degrees of freedom: exceeded by one seed in 40,000
  }
}

}  // namespace
}  // namespace reprise::models
