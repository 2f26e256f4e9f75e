// Gated DeltaNet for one token of each sequence, in one launch: convolution, gates, the delta rule in f32,
// the gated norm.
#include <cmath>

#include "base/check.h"
#include "gpu/cuda/delta_net.cuh"
#include "gpu/cuda/dependent_launch.cuh"
#include "gpu/cuda/error.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kDecodeThreads = 512;
constexpr int kDecodeWarps = kDecodeThreads / 32;

__device__ inline float4 scaled_sum(float factor, float4 x, float4 sum) {
  return {fmaf(factor, x.x, sum.x), fmaf(factor, x.y, sum.y), fmaf(factor, x.z, sum.z),
          fmaf(factor, x.w, sum.w)};
}

/// Grid: key heads, slices. A block has a key head with its value heads: their channels of the convolution
/// are read and kept by it alone. A warp has kRows rows of the state at a time, a lane four columns.
///
/// With S the state before the token, m = k^T S and n = q^T S are summed in one go:
///   d = beta (v - e^g m);  S' = e^g S + k d;  o = q^T S' = e^g n + (q . k) d
template <int kKeyDim>
__global__ void __launch_bounds__(kDecodeThreads, 2)
    decode_token(DeltaNetSizes sizes, DeltaNetWeights weights, Batch batch, DeltaNetPass pass,
                 float q_scale) {
  constexpr int kRows = kKeyDim / kDecodeWarps;
  static_assert(kRows >= 1);
  __shared__ float keys[2 * kKeyDim];                          // q, then k, after the convolution
  __shared__ __align__(16) float values[kLargestGroup * 128];  // v of the value heads
  __shared__ __align__(
      16) float gates[kLargestGroup * 128];  // of their outputs: silu(z) times the norm's weight
  __shared__ float factors[3];               // of q and of k to their lengths; q . k
  __shared__ float decays[kLargestGroup];
  __shared__ float betas[kLargestGroup];
  __shared__ __align__(16) float4 recalled[kDecodeWarps][32];  // parts of m
  __shared__ __align__(16) float4 answered[kDecodeWarps][32];  // parts of n
  __shared__ __align__(16) float4 changes[32];                 // d

  const int key_head = static_cast<int>(blockIdx.x);
  const BatchSlice slice = batch.slices[blockIdx.y];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int dim = sizes.value_dim;
  const bool active = 4 * lane < dim;
  const int first_head = key_head * sizes.group;
  const Bf16* row = pass.projected + static_cast<std::size_t>(slice.first_row) * pass.stride;

  float4* state = reinterpret_cast<float4*>(slice.slot + sizes.state_offset) +
                  ((static_cast<std::size_t>(first_head) * kKeyDim + warp * kRows) * dim) / 4 + lane;
  float4 s[kRows];
  const auto load_state = [&] {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      s[i] = active ? state[i * dim / 4] : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    }
  };
  load_state();  // under way while the projection before, then q, k and v are made
  wait_for_earlier();
  let_next_begin();

  auto* history = reinterpret_cast<float*>(slice.slot + sizes.conv_offset);
  const int convolved = 2 * kKeyDim + sizes.group * dim;
  for (int i = thread; i < convolved + sizes.group * dim; i += kDecodeThreads) {
    if (i >= convolved) {
      const int element = i - convolved;
      const Bf16 z = row[sizes.channels + first_head * dim + element];
      gates[element] = weights.norm[element % dim] * silu(widen_pair(z).x);
      continue;
    }
    const int channel = i < kKeyDim       ? key_head * kKeyDim + i
                        : i < 2 * kKeyDim ? (sizes.key_heads - 1 + key_head) * kKeyDim + i
                                          : 2 * (sizes.key_heads - 1) * kKeyDim + first_head * dim + i;
    float x[kMostTaps];  // the last is the token's own
    float tap[kMostTaps];
#pragma unroll
    for (int j = 0; j < kMostTaps - 1; ++j) {
      const int place = j - (kMostTaps - sizes.taps);
      x[j] = place >= 0 ? history[place * sizes.channels + channel] : 0.0F;
      tap[j] = place >= 0 ? weights.conv[place * sizes.channels + channel] : 0.0F;
    }
    x[kMostTaps - 1] = widen_pair(row[channel]).x;
    tap[kMostTaps - 1] = weights.conv[(sizes.taps - 1) * sizes.channels + channel];
    float sum = 0.0F;
#pragma unroll
    for (int j = 0; j < kMostTaps; ++j) sum = fmaf(tap[j], x[j], sum);
#pragma unroll
    for (int j = 1; j < kMostTaps; ++j) {
      const int place = j - 1 - (kMostTaps - sizes.taps);
      if (place >= 0) history[place * sizes.channels + channel] = x[j];
    }
    if (i < 2 * kKeyDim) {
      keys[i] = silu(sum);
    } else {
      values[i - 2 * kKeyDim] = silu(sum);
    }
  }
  if (thread < sizes.group) {
    const int head = first_head + thread;
    const Bf16* b_and_a = row + sizes.channels + sizes.value_size;
    const float b = widen_pair(b_and_a[head]).x;
    const float a = widen_pair(b_and_a[sizes.value_heads + head]).x;
    decays[thread] = expf(log_decay(a, weights.decay[head], weights.dt_bias[head]));
    betas[thread] = sigmoid(b);
  }
  __syncthreads();

  if (warp < 3) {  // q . q, k . k, q . k
    const float* left = keys + (warp == 1 ? kKeyDim : 0);
    const float* right = keys + (warp == 0 ? 0 : kKeyDim);
    float sum = 0.0F;
    for (int i = lane; i < kKeyDim; i += 32) sum = fmaf(left[i], right[i], sum);
    sum = warp_sum(sum);
    if (lane == 0)
      factors[warp] = warp == 2 ? sum : 1.0F / sqrtf(sum + kUnitEps) * (warp == 0 ? q_scale : 1.0F);
  }
  __syncthreads();
  const float q_factor = factors[0];
  const float k_factor = factors[1];
  const float q_times_k = factors[2] * q_factor * k_factor;

  for (int member = 0; member < sizes.group; ++member) {
    const int head = first_head + member;
    float4 m = {0.0F, 0.0F, 0.0F, 0.0F};
    float4 n = {0.0F, 0.0F, 0.0F, 0.0F};
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      m = scaled_sum(keys[kKeyDim + warp * kRows + i] * k_factor, s[i], m);
      n = scaled_sum(keys[warp * kRows + i] * q_factor, s[i], n);
    }
    recalled[warp][lane] = m;
    answered[warp][lane] = n;
    __syncthreads();

    const float decay = decays[member];
    float4 total = {0.0F, 0.0F, 0.0F, 0.0F};
    if (warp < 2) {
      const auto* parts = warp == 0 ? recalled : answered;
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) total = scaled_sum(1.0F, parts[w][lane], total);
    }
    if (warp == 0) {
      const float beta = betas[member];
      const float4 v = active ? *reinterpret_cast<const float4*>(values + member * dim + 4 * lane)
                              : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      changes[lane] = {beta * (v.x - decay * total.x), beta * (v.y - decay * total.y),
                       beta * (v.z - decay * total.z), beta * (v.w - decay * total.w)};
    }
    __syncthreads();

    const float4 d = changes[lane];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float k = keys[kKeyDim + warp * kRows + i] * k_factor;
      s[i] = scaled_sum(k, d, make_float4(decay * s[i].x, decay * s[i].y, decay * s[i].z, decay * s[i].w));
      if (active) state[i * dim / 4] = s[i];
    }
    if (member + 1 < sizes.group) {
      state += kKeyDim * dim / 4;
      load_state();
    }
    if (warp == 1) {
      const float4 o = {fmaf(q_times_k, d.x, decay * total.x), fmaf(q_times_k, d.y, decay * total.y),
                        fmaf(q_times_k, d.z, decay * total.z), fmaf(q_times_k, d.w, decay * total.w)};
      const float squares = active ? o.x * o.x + o.y * o.y + o.z * o.z + o.w * o.w : 0.0F;
      const float scale = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(dim) + weights.norm_eps);
      if (active) {
        const float4 gate = *reinterpret_cast<const float4*>(gates + member * dim + 4 * lane);
        Bf16* out =
            pass.out + static_cast<std::size_t>(slice.first_row) * sizes.value_size + head * dim + 4 * lane;
        *reinterpret_cast<uint2*>(out) = {narrow(o.x * scale * gate.x, o.y * scale * gate.y),
                                          narrow(o.z * scale * gate.z, o.w * scale * gate.w)};
      }
    }
  }
}

template <int kKeyDim>
void launch_decode(const DeltaNetShape& shape, const DeltaNetWeights& weights, const Batch& batch,
                   const DeltaNetPass& pass, StreamHandle stream) {
  const float q_scale = 1.0F / std::sqrt(static_cast<float>(kKeyDim));
  launch_after(decode_token<kKeyDim>,
               {.blocks = dim3(shape.key_heads, batch.slice_count), .threads = kDecodeThreads}, stream,
               DeltaNetSizes(shape), weights, batch, pass, q_scale);
}

}  // namespace

void delta_net_decode(const DeltaNetShape& shape, const DeltaNetWeights& weights, const Batch& batch,
                      const DeltaNetPass& pass, StreamHandle stream) {
  REPRISE_CHECK(delta_net_supports(shape), "a delta net of a shape without kernels");
  REPRISE_CHECK(pass.stride % 2 == 0, "rows of a delta net that are not aligned to 4 bytes");
  if (batch.slice_count == 0) return;
  switch (shape.key_dim) {
    case 16:
      launch_decode<16>(shape, weights, batch, pass, stream);
      break;
    case 32:
      launch_decode<32>(shape, weights, batch, pass, stream);
      break;
    case 64:
      launch_decode<64>(shape, weights, batch, pass, stream);
      break;
    default:
      launch_decode<128>(shape, weights, batch, pass, stream);
      break;
  }
}

}  // namespace reprise::gpu::cuda
