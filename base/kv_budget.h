#pragma once
// How many tokens of a prompt attention goes on with once it has been read, and which: SnapKV (arXiv 2404.14469).
//
// The prompt's last `window` queries look back at it; where they look most is kept, `tokens` places in all, in each layer and
// key/value head by itself: the first `sinks`, the last `window`, and between them those with the highest scores
// (models/cpu/kv_compaction.h). A prompt that is no longer than the budget is kept whole.
//
// The paper's own program averages over five neighbors; the largest of seven finds more. Sinks are none of its ideas, four of
// them cost nothing and are looked at by nearly every model.
//
// Threading: a plain value.

#include <cstdint>
#include <string>

namespace reprise {

struct KvBudget {
  enum class Pooling : std::uint8_t { kAverage, kMax };

  static constexpr std::uint32_t kMostWindow = 1024;
  static constexpr std::uint32_t kMostSinks = 4096;
  static constexpr std::uint32_t kMostPoolWidth = 63;

  std::uint32_t tokens = 0;  // 0: all of every prompt is kept
  std::uint32_t window = 32;
  std::uint32_t sinks = 4;
  Pooling pooling = Pooling::kMax;  // finds more than the average (docs/lab/2026-11-kv.md)
  std::uint32_t pool_width = 7;     // odd: places whose scores are put together, the one itself in the middle

  bool operator==(const KvBudget&) const = default;

  bool shortens(std::uint64_t prompt_tokens) const { return tokens != 0 && prompt_tokens > tokens; }
  /// Places that are kept whatever is looked at.
  std::uint32_t fixed() const { return window + sinks; }
};

/// What was kept of a prompt.
struct KvKept {
  std::uint32_t tokens = 0;      // places in pages, of each layer and head
  std::uint64_t bytes = 0;       // of the pages that hold them
  std::uint64_t full_bytes = 0;  // of those that held the prompt
};

/// Why it makes no sense; empty: it does.
inline std::string refusal_of(const KvBudget& budget) {
  const auto range = [](const char* what, std::uint32_t least, std::uint32_t most) {
    return std::string(what) + " must be from " + std::to_string(least) + " to " + std::to_string(most);
  };
  if (budget.window < 1 || budget.window > KvBudget::kMostWindow) {
    return range("the window", 1, KvBudget::kMostWindow);
  }
  if (budget.sinks > KvBudget::kMostSinks) return range("sinks", 0, KvBudget::kMostSinks);
  if (budget.pool_width % 2 == 0 || budget.pool_width > KvBudget::kMostPoolWidth) {
    return range("the pooling's width", 1, KvBudget::kMostPoolWidth) + " and odd";
  }
  if (budget.tokens != 0 && budget.tokens < budget.fixed()) {
    return "must be 0 (all is kept) or at least " + std::to_string(budget.fixed()) + ": the last " +
           std::to_string(budget.window) + " tokens and the first " + std::to_string(budget.sinks) +
           " are always kept";
  }
  return {};
}

}  // namespace reprise
