// Attention with online softmax over the pages of a sequence (AttentionRows in gpu/kernels.h).
//
// Mapping: the query heads of a KV head run together, so that a key is read and widened once for all of them;
// consecutive rows process a page one after the other while it is in the caches. Where registers hold sixteen
// lanes, two keys are side by side.
//
// Bits: pages run in ascending order, and a score is eight lanes of chains over the head's elements, so the
// bits depend neither on prefill slices nor on the batch.
//
// Arrays of accumulators are indexed by constants only; g++ 12 spills them at every step otherwise.

#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "gpu/cpu/lanes.h"
#include "gpu/cpu/math.h"
#include "gpu/kernels.h"
#include "gpu/state/kv_widening.h"

namespace reprise::gpu {
namespace {

struct KvF32 {
  using Element = float;
  static Lanes some(const float* p, std::size_t count) { return load_some(p, count); }
  static Lanes eight(const float* p) { return Lanes::load(p); }
  static WideLanes wide(const float* p) { return WideLanes::load(p); }
  static WideLanes joined(const float* a, const float* b) {
    return WideLanes::joined(Lanes::load(a), Lanes::load(b));
  }
};
struct KvBF16 {
  using Element = std::uint16_t;
  static Lanes some(const std::uint16_t* p, std::size_t count) {
    std::uint16_t padded[kLanes] = {};
    std::memcpy(padded, p, count * sizeof(*p));
    return Lanes::load_bf16(padded);
  }
  static Lanes eight(const std::uint16_t* p) { return Lanes::load_bf16(p); }
  static WideLanes wide(const std::uint16_t* p) { return WideLanes::load_bf16(p); }
  static WideLanes joined(const std::uint16_t* a, const std::uint16_t* b) {
    return WideLanes::joined_bf16(a, b);
  }
};

/// Quantized types: a page's rows are widened to f32 first.
struct KvInt8 : KvF32 {
  static constexpr KvType kType = KvType::kInt8;
  static void widen(const std::byte* row, std::size_t elements, float* to) { widen_row8(row, elements, to); }
};
struct KvInt4 : KvF32 {
  static constexpr KvType kType = KvType::kInt4;
  static void widen(const std::byte* row, std::size_t elements, float* to) { widen_row4(row, elements, to); }
};

/// The online softmax of one head, one page per step.
struct HeadInProgress {
  alignas(64) float total[kMaxAttentionHead] = {};
  alignas(64) float score[kPageTokens] = {};  // a page's scores, then exp(score - highest)
  float highest = -std::numeric_limits<float>::infinity();
  float rescale = 0;                     // factor that rescales the sums of the previous pages
  Lanes denominator = Lanes::set(0.0F);  // partial sums of exp(score - highest) over the pages so far
};

/// The keys and values of one page for one KV head, and how many of them the row attends to.
template <class Kv>
struct PageOfHead {
  using Element = typename Kv::Element;
  const Element* keys;
  const Element* values;
  std::size_t count;

  PageOfHead(const AttentionRows& row, std::size_t page) {
    const std::size_t skipped = page == 0 ? row.skipped : 0;
    count = std::min(kPageTokens, row.length - page * kPageTokens) - skipped;
    if constexpr (requires { Kv::widen; }) {
      thread_local std::vector<float> key_scratch, value_scratch;
      keys = widen(row, row.pages[page] + row.k_offset, skipped, key_scratch);
      values = widen(row, row.pages[page] + row.v_offset, skipped, value_scratch);
      return;
    }
    keys = reinterpret_cast<const Element*>(row.pages[page] + row.k_offset) + skipped * row.head_dim;
    values = reinterpret_cast<const Element*>(row.pages[page] + row.v_offset) + skipped * row.head_dim;
  }

 private:
  const float* widen(const AttentionRows& row, const std::byte* rows, std::size_t skipped,
                     std::vector<float>& scratch) const {
    if (scratch.size() < kPageTokens * row.head_dim) scratch.resize(kPageTokens * row.head_dim);
    const std::size_t bytes = kv_row_bytes(Kv::kType, row.head_dim);
    for (std::size_t i = 0; i < count; ++i) {
      Kv::widen(rows + (skipped + i) * bytes, row.head_dim, scratch.data() + i * row.head_dim);
    }
    return scratch.data();
  }
};

/// Computes the scores of kVectors * kLanesOfWide keys from `key` on. A missing last key repeats the previous
/// one.
template <class Kv, int kHeads, int kVectors>
inline void score_keys(const AttentionRows& row, const float* q, const PageOfHead<Kv>& page, std::size_t key,
                       HeadInProgress* heads) {
  const std::size_t size = row.head_dim;
  const typename Kv::Element* keys[kVectors * kLanesOfWide];
  for (int j = 0; j < kVectors * kLanesOfWide; ++j) {
    keys[j] = page.keys + std::min(key + static_cast<std::size_t>(j), page.count - 1) * size;
  }
  WideLanes products[kHeads][kVectors];
  const auto for_each_product = [](auto work) __attribute__((always_inline)) {
    for_each_index<kHeads>([&](auto h) __attribute__((always_inline)) {
      for_each_index<kVectors>([&](auto j) __attribute__((always_inline)) { work(h, j); });
    });
  };
  for_each_product([&](auto h, auto j)
                       __attribute__((always_inline)) { products[h][j] = WideLanes::set(0.0F); });
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    WideLanes some[kVectors];
    for_each_index<kVectors>([&](auto j) __attribute__((always_inline)) {
      some[j] = Kv::joined(keys[kLanesOfWide * j] + i, keys[kLanesOfWide * j + kLanesOfWide - 1] + i);
    });
    for_each_index<kHeads>([&](auto h) __attribute__((always_inline)) {
      const WideLanes query = WideLanes::both(q + h * size + i);
      for_each_index<kVectors>([&](auto j) __attribute__((always_inline)) {
        products[h][j] = fma(query, some[j], products[h][j]);
      });
    });
  }
  if (i < size) {
    for_each_product([&](auto h, auto j) __attribute__((always_inline)) {
      const Lanes query = load_some(q + h * size + i, size - i);
      const WideLanes some =
          WideLanes::joined(Kv::some(keys[kLanesOfWide * j] + i, size - i),
                            Kv::some(keys[kLanesOfWide * j + kLanesOfWide - 1] + i, size - i));
      products[h][j] = fma(WideLanes::joined(query, query), some, products[h][j]);
    });
  }
  const std::size_t count = std::min<std::size_t>(kVectors * kLanesOfWide, page.count - key);
  for_each_index<kHeads>([&](auto h) __attribute__((always_inline)) {
    float sums[kVectors * kLanesOfWide];
    store_sums(products[h], sums);
    for (std::size_t j = 0; j < count; ++j) heads[h].score[key + j] = sums[j] * row.scale;
  });
}

/// Online-softmax step: replaces a page's scores by exp(score - highest), and updates highest, rescale and
/// denominator.
inline void softmax_step(std::size_t page, std::size_t count, HeadInProgress& head) {
  float highest = head.highest;
  std::size_t j = 0;
  if (count >= kLanes) {
    Lanes high = Lanes::set(highest);
    for (; j + kLanes <= count; j += kLanes) high = max(Lanes::load(head.score + j), high);
    highest = largest(high);
  }
  for (; j < count; ++j) highest = std::max(highest, head.score[j]);
  head.rescale = page == 0 ? 0.0F : exp_of(head.highest - highest);
  head.highest = highest;
  head.denominator = head.denominator * Lanes::set(head.rescale);
  j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    const Lanes probability = exp(Lanes::load(head.score + j) - Lanes::set(highest));
    probability.store(head.score + j);
    head.denominator = head.denominator + probability;
  }
  if (j < count) {
    const std::size_t some = count - j;
    store_some(exp(load_some(head.score + j, some) - Lanes::set(highest)), head.score + j, some);
    head.denominator = head.denominator + load_some(head.score + j, some);
  }
}

/// total = rescale * total + sum over the page of score[j] value[j], for kVectors vectors of elements from
/// element i. load(p) returns a vector of elements.
template <class Vector, std::size_t kWidth, int kHeads, int kVectors, class Element, class Load>
inline void add_values(const Element* values, std::size_t size, std::size_t count, std::size_t i, Load load,
                       HeadInProgress* heads) {
  Vector sums[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int n = 0; n < kVectors; ++n) {
      sums[h][n] = Vector::load(heads[h].total + i + n * kWidth) * Vector::set(heads[h].rescale);
    }
  }
  for (std::size_t j = 0; j < count; ++j) {
    Vector some[kVectors];
    for (int n = 0; n < kVectors; ++n) some[n] = load(values + j * size + i + n * kWidth);
    for (int h = 0; h < kHeads; ++h) {
      const Vector probability = Vector::set(heads[h].score[j]);
      for (int n = 0; n < kVectors; ++n) sums[h][n] = fma(probability, some[n], sums[h][n]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int n = 0; n < kVectors; ++n) sums[h][n].store(heads[h].total + i + n * kWidth);
  }
}

inline std::size_t value_dim_of(const AttentionRows& row) {
  return row.value_dim != 0 ? row.value_dim : row.head_dim;
}

#if defined(__AVX512F__)
inline constexpr int kKeyVectors = 4;  // accumulators of this many vectors for four heads fit the registers
inline constexpr int kValueVectors = 4;
#else
inline constexpr int kKeyVectors = 2;
inline constexpr int kValueVectors = 2;
#endif

/// Computes a page's scores and the online-softmax step for one row.
template <class Kv, int kHeads>
inline void score_page(const AttentionRows& row, const float* q, std::size_t index,
                       const PageOfHead<Kv>& page, HeadInProgress* heads) {
  std::size_t key = 0;
  for (; key + kKeyVectors * kLanesOfWide <= page.count; key += kKeyVectors * kLanesOfWide) {
    score_keys<Kv, kHeads, kKeyVectors>(row, q, page, key, heads);
  }
  for (; key < page.count; key += kLanesOfWide) score_keys<Kv, kHeads, 1>(row, q, page, key, heads);
  for (int h = 0; h < kHeads; ++h) softmax_step(index, page.count, heads[h]);
}

/// Accumulates a page's values for one row, weighted by the scores of score_page().
template <class Kv, int kHeads>
inline void add_page(const AttentionRows& row, const PageOfHead<Kv>& page, HeadInProgress* heads) {
  using Element = typename Kv::Element;
  const std::size_t value_dim = value_dim_of(row);
  std::size_t i = 0;
  for (; i + kValueVectors * kWideLanes <= value_dim; i += kValueVectors * kWideLanes) {
    add_values<WideLanes, kWideLanes, kHeads, kValueVectors>(
        page.values, row.head_dim, page.count, i, [](const Element* p) { return Kv::wide(p); }, heads);
  }
  for (; i + kLanes <= value_dim; i += kLanes) {
    add_values<Lanes, kLanes, kHeads, 1>(
        page.values, row.head_dim, page.count, i, [](const Element* p) { return Kv::eight(p); }, heads);
  }
  if (i < value_dim) {
    const std::size_t some = value_dim - i;
    add_values<Lanes, kLanes, kHeads, 1>(
        page.values, row.head_dim, page.count, i, [&](const Element* p) { return Kv::some(p, some); }, heads);
  }
}

/// Computes heads [first, first + kHeads) of the group for at most kAttentionRows rows.
template <class Kv, int kHeads>
void attend_heads(const AttentionRows& all, std::size_t first) {
  const std::size_t value_dim = value_dim_of(all);
  HeadInProgress heads[kAttentionRows][kHeads];
  AttentionRows rows[kAttentionRows];
  for (std::size_t i = 0; i < all.rows; ++i) {
    rows[i] = all;
    rows[i].q += i * all.q_stride + first * all.head_dim;
    rows[i].out += i * all.out_stride + first * value_dim;
    rows[i].length += i;
  }
  for (std::size_t page = 0; page * kPageTokens < rows[all.rows - 1].length; ++page) {
    const auto for_each_row = [&](auto work) {  // rows that attend to this page
      for (std::size_t i = 0; i < all.rows; ++i) {
        if (page * kPageTokens < rows[i].length) work(rows[i], heads[i]);
      }
    };
    const PageOfHead<Kv> all_of_it(rows[all.rows - 1], page);
    const auto seen_by = [&](const AttentionRows& row) {
      PageOfHead<Kv> seen = all_of_it;
      seen.count = std::min(seen.count, row.length - page * kPageTokens - (page == 0 ? row.skipped : 0));
      return seen;
    };
    for_each_row([&](const AttentionRows& row, HeadInProgress* own) {
      score_page<Kv, kHeads>(row, row.q, page, seen_by(row), own);
    });
    for_each_row(
        [&](const AttentionRows& row, HeadInProgress* own) { add_page<Kv, kHeads>(row, seen_by(row), own); });
  }
  for (std::size_t i = 0; i < all.rows; ++i) {
    for (int h = 0; h < kHeads; ++h) {
      const float scale = 1.0F / sum(heads[i][h].denominator);
      float* out = rows[i].out + static_cast<std::size_t>(h) * value_dim;
      for (std::size_t k = 0; k < value_dim; ++k) out[k] = heads[i][h].total[k] * scale;
    }
  }
}

template <class Kv>
void attend_group(const AttentionRows& all) {
  for (std::size_t i = 0; i < all.rows; i += kAttentionRows) {
    AttentionRows some = all;
    some.q += i * all.q_stride;
    some.out += i * all.out_stride;
    some.length += i;
    some.rows = std::min(kAttentionRows, all.rows - i);
    std::size_t head = 0;
    for (; head + 4 <= some.group; head += 4) attend_heads<Kv, 4>(some, head);
    for (; head + 2 <= some.group; head += 2) attend_heads<Kv, 2>(some, head);
    if (head < some.group) attend_heads<Kv, 1>(some, head);
  }
}

void attention(const AttentionRows& row) {
  switch (row.kv) {
    case KvType::kF32:
      return attend_group<KvF32>(row);
    case KvType::kBF16:
      return attend_group<KvBF16>(row);
    case KvType::kInt8:
      return attend_group<KvInt8>(row);
    case KvType::kInt4:
      return attend_group<KvInt4>(row);
  }
}

}  // namespace
}  // namespace reprise::gpu
