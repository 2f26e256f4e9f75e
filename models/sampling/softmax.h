#pragma once
// Unnormalized probabilities: the weight of a logit is exp((logit - best) / temperature), so the best has
// weight 1.
//
// Results are bitwise identical on every machine and compiler: only IEEE 754 additions, multiplications and
// comparisons in a fixed order, never fused (-ffp-contract=off), and no library exponential. A weight is a
// float with a relative error of about 2e-7 (1 + |x|), where x is the exponent; sums are double.
//
// NaN, -infinity and logits more than 87 temperatures below the best have weight 0. If the best is +infinity,
// every +infinity has weight 1 and all others 0.

#include <span>

namespace reprise::models {

/// Returns the highest logit, ignoring NaN; -infinity if there is none.
float best_logit(std::span<const float> logits);

class Softmax {
 public:
  /// `best`: the highest logit. Requires: temperature > 0.
  Softmax(float best, double temperature);

  double weight(float logit) const;

  /// The sum of all weights.
  double total(std::span<const float> logits) const;

 private:
  float best_;
  float scale_;  // 1 / temperature
};

}  // namespace reprise::models
