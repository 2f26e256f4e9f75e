#pragma once
// Keys and values of one attention layer of a prompt, fewer of them (base/kv_budget.h), on the CPU.
//
//   1. add_weights()   for each of the last `window` queries, the softmax of its scores over the places that it may look at
//                      (causal: itself the last) is added up, for each query head by itself
//   2. add_pooled()    a query head's sums over the places in front of the window, pooled over neighbours, are added to the
//                      scores of its key/value head: pooling first, for maxima and sums do not change places
//   3. kept_places()   the first `sinks`, the highest scores behind them, the window
//
// Sums run in the order in which they are written, in f32: what is chosen, and its bits, depend on the prompt's keys and last
// queries alone, not on slices, threads or who else computes. Rows are copied as they are stored, in the order of their
// places; nothing is rounded again, and keys keep the rope of their own positions.
//
// Bounds: besides the result, one float for each query head and token, and kQueriesAtOnce for each thread and token.
// Threading: the caller's, and the team that is given.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/kv_budget.h"
#include "gpu/compute.h"
#include "gpu/threads.h"
#include "models/compaction.h"

namespace reprise::models::cpu {

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

inline constexpr std::size_t kQueriesAtOnce = 32;

struct KvLayer {
  std::size_t heads;     // of queries
  std::size_t kv_heads;  // divides heads
  std::size_t head_dim;
  float scale;
  gpu::KvType kv;
  std::size_t k;        // in a page: K of all heads, kPageTokens rows each
  std::size_t v;        // likewise
  std::size_t queries;  // in a row of the tail
};

struct PromptPages {
  std::span<const std::byte* const> from;  // of the whole prompt
  std::uint32_t tokens;                    // of the prompt
  std::span<std::byte* const> into;        // with room for budget.tokens
};

/// The places that each key/value head keeps, ascending. `tail` covers the prompt.
std::vector<std::vector<std::uint32_t>> choose_places(gpu::Threads& threads, const KvLayer& layer,
                                                      const PromptPages& pages, const PromptTail& tail,
                                                      const KvBudget& budget);

/// K and V of those places, one behind the other from place 0 on.
void gather_places(gpu::Threads& threads, const KvLayer& layer, const PromptPages& pages,
                   std::span<const std::vector<std::uint32_t>> kept);

}  // namespace reprise::models::cpu
