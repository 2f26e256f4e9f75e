#pragma once
// Reference implementation of SnapKV's selection in double precision.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/kv_budget.h"

namespace reprise::models::test {

struct NaiveHead {
  std::size_t dim = 0;
  double scale = 1;
  std::vector<float> keys{};                  // [tokens, dim]
  std::vector<std::vector<float>> queries{};  // per query head, the last [window, dim]
};

/// Scores of the positions before the window.
inline std::vector<double> naive_scores(const NaiveHead& head, const KvBudget& budget) {
  const std::size_t tokens = head.keys.size() / head.dim;
  const std::size_t prefix = tokens - budget.window;
  std::vector<double> scores(prefix, 0);
  for (const std::vector<float>& queries : head.queries) {
    std::vector<double> sums(prefix, 0);
    for (std::size_t w = 0; w < budget.window; ++w) {
      std::vector<double> weights;
      double total = 0;
      for (std::size_t k = 0; k <= prefix + w; ++k) {
        double dot = 0;
        for (std::size_t d = 0; d < head.dim; ++d) {
          dot += static_cast<double>(queries[w * head.dim + d]) * head.keys[k * head.dim + d];
        }
        weights.push_back(std::exp(dot * head.scale));
        total += weights.back();
      }
      for (std::size_t k = 0; k < prefix; ++k) sums[k] += weights[k] / total;
    }
    const auto half = static_cast<std::ptrdiff_t>(budget.pool_width / 2);
    for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(prefix); ++i) {
      double most = 0, sum = 0;
      for (std::ptrdiff_t k = i - half; k <= i + half; ++k) {
        if (k < 0 || k >= static_cast<std::ptrdiff_t>(prefix)) continue;
        most = std::max(most, sums[static_cast<std::size_t>(k)]);
        sum += sums[static_cast<std::size_t>(k)];
      }
      scores[static_cast<std::size_t>(i)] +=
          budget.pooling == KvBudget::Pooling::kMax ? most : sum / budget.pool_width;
    }
  }
  return scores;
}

inline std::vector<std::uint32_t> naive_kept(const std::vector<double>& scores, std::uint32_t tokens,
                                             const KvBudget& budget) {
  std::vector<std::uint32_t> candidates;
  for (std::uint32_t i = budget.sinks; i < tokens - budget.window; ++i) candidates.push_back(i);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return scores[a] > scores[b]; });
  candidates.resize(budget.tokens - budget.window - budget.sinks);
  for (std::uint32_t i = 0; i < budget.sinks; ++i) candidates.push_back(i);
  for (std::uint32_t i = tokens - budget.window; i < tokens; ++i) candidates.push_back(i);
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

}  // namespace reprise::models::test
