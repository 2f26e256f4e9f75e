#pragma once
// A depthwise causal convolution over time, for some channels of wider rows: gpu/kernels.h (CausalConv) is the
// specification. One kernel for prefill and decode, the taps summed in ascending order, so that bits do not depend on
// where a slice begins.
//
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include <cstddef>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

struct CausalConvShape {
  int channels = 0;
  int taps = 0;                  // at least 1
  bool silu = true;              // false: y is the sum itself
  std::size_t state_offset = 0;  // in a slot: [taps - 1, channels] f32, the inputs before the next token
};

/// Row: the element of rows, Bf16 or float.
template <class Row>
struct CausalConvPass {
  const Row* x;           // [rows] rows of `stride`, of which the first `channels` elements go in
  int stride;             // at least channels
  const float* weight;    // [taps, channels]
  const float* bias;      // [channels]; null: none
  SlotExports exports{};  // of a prefill
};

/// y [rows, channels]. The slots hold the inputs before the next token then.
void causal_conv(const CausalConvShape& shape, const Batch& batch, const CausalConvPass<Bf16>& pass, Bf16* y,
                 StreamHandle stream);
void causal_conv(const CausalConvShape& shape, const Batch& batch, const CausalConvPass<Bf16>& pass, float* y,
                 StreamHandle stream);
void causal_conv(const CausalConvShape& shape, const Batch& batch, const CausalConvPass<float>& pass,
                 float* y, StreamHandle stream);

}  // namespace reprise::gpu::cuda
