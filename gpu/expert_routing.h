#pragma once
// The router of a mixture of experts: chooses one row's experts and their weights.
//
//   score_e  = softmax(logits)_e over all experts, or sigmoid(logit_e)
//   rank_e   = score_e + bias_e          the bias affects the choice only
//   group_g  = sum of the group's two highest ranks; only the `chosen_groups` best groups are eligible
//   weight_e = score_e / (sum of the chosen scores + epsilon, if normalized) * scale
//
// The `chosen` eligible experts of highest rank are chosen; ties, between experts and between groups, go to
// the lower index. Sums over the chosen experts run in ascending order of index.

#include <cstddef>
#include <cstdint>

namespace reprise::gpu {

enum class RouterScores : std::uint8_t { kSoftmax, kSigmoid };

struct ExpertRouting {
  const float* logits;  // [experts]
  std::size_t experts;
  std::size_t chosen;  // 1 to the number of experts in the chosen groups
  bool normalized;     // divide the weights by their sum
  RouterScores scores = RouterScores::kSoftmax;
  const float* bias = nullptr;    // [experts]; null: none
  std::size_t groups = 1;         // equal runs of consecutive experts; if > 1, at least 2 experts each
  std::size_t chosen_groups = 1;  // 1 to groups
  float epsilon = 0;
  float scale = 1;
  float* scratch = nullptr;  // [2 * experts + groups]; required if needs_scratch()
  std::uint32_t* expert;     // output [chosen], ascending
  float* weight;             // output [chosen]

  /// True if the order of the ranks is not that of the logits.
  bool needs_scratch() const {
    return scores != RouterScores::kSoftmax || bias != nullptr || chosen_groups < groups;
  }
};

}  // namespace reprise::gpu
