#pragma once
// Keys and values of one attention layer of a prompt, fewer of them (models/layers/kv_selection.h), on the CPU.
//
// What is chosen, and its bits, depend on the prompt's keys and last queries alone: not on slices, threads or who else computes.
// Rows are copied as they are stored, in the order of their places; nothing is rounded again, and keys keep the rope of their
// own positions.
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

namespace reprise::models {

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

}  // namespace reprise::models
