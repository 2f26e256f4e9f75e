// The recurrence of Mamba-2, on lanes: columns of the state side by side, token after token. Included by the kernel
// sources, with internal linkage.

#pragma once

#include <algorithm>
#include <cmath>

#include "gpu/cpu/math.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

/// dt of one token.
inline float ssd_step(const Ssd& ssd, std::size_t token) {
  const double x = static_cast<double>(ssd.dt_scale * ssd.step[token * ssd.step_stride] + ssd.dt_bias);
  const double softplus = x > 20.0 ? x : std::log1p(std::exp(x));
  return std::min(std::max(static_cast<float>(softplus), ssd.dt_min), ssd.dt_max);
}

/// The steps of some tokens from token `first` on, for all columns.
struct SsdSteps {
  static constexpr std::size_t kMost = 64;
  std::size_t first;
  std::size_t count;
  float dt[kMost];
  float decay[kMost];
};

/// kVectors * kLanes columns of the state from column `first`; a single vector has `count` of them.
template <int kVectors>
inline void ssd_columns(const Ssd& ssd, const SsdSteps& steps, std::size_t first, std::size_t count) {
  const auto read = [&](const float* p) {
    return kVectors > 1 || count == kLanes ? Lanes::load(p) : load_some(p, count);
  };
  const auto write = [&](Lanes value, float* p) {
    if (kVectors > 1 || count == kLanes) {
      value.store(p);
    } else {
      store_some(value, p, count);
    }
  };
  for (std::size_t i = 0; i < steps.count; ++i) {
    const std::size_t t = steps.first + i;
    const Lanes decay = Lanes::set(steps.decay[i]);
    const float* b = ssd.b + t * ssd.stride;
    const float* c = ssd.c + t * ssd.stride;
    Lanes change[kVectors];  // dt x
    Lanes y[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      const Lanes x = read(ssd.x + t * ssd.stride + first + j * kLanes);
      change[j] = x * Lanes::set(steps.dt[i]);
      y[j] = x * Lanes::set(ssd.skip);
    }
    for (std::size_t n = 0; n < ssd.state_size; ++n) {
      float* row = ssd.state + n * ssd.head_dim + first;
      const Lanes in = Lanes::set(b[n]);
      const Lanes out = Lanes::set(c[n]);
      for (int j = 0; j < kVectors; ++j) {
        const Lanes updated = fma(in, change[j], read(row + j * kLanes) * decay);
        write(updated, row + j * kLanes);
        y[j] = fma(out, updated, y[j]);
      }
    }
    for (int j = 0; j < kVectors; ++j) write(y[j], ssd.y + t * ssd.y_stride + first + j * kLanes);
  }
}

void ssd(const Ssd& ssd) {
  SsdSteps steps;
  for (steps.first = 0; steps.first < ssd.tokens; steps.first += SsdSteps::kMost) {
    steps.count = std::min(SsdSteps::kMost, ssd.tokens - steps.first);
    for (std::size_t i = 0; i < steps.count; ++i) {
      steps.dt[i] = ssd_step(ssd, steps.first + i);
      steps.decay[i] = exp_of(-ssd.decay * steps.dt[i]);
    }
    std::size_t column = 0;
    for (; column + 4 * kLanes <= ssd.head_dim; column += 4 * kLanes) {
      ssd_columns<4>(ssd, steps, column, kLanes);
    }
    for (; column < ssd.head_dim; column += kLanes) {
      ssd_columns<1>(ssd, steps, column, std::min(kLanes, ssd.head_dim - column));
    }
  }
}

}  // namespace
}  // namespace reprise::gpu
