// Compiled with -ffp-contract=off: see models/CMakeLists.txt.
#include "models/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "models/sampling/candidates.h"
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

bool has_dry(const SamplingParams& params) {
  return params.dry_multiplier > 0 && params.dry_penalty_last_n != 0;
}

bool tells_of_draw(const SamplingParams& params) {
  return params.logprobs && params.logprobs_of_draw;
}

bool needs_all_candidates(const SamplingParams& params) {
  if (tells_of_draw(params)) return true;
  return params.top_n_sigma > 0 || params.typical_p < 1 || params.xtc_probability > 0;
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
                "the vocabulary is empty or larger than token ids reach");
  REPRISE_CHECK(params_.validate(vocab).empty(),
                "the sampling parameters are invalid; validate() them first");
}

void Sampler::accept(TokenId token, TokenOrigin origin) {
  REPRISE_CHECK(token >= 0 && static_cast<std::size_t>(token) < vocab_, "a token is outside the vocabulary");
  const bool output = origin == TokenOrigin::kOutput;
  ++state_.accepted;
  if (output) ++state_.step;
  if (has_dry(params_)) state_.history.push_back(token);
  if (!has_repetition(params_) && !(output && has_output_penalty(params_))) return;
  SamplerState::Seen& seen = state_.seen[token];
  seen.last = state_.accepted;
  if (output) ++seen.outputs;
}

std::span<const float> Sampler::adjusted(std::span<const float> logits, std::vector<float>& copy) const {
  const bool has_history = has_dry(params_) && !state_.history.empty();
  if (params_.logit_bias.empty() && state_.seen.empty() && !has_history && !ends_are_banned()) return logits;
  copy.assign(logits.begin(), logits.end());
  for (const LogitBias& entry : params_.logit_bias) copy[static_cast<std::size_t>(entry.token)] += entry.bias;

  for (const auto& [token, seen] : state_.seen) {
    float& logit = copy[static_cast<std::size_t>(token)];
    const Penalty penalty = penalty_of(seen);
    if (penalty.repeats) logit = logit > 0 ? logit / penalty.repetition : logit * penalty.repetition;
    logit -= penalty.subtracted;
  }
  if (has_history) {
    std::span<const TokenId> window = state_.history;
    const auto most = static_cast<std::size_t>(params_.dry_penalty_last_n);
    if (params_.dry_penalty_last_n > 0 && window.size() > most) window = window.last(most);
    const DryRules rules{.multiplier = params_.dry_multiplier,
                         .base = params_.dry_base,
                         .allowed_length = static_cast<std::uint32_t>(params_.dry_allowed_length),
                         .breakers = params_.dry_breakers};
    for (const auto& [token, penalty] : dry_penalties(window, rules))
      copy[static_cast<std::size_t>(token)] -= penalty;
  }
  if (ends_are_banned()) {
    for (const TokenId token : params_.ends) copy[static_cast<std::size_t>(token)] = -kInfinity;
  }
  return copy;
}

// Returns the penalties of a token, given its occurrences so far.
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

std::optional<SamplePlan> Sampler::plan(std::size_t max_adjustments) const {
  const std::size_t banned = ends_are_banned() ? params_.ends.size() : 0;
  if (params_.logprobs || needs_all_candidates(params_) || has_dry(params_) ||
      state_.seen.size() + params_.logit_bias.size() + banned > max_adjustments)
    return std::nullopt;
  SamplePlan plan{.temperature = params_.temperature,
                  .top_k = std::max<std::int64_t>(params_.top_k, 0),
                  .top_p = params_.top_p,
                  .min_p = params_.min_p,
                  .noise = uniform(params_.seed, choice_, state_.step)};
  std::unordered_map<TokenId, SamplePlan::Adjustment>
      changes;  // a token may have several biases and a penalty
  for (const LogitBias& entry : params_.logit_bias) changes[entry.token].bias += entry.bias;
  for (const auto& [token, seen] : state_.seen) {
    const Penalty penalty = penalty_of(seen);
    SamplePlan::Adjustment& change = changes[token];
    if (penalty.repeats) change.penalty = penalty.repetition;
    change.subtracted = penalty.subtracted;
  }
  if (banned > 0) {
    for (const TokenId token : params_.ends) changes[token].bias = -kInfinity;
  }
  for (auto& [token, change] : changes) {
    change.token = token;
    plan.adjustments.push_back(change);
  }
  return plan;
}

SampleResult Sampler::sample(std::span<const float> logits, SamplerScratch& scratch,
                             const TokenMask* mask) const {
  REPRISE_CHECK(logits.size() == vocab_, "the number of logits is not the size of the vocabulary");
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
    if (tells_of_draw(params_)) {  // the greedy draw has one candidate
      sampled.logprob = 0;
      if (*params_.logprobs > 0) sampled.top.push_back({sampled.token, 0});
    }
  } else if (needs_all_candidates(params_)) {
    draw_of_all(wanted, best, scratch.ranked, sampled);
  } else {
    sampled.token = draw(wanted, best, scratch.ranked);
  }
  if (params_.logprobs && !params_.logprobs_of_draw)
    add_logprobs(sampled, logits, *params_.logprobs, scratch);
  return sampled;
}

// Every filter keeps a prefix of the rank order, so together they keep a prefix: `kept` tokens with total
// weight `mass`. The order is computed only as far as needed.
TokenId Sampler::draw(std::span<const float> logits, float best, std::vector<RankedToken>& storage) const {
  const Softmax softmax(best, params_.temperature);
  const bool has_top_k = params_.top_k > 0 && static_cast<std::uint64_t>(params_.top_k) < logits.size();
  const bool has_top_p = params_.top_p < 1;
  const bool has_min_p = params_.min_p > 0;

  std::size_t kept = has_top_k ? static_cast<std::size_t>(params_.top_k) : logits.size();
  Ranking ranking = has_top_k ? Ranking(logits, storage, kept) : Ranking(logits, storage);
  double mass = 0;  // total weight of the tokens that top_k keeps
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
  return token;  // the last one, if rounding left the sum below the target
}

void Sampler::draw_of_all(std::span<const float> logits, float best, std::vector<RankedToken>& storage,
                          Sampled& sampled) const {
  const Softmax softmax(best, params_.temperature);
  const float lowest = params_.top_n_sigma > 0 ? sigma_cut(logits, best, params_.top_n_sigma) : -kInfinity;
  const std::size_t most = params_.top_k > 0 ? static_cast<std::size_t>(params_.top_k) : logits.size();
  Ranking ranking(logits, storage);
  Candidates candidates;
  for (std::size_t i = 0; i < most && ranking.at(i); ++i) {
    const RankedToken one = *ranking.at(i);
    const double weight = softmax.weight(one.logit);
    if (weight == 0 || one.logit < lowest) break;
    candidates.push_back({one.token, weight});
  }
  const double enough = params_.top_p * mass_of(candidates);
  std::size_t kept = 0;
  for (double held = 0; kept < candidates.size() && (kept == 0 || params_.top_p >= 1 || held < enough);
       ++kept) {
    if (candidates[kept].weight < params_.min_p) break;
    held += candidates[kept].weight;
  }
  candidates.resize(std::max<std::size_t>(kept, 1));
  if (params_.typical_p < 1) keep_typical(candidates, params_.typical_p);
  if (params_.xtc_probability > 0 &&
      second_uniform(params_.seed, choice_, state_.step) < params_.xtc_probability) {
    exclude_top_choices(candidates, params_.xtc_threshold);
  }
  const double mass = mass_of(candidates);
  const double target = uniform(params_.seed, choice_, state_.step) * mass;
  const Candidate* chosen = &candidates.front();
  double sum = 0;
  for (const Candidate& one : candidates) {
    chosen = &one;
    sum += one.weight;
    if (sum > target) break;
  }
  sampled.token = chosen->token;
  if (!tells_of_draw(params_)) return;
  sampled.logprob = std::log(chosen->weight / mass);
  for (const Candidate& one : candidates) {
    if (sampled.top.size() == static_cast<std::size_t>(*params_.logprobs)) break;
    sampled.top.push_back({one.token, std::log(one.weight / mass)});
  }
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
