// Gated DeltaNet for one token per sequence, in one launch.
//
// Computes: causal convolution with SiLU, L2 norms, gates, the delta rule in f32 and the gated norm. With S
// the state before the token, m = k^T S and n = q^T S are summed in one pass over S:
//   d = beta (v - e^g m);  S' = e^g S + k d;  o = q^T S' = e^g n + (q . k) d
// q and k are normalized after these sums, so that the sums need not wait for the norms.
//
// Chosen when: bf16 rows, one row per slice. Up to 4 sequences with key_dim and value_dim 128, 1, 2 or 4
// value heads per key head, from compute capability 9.0 on: a cluster of 8 blocks per key head
// (decode_share()), so that all SMs work. Otherwise one block of 16 warps per key head and slice
// (decode_token()).
//
// Pipeline: the state and the convolution's history are loaded before the PDL wait.
//
// Bits: both kernels perform the same operations in the same order: a sum over the rows of S has kParts
// partial sums of consecutive rows, added in ascending order.

#include <cooperative_groups.h>

#include <cmath>

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"
#include "gpu/cuda/recurrence/gated_delta_net.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kParts = 16;

__device__ inline float4 scaled_sum(float factor, float4 x, float4 sum) {
  return {fmaf(factor, x.x, sum.x), fmaf(factor, x.y, sum.y), fmaf(factor, x.z, sum.z),
          fmaf(factor, x.w, sum.w)};
}

/// A channel of the convolution without the token's input; can be loaded before the PDL wait.
struct Channel {
  float x[kMaxTaps];  // the last is the token's
  float tap[kMaxTaps];
  int index;
};
__device__ inline Channel read_channel(const GatedDeltaNetSizes& sizes, const float* taps,
                                       const float* history, int index) {
  Channel channel;
  channel.index = index;
#pragma unroll
  for (int j = 0; j < kMaxTaps - 1; ++j) {
    const int own_tap = j - (kMaxTaps - sizes.taps);
    channel.x[j] = own_tap >= 0 ? history[own_tap * sizes.channels + index] : 0.0F;
    channel.tap[j] = own_tap >= 0 ? taps[own_tap * sizes.channels + index] : 0.0F;
  }
  channel.tap[kMaxTaps - 1] = taps[(sizes.taps - 1) * sizes.channels + index];
  return channel;
}

/// Returns SiLU of the convolution at the token, and shifts the token's input into `history`.
__device__ inline float convolve(const GatedDeltaNetSizes& sizes, Channel channel, float* history,
                                 const Bf16* row) {
  channel.x[kMaxTaps - 1] = widen_pair(row[channel.index]).x;
  float sum = 0.0F;
#pragma unroll
  for (int j = 0; j < kMaxTaps; ++j) sum = fmaf(channel.tap[j], channel.x[j], sum);
#pragma unroll
  for (int j = 1; j < kMaxTaps; ++j) {
    const int own_tap = j - 1 - (kMaxTaps - sizes.taps);
    if (own_tap >= 0) history[own_tap * sizes.channels + channel.index] = channel.x[j];
  }
  return quick_silu_of(sum);
}

/// e^g and beta of a value head.
struct HeadGates {
  float decay;
  float beta;
};
__device__ inline HeadGates gates_of_head(const GatedDeltaNetSizes& sizes,
                                          const GatedDeltaNetWeights& weights, const Bf16* row, int head) {
  const Bf16* b_and_a = row + sizes.channels + sizes.value_size;
  const float b = widen_pair(b_and_a[head]).x;
  const float a = widen_pair(b_and_a[sizes.value_heads + head]).x;
  return {.decay = expf(log_decay(a, weights.decay[head], weights.dt_bias[head])), .beta = sigmoid_of(b)};
}

/// Factor of an output after its norm.
__device__ inline float output_gate(const GatedDeltaNetSizes& sizes, const GatedDeltaNetWeights& weights,
                                    const Bf16* row, int head, int element) {
  return weights.norm[element] *
         quick_silu_of(widen_pair(row[sizes.channels + head * sizes.value_dim + element]).x);
}

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
/// Four outputs after norm and gate.
__device__ inline uint2 finished(float4 o, float scale, float4 gate) {
  return {narrow(o.x * scale * gate.x, o.y * scale * gate.y),
          narrow(o.z * scale * gate.z, o.w * scale * gate.w)};
}

// decode_share(): a cluster of kRanks blocks per key head. Each block has a share of the columns of one value
// head's state, and convolves a share of the channels of q and k for the whole cluster, so that one block
// only reads and writes a channel's history.

constexpr int kRanks = 8;
constexpr int kMaxFewSlices = 4;  // more sequences fill all SMs without clusters
constexpr int kDim = 128;         // of keys and of values

/// Division of a key head's value heads among a cluster.
template <int kGroup>
struct Share {
  static constexpr int kSlices = kRanks / kGroup;      // blocks per value head
  static constexpr int kColumns = kDim / kSlices;      // per block
  static constexpr int kLanes = kColumns / 4;          // threads per state row, four columns each
  static constexpr int kThreads = kParts * kLanes;     // each partial sum has its own threads
  static constexpr int kRows = kDim / kParts;          // per partial sum
  static constexpr int kChannels = 2 * kDim / kRanks;  // channels of q and k per block
  static_assert(kChannels + 2 * kColumns <= kThreads, "the block has fewer threads than channels and gates");
  static_assert(kRows * kParts == kDim);
};

/// Grid: kRanks blocks per key head, slices.
template <int kGroup>
__global__ void __launch_bounds__(Share<kGroup>::kThreads)
    decode_share(GatedDeltaNetSizes sizes, GatedDeltaNetWeights weights, Batch batch,
                 GatedDeltaNetPass<Bf16> pass, float q_scale) {
#if __CUDA_ARCH__ >= 900
  using Of = Share<kGroup>;
  // q, then k, after the convolution; every block of the cluster writes its share
  __shared__ float keys[2 * kDim];
  __shared__ __align__(16) float values[Of::kColumns];
  __shared__ __align__(16) float gates[Of::kColumns];
  __shared__ HeadGates of_head;
  __shared__ float4 recalled[kParts][Of::kLanes];  // partial sums of m
  __shared__ float4 answered[kParts][Of::kLanes];  // partial sums of n
  __shared__ float4 changes[Of::kLanes];
  __shared__ float squares[kDim / 4];  // sums of squares of outputs, written by all blocks of the value head

  const auto cluster = cooperative_groups::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank());
  const int key_head = static_cast<int>(blockIdx.x) / kRanks;
  const int slice_of_head = rank % Of::kSlices;
  const int head = key_head * kGroup + rank / Of::kSlices;
  const BatchSlice slice = batch.slices[blockIdx.y];
  const int thread = static_cast<int>(threadIdx.x);
  const int part = thread / Of::kLanes;
  const int lane = thread % Of::kLanes;
  const int first_column = slice_of_head * Of::kColumns;
  const Bf16* row = pass.projected + static_cast<std::size_t>(slice.first_row) * pass.stride;

  float4* state = reinterpret_cast<float4*>(slice.slot + sizes.state_offset) +
                  ((static_cast<std::size_t>(head) * kDim + part * Of::kRows) * kDim + first_column) / 4 +
                  lane;
  float4 s[Of::kRows];
#pragma unroll
  for (int i = 0; i < Of::kRows; ++i) s[i] = state[i * kDim / 4];

  // A thread has a channel of q and k, a channel of v, or an output gate.
  auto* history = reinterpret_cast<float*>(slice.slot + sizes.conv_offset);
  const int of_keys = rank * Of::kChannels + thread;
  const int column = (thread - Of::kChannels) % Of::kColumns;
  const bool has_key = thread < Of::kChannels;
  const bool has_value = !has_key && thread < Of::kChannels + Of::kColumns;
  const bool has_gate = !has_key && !has_value && thread < Of::kChannels + 2 * Of::kColumns;
  Channel channel{};
  if (has_key || has_value) {
    const int of_key =
        of_keys < kDim ? key_head * kDim + of_keys : (sizes.key_heads - 1 + key_head) * kDim + of_keys;
    const int of_value = 2 * sizes.key_heads * kDim + head * kDim + first_column + column;
    channel = read_channel(sizes, weights.conv, history, has_key ? of_key : of_value);
  }
  cluster.sync();  // all blocks of the cluster have started: their shared memory may be written
  pdl_wait();
  pdl_launch_dependents();

  if (has_key) {
    const float made = convolve(sizes, channel, history, row);
#pragma unroll
    for (int other = 0; other < kRanks; ++other) cluster.map_shared_rank(keys, other)[of_keys] = made;
  } else if (has_value) {
    values[column] = convolve(sizes, channel, history, row);
  } else if (has_gate) {
    gates[column] = output_gate(sizes, weights, row, head, first_column + column);
  }
  if (thread == Of::kThreads - 1) of_head = gates_of_head(sizes, weights, row, head);
  cluster.sync();

  float4 m = {0.0F, 0.0F, 0.0F, 0.0F};
  float4 n = {0.0F, 0.0F, 0.0F, 0.0F};
#pragma unroll
  for (int i = 0; i < Of::kRows; ++i) {
    m = scaled_sum(keys[kDim + part * Of::kRows + i], s[i], m);
    n = scaled_sum(keys[part * Of::kRows + i], s[i], n);
  }
  recalled[part][lane] = m;
  answered[part][lane] = n;
  float own[3] = {0.0F, 0.0F, 0.0F};  // q . q, k . k, q . k, in every warp
#pragma unroll
  for (int i = thread % 32; i < kDim; i += 32) {
    own[0] = fmaf(keys[i], keys[i], own[0]);
    own[1] = fmaf(keys[kDim + i], keys[kDim + i], own[1]);
    own[2] = fmaf(keys[i], keys[kDim + i], own[2]);
  }
  const float q_factor = unit_factor(warp_sum(own[0])) * q_scale;
  const float k_factor = unit_factor(warp_sum(own[1])) * 1.0F;
  const float q_times_k = warp_sum(own[2]) * q_factor * k_factor;
  __syncthreads();

  const bool sums_recalled = thread < Of::kLanes;
  const bool sums_answered = !sums_recalled && thread < 2 * Of::kLanes;
  float4 total = {0.0F, 0.0F, 0.0F, 0.0F};
  if (sums_recalled || sums_answered) {
    const auto* parts = sums_recalled ? recalled : answered;
#pragma unroll
    for (int i = 0; i < kParts; ++i) total = scaled_sum(1.0F, parts[i][lane], total);
    total = scaled(sums_recalled ? k_factor : q_factor, total);
  }
  if (sums_recalled) {
    changes[lane] = change_of(of_head, *reinterpret_cast<const float4*>(values + 4 * lane), total);
  }
  __syncthreads();

  const float4 d = changes[lane];
  const float4 o = scaled_sum(q_times_k, d, scaled(of_head.decay, total));
  if (sums_answered) {
    const int first_rank = rank - slice_of_head;
#pragma unroll
    for (int other = 0; other < Of::kSlices; ++other) {
      cluster.map_shared_rank(squares, first_rank + other)[first_column / 4 + lane] = squares_of(o);
    }
  }
#pragma unroll
  for (int i = 0; i < Of::kRows; ++i) {
    const float k = keys[kDim + part * Of::kRows + i] * k_factor;
    state[i * kDim / 4] = scaled_sum(k, d, scaled(of_head.decay, s[i]));
  }
  cluster.sync();  // the last remote access

  const float of_row = warp_sum(squares[thread % 32]);
  if (!sums_answered) return;
  const float scale = 1.0F / sqrtf(of_row / static_cast<float>(kDim) + weights.norm_eps);
  Bf16* out = pass.out + static_cast<std::size_t>(slice.first_row) * sizes.value_size + head * kDim +
              first_column + 4 * lane;
  *reinterpret_cast<uint2*>(out) = finished(o, scale, *reinterpret_cast<const float4*>(gates + 4 * lane));
#endif
}

template <int kGroup>
void launch_share(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights, const Batch& batch,
                  const GatedDeltaNetPass<Bf16>& pass, StreamHandle stream) {
  const LaunchShape grid{.blocks = dim3(kRanks * shape.key_heads, batch.slice_count),
                         .threads = Share<kGroup>::kThreads,
                         .cluster = kRanks};
  launch_after(decode_share<kGroup>, grid, stream, GatedDeltaNetSizes(shape), weights, batch, pass,
               1.0F / std::sqrt(static_cast<float>(kDim)));
}

/// Returns whether the cluster kernel supports the shape on the current GPU and is faster for so many
/// sequences.
bool can_use_clusters(const GatedDeltaNetShape& shape, int slices) {
  const int group = shape.value_heads / shape.key_heads;
  return shape.key_dim == kDim && shape.value_dim == kDim && slices <= kMaxFewSlices &&
         (group == 1 || group == 2 || group == 4) && is_hopper_or_later();
}

void gated_delta_net_decode_in_clusters(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights,
                                        const Batch& batch, const GatedDeltaNetPass<Bf16>& pass,
                                        StreamHandle stream) {
  switch (shape.value_heads / shape.key_heads) {
    case 1:
      return launch_share<1>(shape, weights, batch, pass, stream);
    case 2:
      return launch_share<2>(shape, weights, batch, pass, stream);
    default:
      return launch_share<4>(shape, weights, batch, pass, stream);
  }
}

// -- decode_token()

constexpr int kDecodeThreads = 512;
constexpr int kDecodeWarps = kDecodeThreads / 32;
static_assert(kDecodeWarps == kParts);

/// Grid: key heads, slices. A block has a key head with its value heads; it alone reads and writes their
/// convolution history. A warp has kRows rows of the state (one partial sum), a lane four columns.
template <int kKeyDim>
__global__ void __launch_bounds__(kDecodeThreads, 2)
    decode_token(GatedDeltaNetSizes sizes, GatedDeltaNetWeights weights, Batch batch,
                 GatedDeltaNetPass<Bf16> pass, float q_scale) {
  constexpr int kRows = kKeyDim / kDecodeWarps;
  static_assert(kRows >= 1);
  __shared__ float keys[2 * kKeyDim];                      // q, then k, after the convolution
  __shared__ __align__(16) float values[kMaxGroup * 128];  // v of the value heads
  // output gates: quick_silu_of(z) times the norm's weight
  __shared__ __align__(16) float gates[kMaxGroup * 128];
  __shared__ float factors[3];  // 1 / L2 norm of q (scaled) and of k; q . k
  __shared__ HeadGates of_heads[kMaxGroup];
  __shared__ __align__(16) float4 recalled[kDecodeWarps][32];  // partial sums of m, before k is normalized
  __shared__ __align__(16) float4 answered[kDecodeWarps][32];  // partial sums of n, before q is normalized
  __shared__ __align__(16) float4 changes[32];

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
  load_state();  // overlaps with the previous kernel and the convolution
  auto* history = reinterpret_cast<float*>(slice.slot + sizes.conv_offset);
  const int convolved = 2 * kKeyDim + sizes.group * dim;
  const auto read = [&](int i) {
    const int channel = i < kKeyDim       ? key_head * kKeyDim + i
                        : i < 2 * kKeyDim ? (sizes.key_heads - 1 + key_head) * kKeyDim + i
                                          : 2 * (sizes.key_heads - 1) * kKeyDim + first_head * dim + i;
    return read_channel(sizes, weights.conv, history, channel);
  };
  Channel channel{};
  if (thread < convolved) channel = read(thread);  // overlaps likewise
  pdl_wait();
  pdl_launch_dependents();

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

  if (warp < 3) {  // q . q, k . k, q . k, while the other warps read the state
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
void launch_decode(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights, const Batch& batch,
                   const GatedDeltaNetPass<Bf16>& pass, StreamHandle stream) {
  const float q_scale = 1.0F / std::sqrt(static_cast<float>(kKeyDim));
  launch_after(decode_token<kKeyDim>,
               {.blocks = dim3(shape.key_heads, batch.slice_count), .threads = kDecodeThreads}, stream,
               GatedDeltaNetSizes(shape), weights, batch, pass, q_scale);
}

}  // namespace

void gated_delta_net_decode(const GatedDeltaNetShape& shape, const GatedDeltaNetWeights& weights,
                            const Batch& batch, const GatedDeltaNetPass<Bf16>& pass, StreamHandle stream) {
  REPRISE_CHECK(gated_delta_net_supports(shape), "the delta net has no kernel for this shape");
  REPRISE_CHECK(pass.stride % 2 == 0, "the rows of the delta net are not aligned to 4 bytes");
  if (batch.slice_count == 0) return;
  if (can_use_clusters(shape, batch.slice_count)) {
    return gated_delta_net_decode_in_clusters(shape, weights, batch, pass, stream);
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
