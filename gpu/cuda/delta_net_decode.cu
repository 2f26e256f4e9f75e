// Gated DeltaNet for one token of each sequence, in one launch: convolution, gates, the delta rule in f32,
// the gated norm.
#include <cmath>

#include "base/check.h"
#include "gpu/cuda/delta_net_few.h"
#include "gpu/cuda/delta_net_token.cuh"
#include "gpu/cuda/dependent_launch.cuh"
#include "gpu/cuda/error.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kDecodeThreads = 512;
constexpr int kDecodeWarps = kDecodeThreads / 32;
static_assert(kDecodeWarps == kParts);

/// Grid: key heads, slices. A block has a key head with its value heads: their channels of the convolution
/// are read and kept by it alone. A warp has kRows rows of the state at a time, a part of the sums, a lane four columns.
template <int kKeyDim>
__global__ void __launch_bounds__(kDecodeThreads, 2)
    decode_token(DeltaNetSizes sizes, DeltaNetWeights weights, Batch batch, DeltaNetPass<Bf16> pass,
                 float q_scale) {
  constexpr int kRows = kKeyDim / kDecodeWarps;
  static_assert(kRows >= 1);
  __shared__ float keys[2 * kKeyDim];                          // q, then k, after the convolution
  __shared__ __align__(16) float values[kLargestGroup * 128];  // v of the value heads
  __shared__ __align__(
      16) float gates[kLargestGroup * 128];  // of their outputs: silu(z) times the norm's weight
  __shared__ float factors[3];               // of q and of k to their lengths; q . k
  __shared__ HeadGates of_heads[kLargestGroup];
  __shared__ __align__(16) float4 recalled[kDecodeWarps][32];  // parts of m, before k has its length
  __shared__ __align__(16) float4 answered[kDecodeWarps][32];  // parts of n, likewise
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
  auto* history = reinterpret_cast<float*>(slice.slot + sizes.conv_offset);
  const int convolved = 2 * kKeyDim + sizes.group * dim;
  const auto read = [&](int i) {
    const int channel = i < kKeyDim       ? key_head * kKeyDim + i
                        : i < 2 * kKeyDim ? (sizes.key_heads - 1 + key_head) * kKeyDim + i
                                          : 2 * (sizes.key_heads - 1) * kKeyDim + first_head * dim + i;
    return read_channel(sizes, weights.conv, history, channel);
  };
  Channel channel{};
  if (thread < convolved) channel = read(thread);  // under way likewise
  wait_for_earlier();
  let_next_begin();

  for (int i = thread; i < convolved + sizes.group * dim; i += kDecodeThreads) {
    if (i >= convolved) {
      const int element = i - convolved;
      gates[element] = output_gate(sizes, weights, row, first_head + element / dim, element % dim);
      continue;
    }
    if (i != thread) channel = read(i);
    const float made = convolve(sizes, channel, history, row);
    if (i < 2 * kKeyDim) {
      keys[i] = made;
    } else {
      values[i - 2 * kKeyDim] = made;
    }
  }
  if (thread < sizes.group) of_heads[thread] = gates_of_head(sizes, weights, row, first_head + thread);
  __syncthreads();

  if (warp < 3) {  // q . q, k . k, q . k, while other warps begin with the state
    const float* left = keys + (warp == 1 ? kKeyDim : 0);
    const float* right = keys + (warp == 0 ? 0 : kKeyDim);
    float sum = 0.0F;
    for (int i = lane; i < kKeyDim; i += 32) sum = fmaf(left[i], right[i], sum);
    sum = warp_sum(sum);
    if (lane == 0) factors[warp] = warp == 2 ? sum : unit_factor(sum) * (warp == 0 ? q_scale : 1.0F);
  }

  for (int member = 0; member < sizes.group; ++member) {
    const int head = first_head + member;
    float4 m = {0.0F, 0.0F, 0.0F, 0.0F};
    float4 n = {0.0F, 0.0F, 0.0F, 0.0F};
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      m = scaled_sum(keys[kKeyDim + warp * kRows + i], s[i], m);
      n = scaled_sum(keys[warp * kRows + i], s[i], n);
    }
    recalled[warp][lane] = m;
    answered[warp][lane] = n;
    __syncthreads();

    const float q_factor = factors[0];
    const float k_factor = factors[1];
    const HeadGates of_head = of_heads[member];
    float4 total = {0.0F, 0.0F, 0.0F, 0.0F};
    if (warp < 2) {
      const auto* parts = warp == 0 ? recalled : answered;
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) total = scaled_sum(1.0F, parts[w][lane], total);
      total = scaled(warp == 0 ? k_factor : q_factor, total);
    }
    if (warp == 0) {
      const float4 v = active ? *reinterpret_cast<const float4*>(values + member * dim + 4 * lane)
                              : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      changes[lane] = change_of(of_head, v, total);
    }
    __syncthreads();

    const float4 d = changes[lane];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float k = keys[kKeyDim + warp * kRows + i] * k_factor;
      s[i] = scaled_sum(k, d, scaled(of_head.decay, s[i]));
      if (active) state[i * dim / 4] = s[i];
    }
    if (member + 1 < sizes.group) {
      state += kKeyDim * dim / 4;
      load_state();
    }
    if (warp == 1) {
      const float q_times_k = factors[2] * q_factor * k_factor;
      const float4 o = scaled_sum(q_times_k, d, scaled(of_head.decay, total));
      const float squares = active ? squares_of(o) : 0.0F;
      const float scale = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(dim) + weights.norm_eps);
      if (active) {
        const float4 gate = *reinterpret_cast<const float4*>(gates + member * dim + 4 * lane);
        Bf16* out =
            pass.out + static_cast<std::size_t>(slice.first_row) * sizes.value_size + head * dim + 4 * lane;
        *reinterpret_cast<uint2*>(out) = finished(o, scale, gate);
      }
    }
  }
}

template <int kKeyDim>
void launch_decode(const DeltaNetShape& shape, const DeltaNetWeights& weights, const Batch& batch,
                   const DeltaNetPass<Bf16>& pass, StreamHandle stream) {
  const float q_scale = 1.0F / std::sqrt(static_cast<float>(kKeyDim));
  launch_after(decode_token<kKeyDim>,
               {.blocks = dim3(shape.key_heads, batch.slice_count), .threads = kDecodeThreads}, stream,
               DeltaNetSizes(shape), weights, batch, pass, q_scale);
}

}  // namespace

void delta_net_decode(const DeltaNetShape& shape, const DeltaNetWeights& weights, const Batch& batch,
                      const DeltaNetPass<Bf16>& pass, StreamHandle stream) {
  REPRISE_CHECK(delta_net_supports(shape), "the delta net has no kernel for this shape");
  REPRISE_CHECK(pass.stride % 2 == 0, "the rows of the delta net are not aligned to 4 bytes");
  if (batch.slice_count == 0) return;
  if (suits_clusters(shape, batch.slice_count)) {
    return delta_net_decode_in_clusters(shape, weights, batch, pass, stream);
  }
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
