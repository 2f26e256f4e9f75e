#pragma once
// Unnormalised probabilities: the weight of a logit is exp((logit - best) / temperature), so the best has 1.
//
// The results are the same on every machine and for every compiler: only additions, multiplications and
// comparisons that IEEE 754 defines to the bit, in an order that is fixed, never fused (the build sees to
// that), and no library exponential. A weight is a float, exact to about 2e-7 (1 + |x|) of itself, x being
// the exponent; sums are double.
//
// What is no number weighs nothing: NaN and -infinity have weight 0, and so has what is more than 87
// temperatures below the best. Where +infinity is the best, every +infinity weighs 1 and all else 0.
//
// Threading: pure functions.

#include <span>

namespace reprise::models {

/// The highest logit, NaN left out; -infinity if there is none.
float best_logit(std::span<const float> logits);

class Softmax {
 public:
  /// `best` is the highest logit; `temperature` is above 0.
  Softmax(float best, double temperature);

  double weight(float logit) const;

  /// The sum of all weights.
  double total(std::span<const float> logits) const;

 private:
  float best_;
  float scale_;  // 1 / temperature
};

}  // namespace reprise::models
