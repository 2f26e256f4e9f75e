// The router of a mixture of experts, on lanes. Included by the kernel sources, with internal linkage.

#pragma once

#include "gpu/cpu/math.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

/// The `chosen` largest logits, of equal ones those of lower index, in ascending order of index.
inline void choose_experts(const ExpertRouting& routing) {
  std::uint32_t* best = routing.expert;  // while they are found: from the largest logit down
  std::size_t count = 0;
  for (std::size_t e = 0; e < routing.experts; ++e) {
    const float logit = routing.logits[e];
    if (count == routing.chosen && !(logit > routing.logits[best[count - 1]])) continue;
    std::size_t place = count == routing.chosen ? count - 1 : count++;
    for (; place > 0 && logit > routing.logits[best[place - 1]]; --place) best[place] = best[place - 1];
    best[place] = static_cast<std::uint32_t>(e);
  }
  for (std::size_t i = 1; i < count; ++i) {
    const std::uint32_t expert = best[i];
    std::size_t place = i;
    for (; place > 0 && best[place - 1] > expert; --place) best[place] = best[place - 1];
    best[place] = expert;
  }
}

void route_experts(const ExpertRouting& routing) {
  choose_experts(routing);
  float top = routing.logits[0];
  for (std::size_t e = 1; e < routing.experts; ++e) top = routing.logits[e] > top ? routing.logits[e] : top;
  const Lanes shift = Lanes::set(top);
  Lanes total = Lanes::set(0.0F);
  std::size_t e = 0;
  for (; e + kLanes <= routing.experts; e += kLanes) {
    total = total + exp(Lanes::load(routing.logits + e) - shift);
  }
  float sum_of_all = sum(total);
  for (; e < routing.experts; ++e) sum_of_all += exp_of(routing.logits[e] - top);
  float sum_of_chosen = 0.0F;
  for (std::size_t i = 0; i < routing.chosen; ++i) {
    routing.weight[i] = exp_of(routing.logits[routing.expert[i]] - top) / sum_of_all;
    sum_of_chosen += routing.weight[i];
  }
  if (!routing.normalised) return;
  for (std::size_t i = 0; i < routing.chosen; ++i) routing.weight[i] /= sum_of_chosen;
}

void add_scaled(const float* x, float scale, float* y, std::size_t count) {
  map(x, y, count,
      [factor = Lanes::set(scale)](Lanes value, Lanes before) { return fma(factor, value, before); });
}

}  // namespace
}  // namespace reprise::gpu
