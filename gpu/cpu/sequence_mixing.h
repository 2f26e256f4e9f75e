// The operations that look along a sequence: convolution, delta rule, attention. On lanes; included by the
// kernel sources, with internal linkage. All of them go token by token, so that a prompt gives the same bits
// however it is sliced, and a decoded token the same as a prefilled one.

#pragma once

#include <algorithm>
#include <limits>

#include "gpu/cpu/math.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

/// Channels c ... c + count - 1 of all tokens; count <= kLanes.
inline void convolve_channels(const CausalConv& conv, std::size_t c, std::size_t count) {
  const auto read = [&](const float* p) { return count == kLanes ? Lanes::load(p) : load_some(p, count); };
  const auto write = [&](Lanes value, float* p) {
    if (count == kLanes) {
      value.store(p);
    } else {
      store_some(value, p, count);
    }
  };
  const std::size_t past = conv.taps - 1;
  const std::size_t x_stride = conv.x_stride != 0 ? conv.x_stride : conv.channels;
  // Input t, where t < 0 lies in the state.
  const auto input = [&](std::ptrdiff_t t) {
    return t >= 0 ? read(conv.x + static_cast<std::size_t>(t) * x_stride + c)
                  : read(conv.state +
                         static_cast<std::size_t>(t + static_cast<std::ptrdiff_t>(past)) * conv.channels + c);
  };
  const Lanes bias = conv.bias != nullptr ? read(conv.bias + c) : Lanes::set(0.0F);
  for (std::size_t t = 0; t < conv.tokens; ++t) {
    Lanes total = bias;
    for (std::size_t j = 0; j < conv.taps; ++j) {
      const Lanes x = input(static_cast<std::ptrdiff_t>(t + j) - static_cast<std::ptrdiff_t>(past));
      total = fma(read(conv.weight + j * conv.channels + c), x, total);
    }
    write(conv.silu ? silu(total) : total, conv.y + t * conv.channels + c);
  }
  for (std::size_t j = 0; j < past; ++j) {  // upwards: what is read stands above what is written
    const Lanes x = input(static_cast<std::ptrdiff_t>(conv.tokens + j) - static_cast<std::ptrdiff_t>(past));
    write(x, conv.state + j * conv.channels + c);
  }
}

void causal_conv(const CausalConv& conv, std::size_t begin, std::size_t end) {
  for (std::size_t c = begin; c < end; c += kLanes) convolve_channels(conv, c, std::min(kLanes, end - c));
}

/// kVectors * kLanes columns of the state, from column `first`, over all tokens.
template <int kVectors>
inline void delta_rule_columns(const DeltaRule& rule, std::size_t first) {
  for (std::size_t t = 0; t < rule.tokens; ++t) {
    const float* q = rule.q + t * rule.stride;
    const float* k = rule.k + t * rule.stride;
    const float* v = rule.v + t * rule.stride + first;
    const Lanes decay = Lanes::set(exp_of(rule.g[t * rule.gate_stride]));
    const Lanes beta = Lanes::set(rule.beta[t * rule.gate_stride]);
    Lanes recalled[kVectors];  // k^T S before the decay
    Lanes out[kVectors];
    for (int j = 0; j < kVectors; ++j) recalled[j] = out[j] = Lanes::set(0.0F);
    for (std::size_t i = 0; i < rule.key_dim; ++i) {
      float* row = rule.state + i * rule.value_dim + first;
      const Lanes key = Lanes::set(k[i]);
      for (int j = 0; j < kVectors; ++j) {
        recalled[j] = fma(key, Lanes::load(row + j * kLanes), recalled[j]);
      }
    }
    Lanes change[kVectors];
    for (int j = 0; j < kVectors; ++j) change[j] = beta * (Lanes::load(v + j * kLanes) - recalled[j] * decay);
    for (std::size_t i = 0; i < rule.key_dim; ++i) {
      float* row = rule.state + i * rule.value_dim + first;
      const Lanes key = Lanes::set(k[i]);
      const Lanes query = Lanes::set(q[i]);
      for (int j = 0; j < kVectors; ++j) {
        const Lanes updated = fma(key, change[j], Lanes::load(row + j * kLanes) * decay);
        updated.store(row + j * kLanes);
        out[j] = fma(query, updated, out[j]);
      }
    }
    for (int j = 0; j < kVectors; ++j) out[j].store(rule.out + t * rule.out_stride + first + j * kLanes);
  }
}

void delta_rule(const DeltaRule& rule) {
  std::size_t column = 0;
  for (; column + 4 * kLanes <= rule.value_dim; column += 4 * kLanes) delta_rule_columns<4>(rule, column);
  for (; column < rule.value_dim; column += kLanes) delta_rule_columns<1>(rule, column);
}

struct KvF32 {
  using Element = float;
  static Lanes load(const float* p, std::size_t count) {
    return count >= kLanes ? Lanes::load(p) : load_some(p, count);
  }
};
struct KvBF16 {
  using Element = std::uint16_t;
  static Lanes load(const std::uint16_t* p, std::size_t count) {
    if (count >= kLanes) return Lanes::load_bf16(p);
    std::uint16_t padded[kLanes] = {};
    std::memcpy(padded, p, count * sizeof(*p));
    return Lanes::load_bf16(padded);
  }
};

inline constexpr std::size_t kHeadsAtOnce = 4;

/// Scores of kKeys keys, which stand one after another. Several at once, for each is one long chain of
/// additions.
template <class Kv, int kKeys>
inline void score_keys(const float* q, const typename Kv::Element* keys, std::size_t size, float scale,
                       float* score) {
  Lanes products[kKeys];
  for (Lanes& product : products) product = Lanes::set(0.0F);
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Lanes query = Lanes::load(q + i);
    for (int j = 0; j < kKeys; ++j)
      products[j] = fma(query, Kv::load(keys + j * size + i, kLanes), products[j]);
  }
  if (i < size) {
    const Lanes query = load_some(q + i, size - i);
    for (int j = 0; j < kKeys; ++j)
      products[j] = fma(query, Kv::load(keys + j * size + i, size - i), products[j]);
  }
  for (int j = 0; j < kKeys; ++j) score[j] = sum(products[j]) * scale;
}

/// total = faded total + sum over the page of share[j] value[j], for kVectors * kLanes elements from element
/// i.
template <class Kv, int kVectors>
inline void add_values(const float* share, std::size_t count, const typename Kv::Element* values,
                       std::size_t size, std::size_t i, float faded, float* total) {
  const std::size_t some = kVectors == 1 ? std::min(kLanes, size - i) : kLanes;
  Lanes sums[kVectors];
  for (int n = 0; n < kVectors; ++n) sums[n] = Lanes::load(total + i + n * kLanes) * Lanes::set(faded);
  for (std::size_t j = 0; j < count; ++j) {
    const Lanes weight = Lanes::set(share[j]);
    for (int n = 0; n < kVectors; ++n) {
      sums[n] = fma(weight, Kv::load(values + j * size + i + n * kLanes, some), sums[n]);
    }
  }
  for (int n = 0; n < kVectors; ++n) sums[n].store(total + i + n * kLanes);
}

inline std::size_t value_dim_of(const AttentionRow& row) {
  return row.value_dim != 0 ? row.value_dim : row.head_dim;
}

/// The softmax of one head so far: online, over the pages in order, one page a step.
struct HeadInProgress {
  alignas(64) float total[kLargestAttentionHead] = {};
  float highest = -std::numeric_limits<float>::infinity();
  Lanes weight = Lanes::set(0.0F);
};

template <class Kv>
inline void attend_page(const AttentionRow& row, const float* q, std::size_t page, HeadInProgress& head) {
  const std::size_t size = row.head_dim;
  const std::size_t skipped = page == 0 ? row.skipped : 0;
  const std::size_t count = std::min(kPageTokens, row.length - page * kPageTokens) - skipped;
  using Element = typename Kv::Element;
  const auto* keys = reinterpret_cast<const Element*>(row.pages[page] + row.k_offset) + skipped * size;
  const auto* values = reinterpret_cast<const Element*>(row.pages[page] + row.v_offset) + skipped * size;
  alignas(64) float score[kPageTokens];
  std::size_t key = 0;
  for (; key + 4 <= count; key += 4) score_keys<Kv, 4>(q, keys + key * size, size, row.scale, score + key);
  for (; key < count; ++key) score_keys<Kv, 1>(q, keys + key * size, size, row.scale, score + key);
  float highest = head.highest;
  for (std::size_t j = 0; j < count; ++j) highest = std::max(highest, score[j]);
  const float faded = page == 0 ? 0.0F : exp_of(head.highest - highest);
  head.highest = highest;
  head.weight = head.weight * Lanes::set(faded);
  for (std::size_t j = 0; j < count; j += kLanes) {
    const std::size_t some = std::min(kLanes, count - j);
    const Lanes share =
        exp((some == kLanes ? Lanes::load(score + j) : load_some(score + j, some)) - Lanes::set(highest));
    store_some(share, score + j, some);
    head.weight = head.weight + load_some(score + j, some);
  }
  const std::size_t value_dim = value_dim_of(row);
  std::size_t i = 0;
  for (; i + 4 * kLanes <= value_dim; i += 4 * kLanes)
    add_values<Kv, 4>(score, count, values, size, i, faded, head.total);
  for (; i < value_dim; i += kLanes) add_values<Kv, 1>(score, count, values, size, i, faded, head.total);
}

/// Heads first ... first + count - 1 of the group, page by page, so that a page is fetched once for all of
/// them.
template <class Kv>
void attend_heads(const AttentionRow& row, std::size_t first, std::size_t count) {
  const std::size_t size = row.head_dim;
  const std::size_t value_dim = value_dim_of(row);
  HeadInProgress heads[kHeadsAtOnce];
  for (std::size_t page = 0; page * kPageTokens < row.length; ++page) {
    for (std::size_t h = 0; h < count; ++h) attend_page<Kv>(row, row.q + (first + h) * size, page, heads[h]);
  }
  for (std::size_t h = 0; h < count; ++h) {
    const float scale = 1.0F / sum(heads[h].weight);
    float* out = row.out + (first + h) * value_dim;
    for (std::size_t i = 0; i < value_dim; ++i) out[i] = heads[h].total[i] * scale;
  }
}

void attention(const AttentionRow& row) {
  for (std::size_t first = 0; first < row.group; first += kHeadsAtOnce) {
    const std::size_t count = std::min(kHeadsAtOnce, row.group - first);
    if (row.kv == KvType::kF32) {
      attend_heads<KvF32>(row, first, count);
    } else {
      attend_heads<KvBF16>(row, first, count);
    }
  }
}

}  // namespace
}  // namespace reprise::gpu
