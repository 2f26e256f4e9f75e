// Time of the sampler per token, by the request's options.
//
//   bench_sampler [vocabulary]        microseconds of CPU time per token, best of several rounds
//
// The logits are normally distributed, with a few dozen tokens well above the rest, as in a language model;
// in the `flat` row all tokens are alike, the worst case for sampling without filters.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "models/sampling/sampler.h"

namespace {

using namespace reprise;
using namespace reprise::models;

std::vector<float> model_logits(std::size_t vocab) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> noise(0, 2);
  std::vector<float> logits(vocab);
  for (float& logit : logits) logit = noise(random);
  for (int i = 0; i < 40; ++i) logits[random() % vocab] = 20 - 0.3f * static_cast<float>(i);
  return logits;
}

void report(const char* name, const SamplingParams& params, const std::vector<float>& logits) {
  constexpr int kRounds = 7, kTokens = 40, kPrompt = 4000;
  Sampler sampler(params, logits.size());
  std::mt19937_64 random(2);
  for (int i = 0; i < kPrompt; ++i) {
    sampler.accept(static_cast<TokenId>(random() % logits.size()), TokenOrigin::kPrompt);
  }
  SamplerScratch scratch;
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const std::clock_t start = std::clock();
    for (int i = 0; i < kTokens; ++i) {
      const SampleResult result = sampler.sample(logits, scratch);
      sampler.accept(std::get<Sampled>(result).token, TokenOrigin::kOutput);
    }
    const double spent = static_cast<double>(std::clock() - start) * 1e6 / CLOCKS_PER_SEC;
    best = std::min(best, spent / kTokens);
  }
  std::printf("%-36s %9.1f us\n", name, best);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t vocab = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 248320;
  if (vocab == 0 || vocab > 1u << 26) {
    std::fprintf(stderr, "usage: bench_sampler [vocabulary]\n");
    return 2;
  }
  const std::vector<float> logits = model_logits(vocab);
  std::printf("vocabulary %zu\n", vocab);
  report("greedy", {.temperature = 0}, logits);
  report("greedy, 20 logprobs", {.temperature = 0, .logprobs = 20}, logits);
  report("temperature 1, no filter", {}, logits);
  report("temperature 1, no filter, flat", {}, std::vector<float>(vocab, 0));
  report("top_k 20, top_p 0.95", {.temperature = 0.6, .top_k = 20, .top_p = 0.95}, logits);
  report("top_k 1000", {.top_k = 1000}, logits);
  report("top_p 0.95", {.top_p = 0.95}, logits);
  report("min_p 0.05", {.min_p = 0.05}, logits);
  report("top_k 20, repetition 1.1", {.top_k = 20, .repetition_penalty = 1.1}, logits);
  report("top_k 20, presence 1.5", {.top_k = 20, .presence_penalty = 1.5}, logits);
  return 0;
}
