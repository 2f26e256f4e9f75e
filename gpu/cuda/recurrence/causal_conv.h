#pragma once
// Depthwise causal convolution over time, for the first channels of wider rows. gpu/kernels.h (CausalConv) is
// the specification.
//
// Bits: one kernel serves prefill and decode and sums the taps in ascending order, so the result does not
// depend on where a slice begins.

#include <cstddef>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

struct CausalConvShape {
  int channels = 0;
  int taps = 0;                  // at least 1
  bool silu = true;              // false: y is the plain sum
  std::size_t state_offset = 0;  // bytes in a slot: f32 [taps - 1, channels], the inputs before the token
};

template <class Row>
struct CausalConvPass {
  const Row* x;         // [rows] rows of `stride`; the first `channels` elements are the input
  int stride;           // at least channels
  const float* weight;  // [taps, channels]
  const float* bias;    // [channels]; null: no bias
  SlotExports exports{};
};

/// Writes y [rows, channels] and updates the state in the slots.
void causal_conv(const CausalConvShape& shape, const Batch& batch, const CausalConvPass<Bf16>& pass, Bf16* y,
                 StreamHandle stream);
void causal_conv(const CausalConvShape& shape, const Batch& batch, const CausalConvPass<Bf16>& pass, float* y,
                 StreamHandle stream);
void causal_conv(const CausalConvShape& shape, const Batch& batch, const CausalConvPass<float>& pass,
                 float* y, StreamHandle stream);

}  // namespace reprise::gpu::cuda
