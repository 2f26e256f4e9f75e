#pragma once
// Prompt compaction: dropping keys and values of a prompt between its last prefill slice and its first
// decoded token, down to a budget (base/kv_budget.h).
//
// Layers with full attention select entries to keep; window layers keep theirs, recurrent layers have none. A
// sequence has one KV length for all layers, so a model is refused if one layer cannot select.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/kv_budget.h"
#include "gpu/state/block_memory.h"
#include "gpu/state/byte_budget.h"
#include "gpu/state/state_store.h"

namespace reprise::models {

struct LayerSpec;

/// Ring buffer of per-token rows that layers record for the last `window` tokens of a prompt until it is
/// compacted. Each layer has an offset in the row (StateLayout::add_to_tail).
///
/// A token's row is at its position mod `window`, so the slicing of the prompt does not matter. After a
/// restart or a jump to another position, earlier rows no longer count.
///
/// On a device, only its kernels access the rows.
///
/// Bounds: the bytes are taken from a budget and returned by the destructor.
/// Threading: used by the device worker; while its sequence is in a step, by that step.
class PromptTail {
 public:
  static std::uint64_t bytes_of(std::size_t token_bytes, std::uint32_t window) {
    return std::uint64_t{token_bytes} * window;
  }

  /// Returns null if the budget is exhausted or `memory` has no block; the latter is reported to the budget.
  /// Both must outlive the tail. A null `budget`: memory is not accounted.
  static std::unique_ptr<PromptTail> make(std::size_t token_bytes, std::uint32_t window,
                                          gpu::ByteBudget* budget = nullptr,
                                          gpu::BlockMemory& memory = gpu::host_memory());
  ~PromptTail();
  PromptTail(const PromptTail&) = delete;
  PromptTail& operator=(const PromptTail&) = delete;

  std::uint32_t window() const { return window_; }
  std::size_t token_bytes() const { return token_bytes_; }
  /// All rows, in the memory given to make(); the row of a position is at index position mod window.
  std::byte* rows() const { return rows_; }
  /// A layer's part of the row of the token at `position`. Requires: host memory.
  float* row(std::size_t position, std::size_t offset) {
    return reinterpret_cast<float*>(rows_ + position % window_ * token_bytes_ + offset);
  }
  const float* row(std::size_t position, std::size_t offset) const {
    return const_cast<PromptTail*>(this)->row(position, offset);
  }

  /// Records that all layers have written the rows of tokens [begin, end), or of the last `window` of them.
  void note(std::size_t begin, std::size_t end) {
    if (begin != end_) begin_ = begin;
    end_ = end;
  }
  /// True if the rows of the last `window` tokens of a prompt of this length are present.
  bool covers(std::size_t prompt_tokens) const {
    return end_ == prompt_tokens && prompt_tokens >= begin_ + window_;
  }

 private:
  PromptTail(std::size_t token_bytes, std::uint32_t window, gpu::ByteBudget* budget,
             gpu::BlockMemory& memory);

  const std::size_t token_bytes_;
  const std::uint32_t window_;
  gpu::ByteBudget* const budget_;
  gpu::BlockMemory& memory_;
  std::byte* rows_ = nullptr;
  std::size_t begin_ = 0;  // tokens [begin_, end_) were recorded without a gap
  std::size_t end_ = 0;
};

struct Compaction {
  const gpu::Sequence* sequence;  // holds the whole prompt and nothing after it
  const PromptTail* tail;         // covers() the prompt
  KvBudget budget;                // smaller than the prompt
  gpu::PageRun* into;             // has capacity for budget.tokens
};

/// Returns why prompts of a model with these layers cannot be compacted; empty if they can.
std::string why_not_compacted(std::span<const LayerSpec> layers);

}  // namespace reprise::models
