// The selective scan of Mamba-1, on lanes: the channels of a group side by side, token after token. Included by the
// kernel sources, with internal linkage.

#pragma once

#include <algorithm>

#include "gpu/cpu/math.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

/// The group of channels from channel c on, of which there are `count`; count <= kLanes.
inline void scan_group(const SelectiveScan& scan, std::size_t c, std::size_t count) {
  const auto read = [&](const float* p) { return count == kLanes ? Lanes::load(p) : load_some(p, count); };
  float* state = scan.state + c * scan.state_size;
  const float* a = scan.a + c * scan.state_size;
  const Lanes skip = read(scan.skip + c);
  for (std::size_t t = 0; t < scan.tokens; ++t) {
    const Lanes x = read(scan.x + t * scan.channels + c);
    const Lanes dt = softplus(read(scan.step + t * scan.channels + c));
    const Lanes change = dt * x;
    const float* b = scan.b + t * scan.bc_stride;
    const float* out = scan.c + t * scan.bc_stride;
    Lanes total = Lanes::set(0.0F);
    for (std::size_t n = 0; n < scan.state_size; ++n) {
      float* h = state + n * kLanes;
      const Lanes kept = exp(dt * Lanes::load(a + n * kLanes)) * Lanes::load(h);
      const Lanes updated = fma(change, Lanes::set(b[n]), kept);
      updated.store(h);
      total = fma(updated, Lanes::set(out[n]), total);
    }
    const Lanes y = fma(skip, x, total) * silu(read(scan.gate + t * scan.gate_stride + c));
    float* to = scan.y + t * scan.channels + c;
    if (count == kLanes) {
      y.store(to);
    } else {
      store_some(y, to, count);
    }
  }
}

void selective_scan(const SelectiveScan& scan, std::size_t begin, std::size_t end) {
  for (std::size_t c = begin; c < end; c += kLanes) scan_group(scan, c, std::min(kLanes, scan.channels - c));
}

}  // namespace
}  // namespace reprise::gpu
