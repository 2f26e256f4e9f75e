#pragma once
// The router of a mixture of experts, for one row: which experts it goes through and how much each of them counts.
//
//   score_e = softmax(logits)_e over all experts, or sigmoid(logit_e)
//   rank_e  = score_e + bias_e                          the bias counts in the choice alone
//   group   = its score is the sum of its two best ranks; only experts of the `chosen_groups` best groups are chosen
//   weight  = score_e / (sum of the chosen scores + epsilon, if normalised) * scale
//
// The `chosen` best ranks count, of equal ones those of lower index; of equal groups likewise. Sums over the chosen
// run in ascending order of the experts.
//
// Threading: plain values.

#include <cstddef>
#include <cstdint>

namespace reprise::gpu {

enum class RouterScores : std::uint8_t { kSoftmax, kSigmoid };

struct ExpertRouting {
  const float* logits;  // [experts]
  std::size_t experts;
  std::size_t chosen;  // 1 to the experts of the chosen groups
  bool normalised;     // the weights are divided by their sum
  RouterScores scores = RouterScores::kSoftmax;
  const float* bias = nullptr;  // [experts]; null: none
  std::size_t groups = 1;       // of consecutive experts, all of one size: at least 2 where there are several
  std::size_t chosen_groups = 1;  // 1 to groups
  float epsilon = 0;
  float scale = 1;
  float* scratch = nullptr;  // [2 * experts + groups]; needed where needs_scratch()
  std::uint32_t* expert;     // [chosen]: ascending
  float* weight;             // [chosen]

  /// The order of the logits is not yet that of the ranks.
  bool needs_scratch() const {
    return scores != RouterScores::kSoftmax || bias != nullptr || chosen_groups < groups;
  }
};

}  // namespace reprise::gpu
