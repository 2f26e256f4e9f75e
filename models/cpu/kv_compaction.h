#pragma once
// Selects and copies the KV entries that one attention layer keeps when a prompt is compacted
// (base/kv_budget.h), on the CPU.
//
//   1. add_probabilities()  adds the softmax of each of the last `window` queries, over the entries visible
//                           to it (causal), to the sums of its query head
//   2. add_pooled()         pools each query head's sums, of the entries before the window, over neighbors
//                           and adds them to the scores of its KV head; pooling comes first, since maxima
//                           and sums do not commute
//   3. kept_entries()       selects the first `sinks` entries, the highest scores after them, and the window
//
// Sums are f32 and run in a fixed order, so the selection depends only on the prompt's keys and last queries,
// not on slices, threads or other sequences. Rows are copied as stored, in ascending order: nothing is
// rounded again, and keys keep the RoPE of their original positions.
//
// Bounds: besides the result, one float per query head and token, and kQueriesAtOnce floats per thread and
// token.
// Threading: runs on the caller and the given thread pool.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/kv_budget.h"
#include "gpu/compute.h"
#include "gpu/threads.h"
#include "models/compaction.h"

namespace reprise::models::cpu {

/// logits[i] is the score of KV entry i, for all entries visible to one query. Replaces them by their
/// softmax, and adds the first sums.size() of them to `sums`.
void add_probabilities(std::span<float> logits, std::span<float> sums);

/// Adds pool(sums[i - width / 2] ... sums[i + width / 2]) to scores[i]. Beyond the ends an average counts
/// zeros and still divides by the width; a maximum ignores them.
void add_pooled(std::span<const float> sums, const KvBudget& budget, std::span<float> scores);

/// Returns the budget.tokens entries to keep of `prompt_tokens`, ascending. scores[prompt_tokens - window].
/// Ties keep the lower index; NaN ranks lowest. Requires: budget.shortens(prompt_tokens), and a valid budget.
std::vector<std::uint32_t> kept_entries(std::span<const float> scores, std::uint32_t prompt_tokens,
                                        const KvBudget& budget);

inline constexpr std::size_t kQueriesAtOnce = 32;  // queries scored together by a thread

struct KvLayer {
  std::size_t heads;     // query heads
  std::size_t kv_heads;  // divides heads
  std::size_t head_dim;
  float scale;
  gpu::KvType kv;
  std::size_t k;        // offset in a page of K, all heads, kPageTokens rows each
  std::size_t v;        // offset in a page of V, in the same layout
  std::size_t queries;  // offset of q in a row of the prompt's tail
};

struct PromptPages {
  std::span<const std::byte* const> from;  // pages of the whole prompt
  std::uint32_t tokens;                    // in the prompt
  std::span<std::byte* const> into;        // pages with space for budget.tokens
};

/// Returns the entries that each KV head keeps, ascending. Requires: `tail` covers the prompt.
std::vector<std::vector<std::uint32_t>> choose_entries(gpu::Threads& threads, const KvLayer& layer,
                                                       const PromptPages& pages, const PromptTail& tail,
                                                       const KvBudget& budget);

/// Copies K and V of the kept entries to consecutive entries of `pages.into`, from 0 on.
void gather_entries(gpu::Threads& threads, const KvLayer& layer, const PromptPages& pages,
                    std::span<const std::vector<std::uint32_t>> kept);

}  // namespace reprise::models::cpu
