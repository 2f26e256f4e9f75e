#include "models/cpu/kv_compaction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "gpu/kernels.h"
#include "gpu/state/kv_rows.h"

namespace reprise::models::cpu {

void add_probabilities(std::span<float> logits, std::span<float> sums) {
  const float most = *std::max_element(logits.begin(), logits.end());
  float total = 0;
  for (float& value : logits) {
    value = std::exp(value - most);
    total += value;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += logits[i] / total;
}

void add_pooled(std::span<const float> sums, const KvBudget& budget, std::span<float> scores) {
  const std::size_t half = budget.pool_width / 2;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t begin = i - std::min(i, half);
    const std::size_t end = std::min(sums.size(), i + half + 1);
    float pooled = sums[begin];
    for (std::size_t k = begin + 1; k < end; ++k) {
      pooled = budget.pooling == KvBudget::Pooling::kMax ? std::max(pooled, sums[k]) : pooled + sums[k];
    }
    if (budget.pooling == KvBudget::Pooling::kAverage) pooled /= static_cast<float>(budget.pool_width);
    scores[i] += pooled;
  }
}

std::vector<std::uint32_t> kept_entries(std::span<const float> scores, std::uint32_t prompt_tokens,
                                        const KvBudget& budget) {
  REPRISE_CHECK(budget.shortens(prompt_tokens) && budget.tokens >= budget.fixed() &&
                    scores.size() + budget.window == prompt_tokens,
                "KV entries were selected with a budget or scores that do not fit the prompt");
  const auto worth = [&](std::uint32_t entry) {
    return std::isnan(scores[entry]) ? -std::numeric_limits<float>::infinity() : scores[entry];
  };
  std::vector<std::uint32_t> entries(prompt_tokens - budget.window);
  std::iota(entries.begin(), entries.end(), 0U);
  const auto first = entries.begin() + budget.sinks;
  const auto last = first + (budget.tokens - budget.fixed());
  std::partial_sort(first, last, entries.end(), [&](std::uint32_t a, std::uint32_t b) {
    return worth(a) != worth(b) ? worth(a) > worth(b) : a < b;
  });
  std::sort(first, last);
  entries.erase(last, entries.end());
  for (std::uint32_t entry = prompt_tokens - budget.window; entry < prompt_tokens; ++entry) {
    entries.push_back(entry);
  }
  return entries;
}

namespace {

constexpr std::size_t kRowsOfPage = gpu::kPageTokens;

float product_of(const float* a, const float* b, std::size_t size) {
  float sums[gpu::kLanes] = {};
  std::size_t i = 0;
  for (; i + gpu::kLanes <= size; i += gpu::kLanes) {
    for (std::size_t lane = 0; lane < gpu::kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < size; ++i) sums[i % gpu::kLanes] += a[i] * b[i];
  for (std::size_t half = gpu::kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

void widen_stored_row(gpu::KvType kv, const std::byte* from, std::size_t size, float* to) {
  if (kv == gpu::KvType::kF32) {
    std::memcpy(to, from, size * sizeof(float));
  } else if (kv == gpu::KvType::kBF16) {
    for (std::size_t i = 0; i < size; ++i) {
      std::uint16_t bits;
      std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
      to[i] = std::bit_cast<float>(std::uint32_t{bits} << 16);
    }
  } else {
    gpu::load_quantized_row(kv, from, size, to);
  }
}

/// Sums the softmax probabilities of the last `window` queries of one query head: sums[tokens - window], one
/// per entry before the window.
void sum_probabilities(const KvLayer& layer, const PromptPages& pages, const PromptTail& tail,
                       std::size_t head, std::span<float> sums) {
  const std::size_t size = layer.head_dim;
  const std::size_t row_bytes = gpu::kv_row_bytes(layer.kv, size);
  const std::size_t head_k = layer.k + head / (layer.heads / layer.kv_heads) * kRowsOfPage * row_bytes;
  const std::size_t first = sums.size();  // position of the first query
  std::vector<float> keys(kRowsOfPage * size);
  std::vector<float> logits(std::min<std::size_t>(kQueriesAtOnce, tail.window()) * pages.tokens);
  for (std::size_t begin = first; begin < pages.tokens; begin += kQueriesAtOnce) {
    const std::size_t end = std::min<std::size_t>(begin + kQueriesAtOnce, pages.tokens);
    for (std::size_t entry = 0; entry < end; entry += kRowsOfPage) {
      const std::size_t rows = std::min(kRowsOfPage, end - entry);
      for (std::size_t i = 0; i < rows; ++i) {
        widen_stored_row(layer.kv, pages.from[entry / kRowsOfPage] + head_k + i * row_bytes, size,
                         &keys[i * size]);
      }
      for (std::size_t query = begin; query < end; ++query) {
        const float* q = tail.row(query, layer.queries) + head * size;
        float* out = &logits[(query - begin) * pages.tokens + entry];
        for (std::size_t i = 0; i < rows; ++i) out[i] = layer.scale * product_of(q, &keys[i * size], size);
      }
    }
    for (std::size_t query = begin; query < end; ++query) {
      add_probabilities({&logits[(query - begin) * pages.tokens], query + 1}, sums);
    }
  }
}

}  // namespace

std::vector<std::vector<std::uint32_t>> choose_entries(gpu::Threads& threads, const KvLayer& layer,
                                                       const PromptPages& pages, const PromptTail& tail,
                                                       const KvBudget& budget) {
  REPRISE_CHECK(tail.window() == budget.window && tail.covers(pages.tokens),
                "a prompt is compacted without the queries of its last tokens");
  const std::size_t scored = pages.tokens - budget.window;
  const std::size_t group = layer.heads / layer.kv_heads;
  std::vector<float> sums(layer.heads * scored, 0.0F);
  const auto sums_of = [&](std::size_t head) { return std::span(sums).subspan(head * scored, scored); };
  threads.for_parts(layer.heads,
                    [&](std::size_t head) { sum_probabilities(layer, pages, tail, head, sums_of(head)); });
  std::vector<std::vector<std::uint32_t>> kept(layer.kv_heads);
  threads.for_parts(layer.kv_heads, [&](std::size_t kv_head) {
    std::vector<float> scores(scored, 0.0F);
    for (std::size_t i = 0; i < group; ++i) add_pooled(sums_of(kv_head * group + i), budget, scores);
    kept[kv_head] = kept_entries(scores, pages.tokens, budget);
  });
  return kept;
}

void gather_entries(gpu::Threads& threads, const KvLayer& layer, const PromptPages& pages,
                    std::span<const std::vector<std::uint32_t>> kept) {
  const std::size_t row_bytes = gpu::kv_row_bytes(layer.kv, layer.head_dim);
  threads.for_parts(layer.kv_heads, [&](std::size_t head) {
    const auto at = [&](std::size_t part, std::size_t entry) {
      return part + (head * kRowsOfPage + entry % kRowsOfPage) * row_bytes;
    };
    for (std::size_t to = 0; to < kept[head].size(); ++to) {
      const std::size_t from = kept[head][to];
      for (const std::size_t part : {layer.k, layer.v}) {
        std::memcpy(pages.into[to / kRowsOfPage] + at(part, to),
                    pages.from[from / kRowsOfPage] + at(part, from), row_bytes);
      }
    }
  });
}

}  // namespace reprise::models::cpu
