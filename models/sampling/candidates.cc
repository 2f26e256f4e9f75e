#include "models/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace reprise::models {

double mass_of(const Candidates& candidates) {
  double mass = 0;
  for (const Candidate& one : candidates) mass += one.weight;
  return mass;
}

void keep_typical(Candidates& candidates, double share) {
  const double mass = mass_of(candidates);
  double entropy = 0;
  for (const Candidate& one : candidates) {
    const double p = one.weight / mass;
    if (p > 0) entropy -= p * std::log(p);
  }
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> distance(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    distance[i] = std::abs(-std::log(candidates[i].weight / mass) - entropy);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return distance[a] < distance[b]; });
  std::size_t kept = 0;
  for (double held = 0; kept < order.size() && (kept == 0 || held < share * mass); ++kept) {
    held += candidates[order[kept]].weight;
  }
  order.resize(kept);
  std::sort(order.begin(), order.end());
  Candidates typical;
  typical.reserve(kept);
  for (const std::size_t i : order) typical.push_back(candidates[i]);
  candidates = std::move(typical);
}

void exclude_top_choices(Candidates& candidates, double threshold) {
  const double least = threshold * mass_of(candidates);
  std::size_t likely = 0;
  while (likely < candidates.size() && candidates[likely].weight >= least) ++likely;
  if (likely < 2) return;
  candidates.erase(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(likely) - 1);
}

float sigma_cut(std::span<const float> logits, float best, double sigmas) {
  double sum = 0, squares = 0;
  std::size_t count = 0;
  for (const float logit : logits) {
    if (!std::isfinite(logit)) continue;
    const double below = static_cast<double>(logit) - static_cast<double>(best);
    sum += below;
    squares += below * below;
    ++count;
  }
  if (count == 0 || !std::isfinite(best)) return best;
  const double mean = sum / static_cast<double>(count);
  const double variance = std::max(0.0, squares / static_cast<double>(count) - mean * mean);
  return static_cast<float>(static_cast<double>(best) - sigmas * std::sqrt(variance));
}

// For each earlier index of the history: the length of the longest common suffix of the history up to there
// and the whole history (the Z-function of the reversed history). The token after such an index would
// continue the repetition.
std::vector<std::pair<TokenId, float>> dry_penalties(std::span<const TokenId> history,
                                                     const DryRules& rules) {
  const auto breaks = [&](TokenId token) {
    return std::binary_search(rules.breakers.begin(), rules.breakers.end(), token);
  };
  const std::size_t n = history.size();
  std::size_t longest = 0;  // maximum length of a repetition: tokens since the last breaker
  while (longest < n && !breaks(history[n - 1 - longest])) ++longest;
  if (longest == 0 || n < 2) return {};
  const auto at = [&](std::size_t i) { return history[n - 1 - i]; };
  std::vector<std::size_t> z(n, 0);
  for (std::size_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < n && at(z[i]) == at(i + z[i])) ++z[i];
    if (i + z[i] > right) {
      left = i;
      right = i + z[i];
    }
  }
  std::unordered_map<TokenId, std::size_t> lengths;
  for (std::size_t i = 1; i < n; ++i) {
    const std::size_t length = std::min(z[i], longest);
    if (length < rules.allowed_length || length == 0) continue;
    std::size_t& known = lengths[at(i - 1)];
    known = std::max(known, length);
  }
  constexpr double kMaxPenalty = 1e6;  // bounds the power, because logits are floats
  std::vector<std::pair<TokenId, float>> penalties;
  for (const auto& [token, length] : lengths) {
    if (breaks(token)) continue;
    const double power = std::pow(rules.base, static_cast<double>(length - rules.allowed_length));
    penalties.emplace_back(token, static_cast<float>(std::min(kMaxPenalty, rules.multiplier * power)));
  }
  return penalties;
}

}  // namespace reprise::models
