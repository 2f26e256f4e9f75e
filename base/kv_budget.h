#pragma once
// Settings of prompt KV compression by SnapKV (arXiv 2404.14469).
//
// After prefill, each layer and KV head keeps `tokens` KV entries of the prompt: the first `sinks`, the last
// `window`, and between them those with the highest attention scores from the last `window` queries
// (models/cpu/kv_compaction.h). A prompt no longer than the budget is kept whole.
//
// Differences from the paper: max pooling over seven neighbors instead of the average over five, which finds
// more, and attention sinks, which nearly every model attends to.

#include <cstdint>
#include <string>

namespace reprise {

struct KvBudget {
  enum class Pooling : std::uint8_t { kAverage, kMax };

  static constexpr std::uint32_t kMaxWindow = 1024;
  static constexpr std::uint32_t kMaxSinks = 4096;
  static constexpr std::uint32_t kMaxPoolWidth = 63;

  std::uint32_t tokens = 0;  // KV entries kept per layer and head; 0: no compression
  std::uint32_t window = 32;
  std::uint32_t sinks = 4;
  Pooling pooling = Pooling::kMax;  // finds more than the average (docs/lab/2026-11-kv.md)
  std::uint32_t pool_width = 7;     // odd; neighbors pooled into one score, centered

  bool operator==(const KvBudget&) const = default;

  bool shortens(std::uint64_t prompt_tokens) const { return tokens != 0 && prompt_tokens > tokens; }
  /// KV entries that are kept regardless of their scores.
  std::uint32_t fixed() const { return window + sinks; }
};

/// Result of compressing one prompt.
struct KvKept {
  std::uint32_t tokens = 0;      // KV entries kept, per layer and head
  std::uint64_t bytes = 0;       // size of the pages that hold them
  std::uint64_t full_bytes = 0;  // size of the pages that held the whole prompt
};

/// Returns why the settings are invalid; empty if they are valid.
inline std::string refusal_of(const KvBudget& budget) {
  const auto range = [](const char* what, std::uint32_t min, std::uint32_t max) {
    return std::string(what) + " must be from " + std::to_string(min) + " to " + std::to_string(max);
  };
  if (budget.window < 1 || budget.window > KvBudget::kMaxWindow) {
    return range("the window", 1, KvBudget::kMaxWindow);
  }
  if (budget.sinks > KvBudget::kMaxSinks) return range("sinks", 0, KvBudget::kMaxSinks);
  if (budget.pool_width % 2 == 0 || budget.pool_width > KvBudget::kMaxPoolWidth) {
    return range("the pooling's width", 1, KvBudget::kMaxPoolWidth) + " and odd";
  }
  if (budget.tokens != 0 && budget.tokens < budget.fixed()) {
    return "must be 0 (all is kept) or at least " + std::to_string(budget.fixed()) + ": the last " +
           std::to_string(budget.window) + " tokens and the first " + std::to_string(budget.sinks) +
           " are always kept";
  }
  return {};
}

}  // namespace reprise
