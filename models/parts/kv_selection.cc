#include "models/parts/kv_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace reprise::models {

void add_weights(std::span<float> logits, std::span<float> sums) {
  const float most = *std::max_element(logits.begin(), logits.end());
  float total = 0;
  for (float& value : logits) {
    value = std::exp(value - most);
    total += value;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += logits[i] / total;
}

void add_pooled(std::span<const float> sums, const KvBudget& budget, std::span<float> scores) {
  const std::size_t half = budget.pool_width / 2;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t begin = i - std::min(i, half);
    const std::size_t end = std::min(sums.size(), i + half + 1);
    float pooled = sums[begin];
    for (std::size_t k = begin + 1; k < end; ++k) {
      pooled = budget.pooling == KvBudget::Pooling::kMax ? std::max(pooled, sums[k]) : pooled + sums[k];
    }
    if (budget.pooling == KvBudget::Pooling::kAverage) pooled /= static_cast<float>(budget.pool_width);
    scores[i] += pooled;
  }
}

std::vector<std::uint32_t> kept_places(std::span<const float> scores, std::uint32_t prompt_tokens,
                                       const KvBudget& budget) {
  REPRISE_CHECK(budget.shortens(prompt_tokens) && budget.tokens >= budget.fixed() &&
                    scores.size() + budget.window == prompt_tokens,
                "KV entries were selected with a budget or scores that do not fit the prompt");
  const auto worth = [&](std::uint32_t place) {
    return std::isnan(scores[place]) ? -std::numeric_limits<float>::infinity() : scores[place];
  };
  std::vector<std::uint32_t> places(prompt_tokens - budget.window);
  std::iota(places.begin(), places.end(), 0U);
  const auto first = places.begin() + budget.sinks;
  const auto last = first + (budget.tokens - budget.fixed());
  std::partial_sort(first, last, places.end(), [&](std::uint32_t a, std::uint32_t b) {
    return worth(a) != worth(b) ? worth(a) > worth(b) : a < b;
  });
  std::sort(first, last);
  places.erase(last, places.end());
  for (std::uint32_t place = prompt_tokens - budget.window; place < prompt_tokens; ++place) {
    places.push_back(place);
  }
  return places;
}

}  // namespace reprise::models
