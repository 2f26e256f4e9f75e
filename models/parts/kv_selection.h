#pragma once
// Which places of a prompt a key/value head keeps (base/kv_budget.h), as plain arithmetic:
//
//   1. add_weights()   for each of the last `window` queries, the softmax of its scores over the places that it may look at
//                      (causal: itself the last) is added up, for each query head by itself
//   2. add_pooled()    a query head's sums over the places in front of the window, pooled over neighbours, are added to the
//                      scores of its key/value head: pooling first, for maxima and sums do not change places
//   3. kept_places()   the first `sinks`, the highest scores behind them, the window
//
// Sums run in the order in which they are written, in f32: the same bits whatever computed the queries.
//
// Threading: pure functions.

#include <cstdint>
#include <span>
#include <vector>

#include "base/kv_budget.h"

namespace reprise::models {

/// logits[i]: score of place i, all of the places that the query may look at. They become weights, and the first
/// sums.size() of them are added to `sums`.
void add_weights(std::span<float> logits, std::span<float> sums);

/// scores[i] += pool(sums[i - width / 2] ... sums[i + width / 2]). What is beyond the ends counts as 0 in an average, whose
/// divisor is always the width, and not at all in a maximum.
void add_pooled(std::span<const float> sums, const KvBudget& budget, std::span<float> scores);

/// budget.tokens places of `prompt_tokens`, ascending. scores[prompt_tokens - window]. Of equal scores the lower place is
/// kept; one that is not a number is the lowest. Requires budget.shortens(prompt_tokens), and a budget that makes sense.
std::vector<std::uint32_t> kept_places(std::span<const float> scores, std::uint32_t prompt_tokens,
                                       const KvBudget& budget);

}  // namespace reprise::models
