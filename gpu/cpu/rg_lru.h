// RG-LRU on lanes (gpu/rg_lru.h). Included by the kernel sources, with internal linkage.

#pragma once

#include <algorithm>

#include "gpu/cpu/math.h"
#include "gpu/rg_lru.h"

namespace reprise::gpu {
namespace {

/// `count` <= kLanes outputs from output n of kRows rows, which stand `stride` apart. Rows together, for each
/// weight is read once for all of them; each has its own sum.
template <int kRows>
inline void block_outputs(const float* x, std::size_t stride, const float* weight, std::size_t size,
                          std::size_t n, std::size_t count, Lanes bias, float* y) {
  Lanes sums[kRows];
  for (Lanes& sum : sums) sum = bias;
  for (std::size_t i = 0; i < size; ++i) {
    const float* from = weight + i * size + n;
    const Lanes w = count == kLanes ? Lanes::load(from) : load_some(from, count);
    for (int row = 0; row < kRows; ++row) {
      sums[row] = fma(Lanes::set(x[static_cast<std::size_t>(row) * stride + i]), w, sums[row]);
    }
  }
  for (int row = 0; row < kRows; ++row)
    store_some(sums[row], y + static_cast<std::size_t>(row) * stride + n, count);
}

void block_diagonal(const BlockDiagonal& product, std::size_t begin, std::size_t end) {
  constexpr int kAtOnce = 4;
  const std::size_t size = product.size;
  const std::size_t stride = product.blocks * size;
  for (std::size_t block = begin; block < end; ++block) {
    const float* weight = product.weight + block * size * size;
    const float* bias = product.bias + block * size;
    for (std::size_t n = 0; n < size; n += kLanes) {
      const std::size_t count = std::min(kLanes, size - n);
      const Lanes first = count == kLanes ? Lanes::load(bias + n) : load_some(bias + n, count);
      std::size_t row = 0;
      for (; row + kAtOnce <= product.rows; row += kAtOnce) {
        const std::size_t at = row * stride + block * size;
        block_outputs<kAtOnce>(product.x + at, stride, weight, size, n, count, first, product.y + at);
      }
      for (; row < product.rows; ++row) {
        const std::size_t at = row * stride + block * size;
        block_outputs<1>(product.x + at, stride, weight, size, n, count, first, product.y + at);
      }
    }
  }
}

/// Channels c ... c + count - 1 of all tokens; count <= kLanes.
inline void rg_lru_channels(const RgLru& unit, std::size_t c, std::size_t count) {
  const auto read = [&](const float* p) { return count == kLanes ? Lanes::load(p) : load_some(p, count); };
  const Lanes rate = read(unit.rate + c);
  const Lanes zero = Lanes::set(0.0F);
  const Lanes one = Lanes::set(1.0F);
  Lanes h = read(unit.state + c);
  for (std::size_t t = 0; t < unit.tokens; ++t) {
    const std::size_t at = t * unit.channels + c;
    const Lanes x = read(unit.x + at) * sigmoid(read(unit.input_gate + at));
    if (unit.begins && t == 0) {
      h = x;
    } else {
      const Lanes log_decay = rate * sigmoid(read(unit.recurrence_gate + at));
      const Lanes left = sqrt(max(one - exp(log_decay + log_decay), zero));
      h = fma(exp(log_decay), h, x * left);
    }
    store_some(h, unit.out + at, count);
  }
  store_some(h, unit.state + c, count);
}

void rg_lru(const RgLru& unit, std::size_t begin, std::size_t end) {
  for (std::size_t c = begin; c < end; c += kLanes) rg_lru_channels(unit, c, std::min(kLanes, end - c));
}

}  // namespace
}  // namespace reprise::gpu
