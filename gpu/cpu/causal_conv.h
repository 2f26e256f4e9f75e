// The convolution along a sequence, token by token, so that a prompt gives the same bits however it is sliced. Included
// by the kernel sources, with internal linkage.

#pragma once

#include "gpu/cpu/lanes.h"
#include "gpu/cpu/math.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

/// Channels [begin, end) of one token; `input` points to the rows of its taps, oldest first. kTaps: how many, 0: conv's.
template <std::size_t kTaps, class Rows>
inline void convolve_token(const CausalConv& conv, const Rows& input, std::size_t begin, std::size_t end,
                           float* y) {
  const std::size_t taps = kTaps != 0 ? kTaps : conv.taps;
  const auto sum_of = [&]<class Vector>(std::size_t c, auto read) {
    Vector total = conv.bias != nullptr ? read(conv.bias + c) : Vector::set(0.0F);
    for (std::size_t j = 0; j < taps; ++j) {
      total = fma(read(conv.weight + j * conv.channels + c), read(input(j) + c), total);
    }
    return total;
  };
  std::size_t c = begin;
  for (; c + 2 * kWideLanes <= end; c += 2 * kWideLanes) {  // two at a time, as map does
    const auto load = [](const float* p) { return WideLanes::load(p); };
    WideLanes first = sum_of.template operator()<WideLanes>(c, load);
    WideLanes second = sum_of.template operator()<WideLanes>(c + kWideLanes, load);
    if (conv.silu) {
      first = silu(first);
      second = silu(second);
    }
    first.store(y + c);
    second.store(y + c + kWideLanes);
  }
  for (; c < end; c += kLanes) {
    const std::size_t count = std::min(kLanes, end - c);
    const Lanes total =
        sum_of.template operator()<Lanes>(c, [&](const float* p) { return load_some(p, count); });
    store_some(conv.silu ? silu(total) : total, y + c, count);
  }
}

template <std::size_t kTaps>
inline void convolve(const CausalConv& conv, std::size_t begin, std::size_t end) {
  const std::size_t past = conv.taps - 1;
  const std::size_t x_stride = conv.x_stride != 0 ? conv.x_stride : conv.channels;
  // The inputs t - past of all channels: those before the first token lie in the state.
  const auto input_row = [&](std::size_t t) {
    return t >= past ? conv.x + (t - past) * x_stride : conv.state + t * conv.channels;
  };
  for (std::size_t t = 0; t < conv.tokens; ++t) {
    float* y = conv.y + t * conv.channels;
    if constexpr (kTaps != 0) {
      const float* rows[kTaps];
      for (std::size_t j = 0; j < kTaps; ++j) rows[j] = input_row(t + j);
      convolve_token<kTaps>(
          conv, [&](std::size_t j) { return rows[j]; }, begin, end, y);
    } else {
      convolve_token<0>(
          conv, [&](std::size_t j) { return input_row(t + j); }, begin, end, y);
    }
  }
  for (std::size_t j = 0; j < past; ++j) {  // upwards: what is read stands above what is written
    const float* from = input_row(conv.tokens + j);
    float* to = conv.state + j * conv.channels;
    if (from != to) std::copy(from + begin, from + end, to + begin);
  }
}

void causal_conv(const CausalConv& conv, std::size_t begin, std::size_t end) {
  if (conv.taps == 4) return convolve<4>(conv, begin, end);
  convolve<0>(conv, begin, end);
}

}  // namespace
}  // namespace reprise::gpu
