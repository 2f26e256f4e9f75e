// The router of a mixture of experts, on lanes. Included by the kernel sources, with internal linkage.

#pragma once

#include <limits>

#include "gpu/cpu/math.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

/// The `chosen` largest values, of equal ones those of lower index, in ascending order of index. best [chosen]
inline void choose_largest(const float* values, std::size_t count, std::size_t chosen, std::uint32_t* best) {
  std::size_t found = 0;  // while they are found: from the largest value down
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values[i];
    if (found == chosen && !(value > values[best[found - 1]])) continue;
    std::size_t place = found == chosen ? found - 1 : found++;
    for (; place > 0 && value > values[best[place - 1]]; --place) best[place] = best[place - 1];
    best[place] = static_cast<std::uint32_t>(i);
  }
  for (std::size_t i = 1; i < found; ++i) {
    const std::uint32_t one = best[i];
    std::size_t place = i;
    for (; place > 0 && best[place - 1] > one; --place) best[place] = best[place - 1];
    best[place] = one;
  }
}

/// What a softmax divides by, and the largest logit, which it subtracts first.
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

/// Takes the experts of all but the best groups out of the choice. group_scores [groups]
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

/// The scores of all experts, and the choice by them.
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
  if (routing.normalised) {
    float sum_of_chosen = 0.0F;
    for (std::size_t i = 0; i < routing.chosen; ++i) sum_of_chosen += routing.weight[i];
    sum_of_chosen += routing.epsilon;
    for (std::size_t i = 0; i < routing.chosen; ++i) routing.weight[i] /= sum_of_chosen;
  }
  for (std::size_t i = 0; i < routing.chosen; ++i) routing.weight[i] *= routing.scale;
}

void add_scaled(const float* x, float scale, float* y, std::size_t count) {
  map(x, y, count,
      [factor = Lanes::set(scale)](Lanes value, Lanes before) { return fma(factor, value, before); });
}

}  // namespace
}  // namespace reprise::gpu
