#include "models/compaction.h"

#include <algorithm>

#include "models/parts/layer_spec.h"

namespace reprise::models {

std::unique_ptr<PromptTail> PromptTail::make(std::size_t token_bytes, std::uint32_t window,
                                             gpu::ByteBudget* budget, gpu::BlockMemory& memory) {
  const std::uint64_t bytes = bytes_of(token_bytes, window);
  if (budget != nullptr && !budget->take(bytes)) return nullptr;
  std::unique_ptr<PromptTail> tail(new PromptTail(token_bytes, window, budget, memory));
  if (tail->rows_ != nullptr) return tail;
  tail.reset();
  if (budget != nullptr) budget->note_fragmented(bytes);
  return nullptr;
}

PromptTail::PromptTail(std::size_t token_bytes, std::uint32_t window, gpu::ByteBudget* budget,
                       gpu::BlockMemory& memory)
    : token_bytes_(token_bytes), window_(window), budget_(budget), memory_(memory) {
  const std::uint64_t bytes = bytes_of(token_bytes, window);
  if (budget != nullptr) budget->grow_resident(bytes);
  rows_ = memory.take(bytes);
  if (rows_ != nullptr || budget == nullptr) return;
  budget->trim();
  rows_ = memory.take(bytes);
}

PromptTail::~PromptTail() {
  const std::uint64_t bytes = bytes_of(token_bytes_, window_);
  if (rows_ != nullptr) memory_.give(rows_, bytes);
  if (budget_ == nullptr) return;
  budget_->shrink_resident(bytes);
  budget_->give(bytes);
}

std::string why_not_compacted(std::span<const LayerSpec> layers) {
  if (!parts_of<MlaSpec>(layers).empty()) {
    return "its latent attention (MLA) keeps one latent per token for all heads, so no KV entries can be "
           "left out";
  }
  const auto attention = parts_of<AttentionSpec>(layers);
  const bool chooses = std::any_of(attention.begin(), attention.end(),
                                   [](const AttentionSpec* spec) { return spec->window == 0; });
  return chooses ? "" : "it has no layer of attention that keeps all tokens";
}

}  // namespace reprise::models
