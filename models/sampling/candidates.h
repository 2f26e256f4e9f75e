#pragma once
// Sampling filters that need all remaining candidates, as published:
//
//   typical  Meister, Pimentel, Wiher, Cotterell: "Locally typical sampling", 2022. Keeps the tokens whose
//            surprisal is closest to the entropy, until they hold the requested share of the mass.
//   XTC      p-e-w, text-generation-webui #6335, 2024: "exclude top choices". If two or more tokens reach the
//            threshold, removes all of these but the least likely.
//   top-nσ   Tang et al.: "Top-nσ: not all logits are you need", 2024. Keeps logits within n standard
//            deviations of the best.
//   DRY      p-e-w, text-generation-webui #5677, 2024: "don't repeat yourself". Penalizes a token that would
//            continue a repetition of an earlier sequence, by the length of that sequence.
//
// Candidates are in rank order, the most likely first, and keep it; weights are not normalized. Logarithms
// come from the C library, so results may differ in the last bits between machines.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/token.h"

namespace reprise::models {

struct Candidate {
  TokenId token = 0;
  double weight = 0;
};
using Candidates = std::vector<Candidate>;

double mass_of(const Candidates& candidates);

/// Applies the typical filter; keeps at least one candidate.
void keep_typical(Candidates& candidates, double share);
void exclude_top_choices(Candidates& candidates, double threshold);
/// Returns the lowest logit that top-nσ keeps.
float sigma_cut(std::span<const float> logits, float best, double sigmas);

struct DryRules {
  double multiplier = 0;
  double base = 1.75;
  std::uint32_t allowed_length = 2;     // tokens; shorter repetitions are not penalized
  std::span<const TokenId> breakers{};  // sorted; a repetition does not extend across a breaker
};
/// Returns the tokens that would continue a repetition in `history`, each with the penalty to subtract from
/// its logit.
std::vector<std::pair<TokenId, float>> dry_penalties(std::span<const TokenId> history, const DryRules& rules);

}  // namespace reprise::models
