#pragma once
// An element of rope's tables. Included by CUDA sources alone.

#include "gpu/cuda/attention.h"

namespace reprise::gpu::cuda {

/// That of `row` and `pair`.
__device__ __forceinline__ void put_turn(const RopeRows& rope, int row, int pair) {
  const float angle = static_cast<float>(rope.positions[row]) * rope.inv_freq[pair];
  const std::size_t at = static_cast<std::size_t>(row) * rope.pairs + pair;
  rope.cosine[at] = cosf(angle) * rope.factor;
  rope.sine[at] = sinf(angle) * rope.factor;
}

}  // namespace reprise::gpu::cuda
