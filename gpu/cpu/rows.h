// Row operations of the kernel table (gpu/kernels.h): conversions, norms, gates, RoPE, and the expert router.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/cpu/math.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

void to_bf16(const float* x, std::uint16_t* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = f32_to_bf16(x[i]);
}

inline float sum_of_squares(const float* x, std::size_t size) {
  Lanes total = Lanes::set(0.0F);
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Lanes value = Lanes::load(x + i);
    total = fma(value, value, total);
  }
  if (i < size) {
    const Lanes value = load_some(x + i, size - i);
    total = fma(value, value, total);
  }
  return sum(total);
}

void rms_norm(const float* x, const float* w, float offset, float eps, float* y, std::size_t rows,
              std::size_t size, std::size_t stride) {
  for (std::size_t row = 0; row < rows; ++row) {
    const float* from = x + row * stride;
    float* to = y + row * stride;
    const float scale = 1.0F / std::sqrt(sum_of_squares(from, size) / static_cast<float>(size) + eps);
    for (std::size_t i = 0; i < size; ++i) to[i] = (from[i] * scale) * (offset + w[i]);
  }
}

void l2_norm(const float* x, float eps, float scale, float* y, std::size_t rows, std::size_t size,
             std::size_t stride) {
  for (std::size_t row = 0; row < rows; ++row) {
    const float* from = x + row * stride;
    float* to = y + row * stride;
    const float factor = (1.0F / std::sqrt(sum_of_squares(from, size) + eps)) * scale;
    for (std::size_t i = 0; i < size; ++i) to[i] = from[i] * factor;
  }
}

inline float sum_of(const float* x, std::size_t size) {
  Lanes total = Lanes::set(0.0F);
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) total = total + Lanes::load(x + i);
  if (i < size) total = total + load_some(x + i, size - i);
  return sum(total);
}

void layer_norm(const LayerNorm& norm) {
  const auto size = static_cast<float>(norm.size);
  for (std::size_t row = 0; row < norm.rows; ++row) {
    const float* x = norm.x + row * norm.size;
    const float* weight = norm.weight + row % norm.groups * norm.size;
    const float* bias = norm.bias + row % norm.groups * norm.size;
    float* y = norm.y + row * norm.size;
    const float mean = sum_of(x, norm.size) / size;
    for (std::size_t i = 0; i < norm.size; ++i) y[i] = x[i] - mean;
    const float scale = 1.0F / std::sqrt(sum_of_squares(y, norm.size) / size + norm.eps);
    for (std::size_t i = 0; i < norm.size; ++i) y[i] = std::fma(y[i] * scale, weight[i], bias[i]);
  }
}

void add(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] += x[i];
}

void add_scaled(const float* x, float scale, float* y, std::size_t count) {
  map(x, y, count,
      [factor = Lanes::set(scale)](Lanes value, Lanes before) { return fma(factor, value, before); });
}

void scale(float factor, float* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] *= factor;
}

void soft_cap(float cap, float* x, std::size_t count) {
  const Lanes all = Lanes::set(cap);
  const Lanes zero = Lanes::set(0.0F);
  // Adding x * 0 gives NaN for a non-finite x.
  map(x, x, count, [&](Lanes value, Lanes) { return fma(value, zero, all * tanh(value / all)); });
}

void relu_squared(float* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float positive = x[i] < 0.0F ? 0.0F : x[i];  // propagates NaN
    x[i] = positive * positive;
  }
}

void swiglu(const float* gate, const float* up, float* y, std::size_t count) {
  std::size_t i = 0;
  const auto at = [&](std::size_t k) { return silu(Lanes::load(gate + k)) * Lanes::load(up + k); };
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {  // two vectors at a time, as map()
    const Lanes first = at(i);
    const Lanes second = at(i + kLanes);
    first.store(y + i);
    second.store(y + i + kLanes);
  }
  for (; i + kLanes <= count; i += kLanes) at(i).store(y + i);
  if (i < count) {
    store_some(silu(load_some(gate + i, count - i)) * load_some(up + i, count - i), y + i, count - i);
  }
}

void gate_silu(const float* gate, float* y, std::size_t count) {
  map(gate, y, count, [](Lanes g, Lanes value) { return silu(g) * value; });
}

void gate_gelu(const float* gate, float* y, std::size_t count) {
  map(gate, y, count, [](Lanes g, Lanes value) { return gelu(g) * value; });
}

void gate_sigmoid(const float* gate, float* y, std::size_t count) {
  map(gate, y, count, [](Lanes g, Lanes value) { return sigmoid(g) * value; });
}

void to_tanh(float* x, std::size_t count) {
  map(x, x, count, [](Lanes value, Lanes) { return tanh(value); });
}

void to_sigmoid(float* x, std::size_t count) {
  map(x, x, count, [](Lanes value, Lanes) { return sigmoid(value); });
}

void rope(float* head, const float* cosine, const float* sine, std::size_t half) {
  for (std::size_t i = 0; i < half; ++i) {
    const float first = head[i];
    const float second = head[i + half];
    head[i] = first * cosine[i] - second * sine[i];
    head[i + half] = second * cosine[i] + first * sine[i];
  }
}

void delta_gates(const float* a, const float* b, const float* decay, const float* dt_bias, float* g,
                 float* beta, std::size_t heads) {
  for (std::size_t h = 0; h < heads; ++h) {
    const double x = static_cast<double>(a[h] + dt_bias[h]);
    const double softplus = x > 20.0 ? x : std::log1p(std::exp(x));
    g[h] = -decay[h] * static_cast<float>(softplus);
    beta[h] = 1.0F / (1.0F + exp_of(-b[h]));
  }
}

// The router of a mixture of experts.

/// Writes the indices of the `chosen` largest values to best[chosen], ascending. Ties go to the lower index.
inline void choose_largest(const float* values, std::size_t count, std::size_t chosen, std::uint32_t* best) {
  std::size_t found = 0;  // best is sorted by descending value until all are found
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values[i];
    if (found == chosen && !(value > values[best[found - 1]])) continue;
    std::size_t slot = found == chosen ? found - 1 : found++;
    for (; slot > 0 && value > values[best[slot - 1]]; --slot) best[slot] = best[slot - 1];
    best[slot] = static_cast<std::uint32_t>(i);
  }
  for (std::size_t i = 1; i < found; ++i) {
    const std::uint32_t one = best[i];
    std::size_t slot = i;
    for (; slot > 0 && best[slot - 1] > one; --slot) best[slot] = best[slot - 1];
    best[slot] = one;
  }
}

/// The maximum and the denominator of a softmax.
struct SoftmaxOfAll {
  float top;
  float sum;

  float of(float logit) const { return exp_of(logit - top) / sum; }
};

inline SoftmaxOfAll softmax_of_all(const float* logits, std::size_t count) {
  float top = logits[0];
  for (std::size_t e = 1; e < count; ++e) top = logits[e] > top ? logits[e] : top;
  const Lanes shift = Lanes::set(top);
  Lanes total = Lanes::set(0.0F);
  std::size_t e = 0;
  for (; e + kLanes <= count; e += kLanes) total = total + exp(Lanes::load(logits + e) - shift);
  float sum_of_all = sum(total);
  for (; e < count; ++e) sum_of_all += exp_of(logits[e] - top);
  return {top, sum_of_all};
}

/// Sets the ranks of experts outside the best groups to -infinity. group_scores[groups] is scratch.
inline void keep_best_groups(const ExpertRouting& routing, float* ranks, float* group_scores) {
  const std::size_t size = routing.experts / routing.groups;
  for (std::size_t g = 0; g < routing.groups; ++g) {
    const float* own = ranks + g * size;
    float first = own[0] < own[1] ? own[1] : own[0];
    float second = own[0] < own[1] ? own[0] : own[1];
    for (std::size_t i = 2; i < size; ++i) {
      second = own[i] > first ? first : (own[i] > second ? own[i] : second);
      first = own[i] > first ? own[i] : first;
    }
    group_scores[g] = first + second;
  }
  for (std::size_t g = 0; g < routing.groups; ++g) {
    std::size_t better = 0;
    for (std::size_t other = 0; other < routing.groups; ++other) {
      const bool before =
          other < g ? group_scores[other] >= group_scores[g] : group_scores[other] > group_scores[g];
      better += before ? 1 : 0;
    }
    if (better < routing.chosen_groups) continue;
    for (std::size_t i = 0; i < size; ++i) ranks[g * size + i] = -std::numeric_limits<float>::infinity();
  }
}

inline void route_by_ranks(const ExpertRouting& routing) {
  const std::size_t experts = routing.experts;
  float* scores = routing.scratch;
  float* ranks = scores + experts;
  if (routing.scores == RouterScores::kSigmoid) {
    map(routing.logits, scores, experts, [](Lanes logit, Lanes) { return sigmoid(logit); });
  } else {
    const SoftmaxOfAll all = softmax_of_all(routing.logits, experts);
    map(routing.logits, scores, experts,
        [shift = Lanes::set(all.top), divisor = Lanes::set(all.sum)](Lanes logit, Lanes) {
          return exp(logit - shift) / divisor;
        });
  }
  for (std::size_t e = 0; e < experts; ++e) {
    ranks[e] = routing.bias == nullptr ? scores[e] : scores[e] + routing.bias[e];
  }
  if (routing.chosen_groups < routing.groups) keep_best_groups(routing, ranks, ranks + experts);
  choose_largest(ranks, experts, routing.chosen, routing.expert);
  for (std::size_t i = 0; i < routing.chosen; ++i) routing.weight[i] = scores[routing.expert[i]];
}

void route_experts(const ExpertRouting& routing) {
  if (routing.needs_scratch()) {
    route_by_ranks(routing);
  } else {
    choose_largest(routing.logits, routing.experts, routing.chosen, routing.expert);
    const SoftmaxOfAll all = softmax_of_all(routing.logits, routing.experts);
    for (std::size_t i = 0; i < routing.chosen; ++i) {
      routing.weight[i] = all.of(routing.logits[routing.expert[i]]);
    }
  }
  if (routing.normalized) {
    float sum_of_chosen = 0.0F;
    for (std::size_t i = 0; i < routing.chosen; ++i) sum_of_chosen += routing.weight[i];
    sum_of_chosen += routing.epsilon;
    for (std::size_t i = 0; i < routing.chosen; ++i) routing.weight[i] /= sum_of_chosen;
  }
  for (std::size_t i = 0; i < routing.chosen; ++i) routing.weight[i] *= routing.scale;
}

}  // namespace
}  // namespace reprise::gpu
