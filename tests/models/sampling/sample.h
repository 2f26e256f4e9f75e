#pragma once
// Helpers shared by the sampler's tests.

#include <gtest/gtest.h>

#include <vector>

#include "models/sampling/sampler.h"
#include "tests/models/sampling/random_logits.h"

namespace reprise::models::test {

constexpr auto kPrompt = TokenOrigin::kPrompt;
constexpr auto kOutput = TokenOrigin::kOutput;

inline Sampled sampled(const Sampler& sampler, const std::vector<float>& logits) {
  SamplerScratch scratch;
  return std::get<Sampled>(sampler.sample(logits, scratch));
}

inline TokenId sample(const Sampler& sampler, const std::vector<float>& logits) {
  return sampled(sampler, logits).token;
}

inline TokenId greedy(const std::vector<float>& logits, SamplingParams params = {}) {
  params.temperature = 0;
  return sample(Sampler(params, logits.size()), logits);
}

inline std::vector<TokenId> generate(Sampler& sampler, const std::vector<float>& logits, int steps) {
  std::vector<TokenId> tokens;
  SamplerScratch scratch;
  for (int i = 0; i < steps; ++i) {
    tokens.push_back(std::get<Sampled>(sampler.sample(logits, scratch)).token);
    sampler.accept(tokens.back(), kOutput);
  }
  return tokens;
}

}  // namespace reprise::models::test
