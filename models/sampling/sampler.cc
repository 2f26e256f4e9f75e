// Compiled with -ffp-contract=off: see models/CMakeLists.txt.
#include "models/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "models/sampling/noise.h"
#include "models/sampling/softmax.h"

namespace reprise::models {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool has_repetition(const SamplingParams& params) {
  return params.repetition_penalty != 1;
}

bool has_output_penalty(const SamplingParams& params) {
  return params.presence_penalty != 0 || params.frequency_penalty != 0;
}

void ban_others(const TokenMask& mask, std::vector<float>& logits) {
  for (std::size_t word = 0; word * 32 < logits.size(); ++word) {
    const std::uint32_t bits = word < mask.bits.size() ? mask.bits[word] : 0;
    if (bits == UINT32_MAX) continue;
    const std::size_t end = std::min(logits.size(), word * 32 + 32);
    for (std::size_t token = word * 32; token < end; ++token) {
      if ((bits >> (token % 32) & 1) == 0) logits[token] = -kInfinity;
    }
  }
}

}  // namespace

const char* to_string(SampleError error) {
  switch (error) {
    case SampleError::kNoLogits:
      return "the model gave no usable logit";
    case SampleError::kAllBanned:
      return "logit_bias and penalties leave no token to choose";
    case SampleError::kNoneAllowed:
      return "logit_bias leaves no token that the reply's grammar allows";
  }
  return "?";
}

Sampler::Sampler(SamplingParams params, std::size_t vocab, std::uint32_t choice)
    : params_(std::move(params)), vocab_(vocab), choice_(choice) {
  REPRISE_CHECK(vocab > 0 && vocab <= static_cast<std::size_t>(std::numeric_limits<TokenId>::max()),
                "a vocabulary whose ids do not fit");
  REPRISE_CHECK(params_.validate(vocab).empty(), "sampling parameters that nobody validated");
}

void Sampler::accept(TokenId token, TokenOrigin origin) {
  REPRISE_CHECK(token >= 0 && static_cast<std::size_t>(token) < vocab_, "a token outside the vocabulary");
  const bool output = origin == TokenOrigin::kOutput;
  ++state_.accepted;
  if (output) ++state_.step;
  if (!has_repetition(params_) && !(output && has_output_penalty(params_))) return;
  SamplerState::Seen& seen = state_.seen[token];
  seen.last = state_.accepted;
  if (output) ++seen.outputs;
}

std::span<const float> Sampler::adjusted(std::span<const float> logits, std::vector<float>& copy) const {
  if (params_.logit_bias.empty() && state_.seen.empty()) return logits;
  copy.assign(logits.begin(), logits.end());
  for (const LogitBias& entry : params_.logit_bias) copy[static_cast<std::size_t>(entry.token)] += entry.bias;

  for (const auto& [token, seen] : state_.seen) {
    float& logit = copy[static_cast<std::size_t>(token)];
    const Penalty penalty = penalty_of(seen);
    if (penalty.repeats) logit = logit > 0 ? logit / penalty.repetition : logit * penalty.repetition;
    logit -= penalty.subtracted;
  }
  return copy;
}

// What a token's past does to its logit.
Sampler::Penalty Sampler::penalty_of(const SamplerState::Seen& seen) const {
  const std::uint64_t window = params_.repetition_last_n > 0
                                   ? static_cast<std::uint64_t>(params_.repetition_last_n)
                                   : std::numeric_limits<std::uint64_t>::max();
  Penalty penalty{.repeats = state_.accepted - seen.last < window,
                  .repetition = static_cast<float>(params_.repetition_penalty),
                  .subtracted = 0};
  if (seen.outputs > 0) {
    penalty.subtracted = static_cast<float>(params_.presence_penalty) +
                         static_cast<float>(params_.frequency_penalty) * static_cast<float>(seen.outputs);
  }
  return penalty;
}

std::optional<DrawPlan> Sampler::plan(std::size_t most_adjustments) const {
  if (params_.logprobs || state_.seen.size() + params_.logit_bias.size() > most_adjustments)
    return std::nullopt;
  DrawPlan plan{.temperature = params_.temperature,
                .top_k = std::max<std::int64_t>(params_.top_k, 0),
                .top_p = params_.top_p,
                .min_p = params_.min_p,
                .noise = uniform(params_.seed, choice_, state_.step)};
  std::unordered_map<TokenId, DrawPlan::Adjustment> changes;  // a token may be biased twice and penalised too
  for (const LogitBias& entry : params_.logit_bias) changes[entry.token].bias += entry.bias;
  for (const auto& [token, seen] : state_.seen) {
    const Penalty penalty = penalty_of(seen);
    DrawPlan::Adjustment& change = changes[token];
    if (penalty.repeats) change.penalty = penalty.repetition;
    change.subtracted = penalty.subtracted;
  }
  for (auto& [token, change] : changes) {
    change.token = token;
    plan.adjustments.push_back(change);
  }
  return plan;
}

SampleResult Sampler::sample(std::span<const float> logits, SamplerScratch& scratch,
                             const TokenMask* mask) const {
  REPRISE_CHECK(logits.size() == vocab_, "logits of another vocabulary");
  std::span<const float> wanted = adjusted(logits, scratch.logits);
  if (mask != nullptr) {
    if (wanted.data() == logits.data()) scratch.logits.assign(logits.begin(), logits.end());
    ban_others(*mask, scratch.logits);
    wanted = scratch.logits;
  }
  const float best = best_logit(wanted);
  if (best == -kInfinity) {
    if (best_logit(logits) == -kInfinity) return SampleError::kNoLogits;
    return mask != nullptr ? SampleError::kNoneAllowed : SampleError::kAllBanned;
  }
  Sampled sampled;
  if (params_.temperature == 0) {
    sampled.token = static_cast<TokenId>(std::find(wanted.begin(), wanted.end(), best) - wanted.begin());
  } else {
    sampled.token = draw(wanted, best, scratch.ranked);
  }
  if (params_.logprobs) add_logprobs(sampled, logits, *params_.logprobs, scratch);
  return sampled;
}

// Every filter keeps a beginning of the rank order, so what they leave together is a beginning as well:
// `kept` tokens that weigh `mass`. The order is looked at no further than the answer needs.
TokenId Sampler::draw(std::span<const float> logits, float best, std::vector<RankedToken>& storage) const {
  const Softmax softmax(best, params_.temperature);
  const bool has_top_k = params_.top_k > 0 && static_cast<std::uint64_t>(params_.top_k) < logits.size();
  const bool has_top_p = params_.top_p < 1;
  const bool has_min_p = params_.min_p > 0;

  std::size_t kept = has_top_k ? static_cast<std::size_t>(params_.top_k) : logits.size();
  Ranking ranking = has_top_k ? Ranking(logits, storage, kept) : Ranking(logits, storage);
  double mass = 0;  // of all that top_k leaves
  if (has_top_k) {
    for (std::size_t i = 0; i < kept && ranking.at(i); ++i) mass += softmax.weight(ranking.at(i)->logit);
  } else if (has_top_p || !has_min_p) {
    mass = softmax.total(logits);
  }

  if (has_top_p || has_min_p) {
    const double enough = has_top_p ? params_.top_p * mass : std::numeric_limits<double>::infinity();
    const std::size_t most = kept;
    mass = 0;
    for (kept = 0; kept < most && ranking.at(kept) && (kept == 0 || mass < enough); ++kept) {
      const double weight = softmax.weight(ranking.at(kept)->logit);
      if (weight == 0 || weight < params_.min_p) break;
      mass += weight;
    }
  }

  const double target = uniform(params_.seed, choice_, state_.step) * mass;
  TokenId token = ranking.at(0)->token;
  double sum = 0;
  for (std::size_t i = 0; i < kept && ranking.at(i); ++i) {
    const double weight = softmax.weight(ranking.at(i)->logit);
    if (weight == 0) break;
    token = ranking.at(i)->token;
    sum += weight;
    if (sum > target) break;
  }
  return token;  // rounding may leave the sum a hair short of the target: the last token then
}

void add_logprobs(Sampled& sampled, std::span<const float> logits, int count, SamplerScratch& scratch) {
  const float best = best_logit(logits);
  const double log_total = std::log(Softmax(best, 1).total(logits));
  const auto logprob = [&](float logit) {
    if (!(logit > -kInfinity)) return -std::numeric_limits<double>::infinity();  // NaN too
    return (logit == best ? 0.0 : static_cast<double>(logit) - static_cast<double>(best)) - log_total;
  };
  sampled.logprob = logprob(logits[static_cast<std::size_t>(sampled.token)]);
  sampled.top.clear();
  const auto most = static_cast<std::size_t>(count);
  Ranking ranking(logits, scratch.ranked, most);
  for (std::size_t i = 0; i < most && ranking.at(i); ++i) {
    sampled.top.push_back({ranking.at(i)->token, logprob(ranking.at(i)->logit)});
  }
}

}  // namespace reprise::models
