#pragma once
// The arithmetic of Gated DeltaNet for one token, for both kernels that compute it (gpu/cuda/delta_net_decode.cu,
// gpu/cuda/delta_net_few.cu): operation by operation, so that their bits are the same. Included by CUDA sources alone, with
// internal linkage.
//
// With S the state before the token, m = k^T S and n = q^T S are summed in one go:
//   d = beta (v - e^g m);  S' = e^g S + k d;  o = q^T S' = e^g n + (q . k) d
// A sum over the rows of S runs over kParts parts, each of rows that follow each other, in ascending order; q and k get
// their lengths behind it, so that nobody waits for them.

#include "gpu/cuda/delta_net.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kParts = 16;

__device__ inline float4 scaled_sum(float factor, float4 x, float4 sum) {
  return {fmaf(factor, x.x, sum.x), fmaf(factor, x.y, sum.y), fmaf(factor, x.z, sum.z),
          fmaf(factor, x.w, sum.w)};
}

/// A channel of the convolution before the token: what is kept of it, and its weights. Both are there before the projection
/// is made.
struct Channel {
  float x[kMostTaps];  // the last is the token's own
  float tap[kMostTaps];
  int index;
};
__device__ inline Channel read_channel(const DeltaNetSizes& sizes, const float* taps, const float* history,
                                       int index) {
  Channel channel;
  channel.index = index;
#pragma unroll
  for (int j = 0; j < kMostTaps - 1; ++j) {
    const int place = j - (kMostTaps - sizes.taps);
    channel.x[j] = place >= 0 ? history[place * sizes.channels + index] : 0.0F;
    channel.tap[j] = place >= 0 ? taps[place * sizes.channels + index] : 0.0F;
  }
  channel.tap[kMostTaps - 1] = taps[(sizes.taps - 1) * sizes.channels + index];
  return channel;
}

/// The convolution of the channel at the token, with SiLU; `history` takes the token's input in.
__device__ inline float convolve(const DeltaNetSizes& sizes, Channel channel, float* history,
                                 const Bf16* row) {
  channel.x[kMostTaps - 1] = widen_pair(row[channel.index]).x;
  float sum = 0.0F;
#pragma unroll
  for (int j = 0; j < kMostTaps; ++j) sum = fmaf(channel.tap[j], channel.x[j], sum);
#pragma unroll
  for (int j = 1; j < kMostTaps; ++j) {
    const int place = j - 1 - (kMostTaps - sizes.taps);
    if (place >= 0) history[place * sizes.channels + channel.index] = channel.x[j];
  }
  return silu(sum);
}

/// e^g and beta of a value head.
struct HeadGates {
  float decay;
  float beta;
};
__device__ inline HeadGates gates_of_head(const DeltaNetSizes& sizes, const DeltaNetWeights& weights,
                                          const Bf16* row, int head) {
  const Bf16* b_and_a = row + sizes.channels + sizes.value_size;
  const float b = widen_pair(b_and_a[head]).x;
  const float a = widen_pair(b_and_a[sizes.value_heads + head]).x;
  return {.decay = expf(log_decay(a, weights.decay[head], weights.dt_bias[head])), .beta = sigmoid(b)};
}

/// What an output is multiplied with behind its norm.
__device__ inline float output_gate(const DeltaNetSizes& sizes, const DeltaNetWeights& weights,
                                    const Bf16* row, int head, int element) {
  return weights.norm[element] * silu(widen_pair(row[sizes.channels + head * sizes.value_dim + element]).x);
}

/// From a sum of squares to what makes a unit length of it.
__device__ inline float unit_factor(float squares) {
  return 1.0F / sqrtf(squares + kUnitEps);
}

/// d of four columns.
__device__ inline float4 change_of(const HeadGates& gates, float4 v, float4 m) {
  return {gates.beta * fmaf(-gates.decay, m.x, v.x), gates.beta * fmaf(-gates.decay, m.y, v.y),
          gates.beta * fmaf(-gates.decay, m.z, v.z), gates.beta * fmaf(-gates.decay, m.w, v.w)};
}
__device__ inline float4 scaled(float factor, float4 x) {
  return {factor * x.x, factor * x.y, factor * x.z, factor * x.w};
}
__device__ inline float squares_of(float4 o) {
  return fmaf(o.w, o.w, fmaf(o.z, o.z, fmaf(o.y, o.y, o.x * o.x)));
}
/// Four outputs behind norm and gate.
__device__ inline uint2 finished(float4 o, float scale, float4 gate) {
  return {narrow(o.x * scale * gate.x, o.y * scale * gate.y),
          narrow(o.z * scale * gate.z, o.w * scale * gate.w)};
}

}  // namespace
}  // namespace reprise::gpu::cuda
