#pragma once
// Filters that need the whole of what is left to choose from, each as it was published:
//
//   typical  Meister, Pimentel, Wiher, Cotterell: "Locally typical sampling", 2022. Keeps those whose surprise is nearest
//            to the expected one, until they hold the wanted share of the mass.
//   XTC      p-e-w, text-generation-webui #6335, 2024: "exclude top choices". Of the tokens at least as likely as the
//            threshold all but the least likely go, where there are two or more.
//   top-nσ   Tang et al.: "Top-nσ: not all logits are you need", 2024. Keeps logits within n standard deviations of the
//            best.
//   DRY      p-e-w, text-generation-webui #5677, 2024: "don't repeat yourself". A token that would go on with a sequence
//            that stood before is penalised by how long that is.
//
// Candidates stand in rank order, the likeliest first; weights are not normalised. The order stays.
//
// Logarithms are the library's: what depends on them may differ in the last bits between machines.
//
// Threading: pure functions.

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

/// At least one stays.
void keep_typical(Candidates& candidates, double share);
void exclude_top_choices(Candidates& candidates, double threshold);
/// The lowest logit that stays.
float sigma_cut(std::span<const float> logits, float best, double sigmas);

struct DryRules {
  double multiplier = 0;
  double base = 1.75;
  std::uint32_t allowed_length = 2;     // of a repetition that costs nothing
  std::span<const TokenId> breakers{};  // sorted: no repetition goes across one
};
/// What is to be subtracted from the logits of tokens that would go on with a repetition in `history`.
std::vector<std::pair<TokenId, float>> dry_penalties(std::span<const TokenId> history, const DryRules& rules);

}  // namespace reprise::models
