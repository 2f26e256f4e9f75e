#pragma once
// Fewer keys and values of a prompt that has been read (base/kv_budget.h), chosen and gathered on the GPU: neither keys nor
// scores nor what was chosen leave it. models/cpu/kv_compaction.h is the specification.
//
//   remember_queries()   while the prompt is read: the queries of its last tokens, after norm and rope, into a ring
//   score_places()       softmax weights of those queries over the prompt, summed over them, pooled for each query head and
//                        summed over the heads that share a key
//   choose_places()      the first `sinks`, the highest scores behind them, the last `window`
//   gather_places()      K and V of those places, as bytes, into other pages
//
// Exactness: queries and keys are bf16 (keys as they are stored), products and sums f32. Every sum has an order that the
// places alone decide: a page's places, pages ascending, queries ascending. So scores and choice have the same bits however
// the prompt was cut into slices, and whoever else is computed. No atomics on floats.
//
// Bounds: CompactionSpace::bytes() of workspace, which does not grow with the window: kQueriesAtOnce queries are looked at
// at a time.
// Threading: launches into `stream`; no other state.

#include <cstddef>
#include <cstdint>

#include "base/kv_budget.h"
#include "gpu/cuda/attention.h"
#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

inline constexpr int kQueriesAtOnce = 32;

/// What is remembered of a prompt's last tokens: the row of the token at a position stands at position mod window.
struct QueryRing {
  std::byte* rows = nullptr;  // null: the prompt will not be compacted
  std::int32_t window = 0;
  std::int32_t row_bytes = 0;
};

/// Of each slice whose ring, rings[slice], is one: q of its last `window` rows, bf16 [heads, head_dim], to `offset` of the
/// rows of their positions. `pass` is what attention_prefill() was given, just before.
template <class Row>
void remember_queries(const AttentionShape& shape, const Batch& batch, const AttentionPass<Row>& pass,
                      const QueryRing* rings, std::size_t offset, StreamHandle stream);

/// A layer of attention without a window, and the whole prompt in its pages.
struct PromptOfLayer {
  AttentionShape shape;
  std::size_t queries;      // in a row of the ring
  std::byte* const* pages;  // [ceil(tokens / 64)], on the GPU
  std::byte* const* into;   // [ceil(budget.tokens / 64)], on the GPU
  int tokens;
  int scored;       // places in front of the window: tokens - budget.window
  QueryRing ring;   // covers the prompt
  KvBudget budget;  // shorter than the prompt
};

/// What stands between the steps.
struct CompactionSpace {
  /// Of a page, or of the whole prompt, as one query looks at it.
  struct Seen {
    float highest;  // score
    float weight;   // sum of the powers of what scores are below it
  };
  Seen* of_pages;       // [heads, kQueriesAtOnce, pages]
  Seen* of_prompt;      // [heads, kQueriesAtOnce]
  float* sums;          // [heads, scored]: weights, summed over queries
  float* scores;        // [kv_heads, scored]
  std::uint32_t* kept;  // [kv_heads, budget.tokens]: places, ascending

  static std::size_t bytes(const AttentionShape& shape, std::size_t tokens, const KvBudget& budget);
  /// `memory` has bytes() of it, aligned to 256.
  static CompactionSpace of(const AttentionShape& shape, std::size_t tokens, const KvBudget& budget,
                            std::byte* memory);
};

void score_places(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream);
/// Of scores that are there. One that is not a number is the lowest; of equal ones the lower place is kept.
void choose_places(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream);
void gather_places(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream);

}  // namespace reprise::gpu::cuda
