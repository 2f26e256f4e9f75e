#pragma once
// Per-head RMSNorm and RoPE of q or k, one warp per head. Lane l < kDim / 8 holds elements 8 l ... 8 l + 7,
// the other lanes zeros.

#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/attention/kv_rows.cuh"
#include "gpu/cuda/attention/tiles.cuh"

namespace reprise::gpu::cuda {
namespace {

struct EightOfHead {
  float x[8];
};

template <int kDim>
__device__ __forceinline__ EightOfHead read_head(const Bf16* head, int lane) {
  uint4 bits = make_uint4(0, 0, 0, 0);
  if (lane < kDim / 8) bits = reinterpret_cast<const uint4*>(head)[lane];
  return {{tiles::first_of(bits.x), tiles::second_of(bits.x), tiles::first_of(bits.y),
           tiles::second_of(bits.y), tiles::first_of(bits.z), tiles::second_of(bits.z),
           tiles::first_of(bits.w), tiles::second_of(bits.w)}};
}
template <int kDim>
__device__ __forceinline__ EightOfHead read_head(const float* head, int lane) {
  EightOfHead out{};
  if (lane < kDim / 8) {
    const auto* fours = reinterpret_cast<const float4*>(head) + 2 * lane;
    put_fours(fours[0], fours[1], out.x);
  }
  return out;
}

/// RMSNorm: x / sqrt(mean(x^2) + eps) * (offset + weight).
template <int kDim>
__device__ __forceinline__ void norm_head(EightOfHead& head, const AttentionShape& shape, const float* weight,
                                          int lane) {
  float squares = 0;
#pragma unroll
  for (const float x : head.x) squares = fmaf(x, x, squares);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0U, squares, step);
  if (lane >= kDim / 8) return;
  const float scale = 1.0F / sqrtf(squares / static_cast<float>(kDim) + shape.norm_eps);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    head.x[i] = (head.x[i] * scale) * (shape.norm_offset + weight[lane * 8 + i]);
  }
}

/// Returns element `at + distance` for each of the lane's elements `at`; unspecified outside the head. All
/// lanes must call it with the same distance.
__device__ __forceinline__ EightOfHead elements_at(const EightOfHead& head, int lane, int distance) {
  EightOfHead out;
  if (distance % 8 == 0) {
#pragma unroll
    for (int i = 0; i < 8; ++i) out.x[i] = __shfl_sync(~0U, head.x[i], (lane + distance / 8) & 31);
    return out;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int from = (lane * 8 + i + distance) & 255;
    const int element = (i + distance) & 7;
    float chosen = head.x[0];
#pragma unroll
    for (int other = 1; other < 8; ++other) chosen = element == other ? head.x[other] : chosen;
    out.x[i] = __shfl_sync(~0U, chosen, from / 8);
  }
  return out;
}

/// RoPE: rotates pairs (i, i + shape.rope_pairs) by the row's angles.
template <int kDim>
__device__ __forceinline__ void rotate_head(EightOfHead& head, const AttentionShape& shape,
                                            const float* cosine, const float* sine, int lane) {
  const int pairs = shape.rope_pairs;
  if (pairs == 0) return;
  const EightOfHead partners = elements_at(head, lane, pairs);
  const EightOfHead before = elements_at(head, lane, -pairs);
  if (lane >= kDim / 8) return;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int at = lane * 8 + i;
    if (at < pairs) {
      head.x[i] = head.x[i] * cosine[at] - partners.x[i] * sine[at];
    } else if (at < 2 * pairs) {
      head.x[i] = head.x[i] * cosine[at - pairs] + before.x[i] * sine[at - pairs];
    }
  }
}

/// Norm, if the shape has one, and RoPE.
template <int kDim>
__device__ __forceinline__ EightOfHead prepare_head(EightOfHead head, const AttentionShape& shape,
                                                    const float* norm, const float* cosine, const float* sine,
                                                    int lane) {
  if (shape.qk_norm) norm_head<kDim>(head, shape, norm, lane);
  rotate_head<kDim>(head, shape, cosine, sine, lane);
  return head;
}

}  // namespace
}  // namespace reprise::gpu::cuda
