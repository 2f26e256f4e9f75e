#pragma once
// What layers remember of the last tokens of a prompt until it is compacted: a ring of rows, one for each of the last `window`
// tokens, in which each layer has its place (StateLayout::add_to_tail).
//
// However a prompt is cut into slices, the row of a token is that of its position, and the last one to be written there is the
// last of them. A prompt that begins anew, or goes on elsewhere, has of the tokens before nothing.
//
// Bounds: its bytes are taken from a budget, and given back with its end.
// Threading: the device worker's; while its sequence is in a step, the step's.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/byte_budget.h"

namespace reprise::models {

class PromptTail {
 public:
  static std::uint64_t bytes_of(std::size_t token_bytes, std::uint32_t window) {
    return std::uint64_t{token_bytes} * window;
  }

  /// Null: the budget has no room for it. `budget` must outlive it; none: nobody counts. Throws std::bad_alloc.
  static std::unique_ptr<PromptTail> make(std::size_t token_bytes, std::uint32_t window,
                                          gpu::ByteBudget* budget = nullptr) {
    const std::uint64_t bytes = bytes_of(token_bytes, window);
    if (budget != nullptr && !budget->take(bytes)) return nullptr;
    std::unique_ptr<PromptTail> tail(new PromptTail(token_bytes, window, budget));
    tail->rows_.resize(bytes);
    return tail;
  }
  ~PromptTail() {
    if (budget_ != nullptr) budget_->give(bytes_of(token_bytes_, window_));
  }
  PromptTail(const PromptTail&) = delete;
  PromptTail& operator=(const PromptTail&) = delete;

  std::uint32_t window() const { return window_; }
  /// Of the token at this position, at a layer's place.
  float* row(std::size_t position, std::size_t offset) {
    return reinterpret_cast<float*>(rows_.data() + position % window_ * token_bytes_ + offset);
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
  PromptTail(std::size_t token_bytes, std::uint32_t window, gpu::ByteBudget* budget)
      : token_bytes_(token_bytes), window_(window), budget_(budget) {}

  const std::size_t token_bytes_;
  const std::uint32_t window_;
  gpu::ByteBudget* const budget_;
  std::vector<std::byte> rows_;
  std::size_t begin_ = 0;  // tokens [begin_, end_) were seen without a gap
  std::size_t end_ = 0;
};

}  // namespace reprise::models
