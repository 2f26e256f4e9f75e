#pragma once
// A prompt whose keys and values become fewer, between its last slice and the first decoded token (base/kv_budget.h).
//
// Layers that keep all tokens choose among them; those with a window keep it as it is, and recurrent ones have nothing to
// choose. A sequence has one stored length for all layers, so a model in which some layer can only keep all is refused whole.
//
// Threading: plain values and a pure function, but for PromptTail.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/kv_budget.h"
#include "gpu/block_memory.h"
#include "gpu/byte_budget.h"
#include "gpu/state_store.h"

namespace reprise::models {

struct LayerSpec;

/// What layers remember of the last tokens of a prompt until it is compacted: a ring of rows, one for each of the last `window`
/// tokens, in which each layer has its place (StateLayout::add_to_tail).
///
/// However a prompt is cut into slices, the row of a token is that of its position, and the last one to be written there is the
/// last of them. A prompt that begins anew, or goes on elsewhere, has of the tokens before nothing.
///
/// Rows stand in the memory that is given, the host's or a device's; on a device only its kernels look at them.
///
/// Bounds: its bytes are taken from a budget, and given back with its end.
/// Threading: the device worker's; while its sequence is in a step, the step's.
class PromptTail {
 public:
  static std::uint64_t bytes_of(std::size_t token_bytes, std::uint32_t window) {
    return std::uint64_t{token_bytes} * window;
  }

  /// Null: the budget has no room for it, or the memory no block, which the budget is told. Both must outlive it; no budget:
  /// nobody counts.
  static std::unique_ptr<PromptTail> make(std::size_t token_bytes, std::uint32_t window,
                                          gpu::ByteBudget* budget = nullptr,
                                          gpu::BlockMemory& memory = gpu::host_memory());
  ~PromptTail();
  PromptTail(const PromptTail&) = delete;
  PromptTail& operator=(const PromptTail&) = delete;

  std::uint32_t window() const { return window_; }
  std::size_t token_bytes() const { return token_bytes_; }
  /// All rows, in its memory: that of a position at position mod window.
  std::byte* rows() const { return rows_; }
  /// In the host's memory: of the token at this position, at a layer's place.
  float* row(std::size_t position, std::size_t offset) {
    return reinterpret_cast<float*>(rows_ + position % window_ * token_bytes_ + offset);
  }
  const float* row(std::size_t position, std::size_t offset) const {
    return const_cast<PromptTail*>(this)->row(position, offset);
  }

  /// All layers have written the rows of tokens [begin, end), or of the last `window` of them.
  void note(std::size_t begin, std::size_t end) {
    if (begin != end_) begin_ = begin;
    end_ = end;
  }
  /// The rows of the last `window` tokens of a prompt of so many are here.
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
  std::size_t begin_ = 0;  // tokens [begin_, end_) were seen without a gap
  std::size_t end_ = 0;
};

struct Compaction {
  const gpu::Sequence* sequence;  // that holds the prompt, all of it, and nothing behind it
  const PromptTail* tail;         // that covers it
  KvBudget budget;                // shorter than the prompt
  gpu::PageRun* into;             // with room for budget.tokens
};

/// Why prompts of a model of such layers cannot be compacted; empty: they can.
std::string why_not_compacted(std::span<const LayerSpec> layers);

}  // namespace reprise::models
