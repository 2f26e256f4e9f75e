#pragma once
// KV compression of a prefilled prompt (base/kv_budget.h): selects KV entries and gathers them on the GPU.
// models/cpu/kv_compaction.h is the specification.
//
//   remember_queries()   during prefill: saves the queries of the last tokens, after norm and RoPE, in a ring
//   score_entries()      sums the softmax probabilities of those queries over the prompt, pools them per
//                        query head, and sums over the heads that share a KV head
//   choose_entries()     selects the first `sinks` entries, the highest scores after them, the last `window`
//   gather_entries()     copies K and V of the selected entries, as bytes, into other pages
//
// Bits: queries and keys are bf16 (keys as stored), products and sums f32. The order of every sum depends
// only on the KV indices (entries of a page, pages, queries, all ascending), so scores and selection depend
// neither on prefill slices nor on the batch.
//
// Bounds: the workspace has CompactionSpace::bytes(); it does not grow with the window, because
// kQueriesAtOnce queries are processed at a time.

#include <cstddef>
#include <cstdint>

#include "base/kv_budget.h"
#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

inline constexpr int kQueriesAtOnce = 32;

/// Queries of a prompt's last tokens: the row of position p is at p mod window.
struct QueryRing {
  std::byte* rows = nullptr;  // null: the prompt will not be compacted
  std::int32_t window = 0;
  std::int32_t row_bytes = 0;
};

/// For each slice with a ring, copies q of its last `window` rows, bf16 [heads, head_dim], to byte `offset`
/// of the ring rows of their positions. Call it right after attention_prefill() with the same `pass`.
template <class Row>
void remember_queries(const AttentionShape& shape, const Batch& batch, const AttentionPass<Row>& pass,
                      const QueryRing* rings, std::size_t offset, StreamHandle stream);

/// An attention layer without a window, with the whole prompt in its pages.
struct PromptOfLayer {
  AttentionShape shape;
  std::size_t queries;      // byte offset in a ring row
  std::byte* const* pages;  // [ceil(tokens / 64)], on the GPU
  std::byte* const* into;   // [ceil(budget.tokens / 64)], on the GPU: destination
  int tokens;
  int scored;       // entries before the window: tokens - budget.window
  QueryRing ring;   // of the last budget.window tokens
  KvBudget budget;  // smaller than the prompt
};

struct CompactionSpace {
  /// Online-softmax state of one query over a page or the prompt.
  struct SoftmaxState {
    float highest;      // max score
    float denominator;  // sum of exp2(score - highest)
  };
  SoftmaxState* of_pages;   // [heads, kQueriesAtOnce, pages]
  SoftmaxState* of_prompt;  // [heads, kQueriesAtOnce]
  float* sums;              // [heads, scored]: probabilities, summed over queries
  float* scores;            // [kv_heads, scored]
  std::uint32_t* kept;      // [kv_heads, budget.tokens]: selected KV indices, ascending

  static std::size_t bytes(const AttentionShape& shape, std::size_t tokens, const KvBudget& budget);
  /// Requires: `memory` has bytes() bytes, aligned to 256.
  static CompactionSpace of(const AttentionShape& shape, std::size_t tokens, const KvBudget& budget,
                            std::byte* memory);
};

void score_entries(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream);
/// Requires: score_entries() has run. NaN ranks lowest; of equal scores the lower index wins.
void choose_entries(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream);
void gather_entries(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream);

}  // namespace reprise::gpu::cuda
