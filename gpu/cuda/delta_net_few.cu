// A token of few sequences: a cluster of kRanks blocks has a key head with its value heads. Each block has a share of the
// columns of one value head's state, and of the channels of q and k, which it convolves for all of them: so a channel's
// history is read and written by one block alone.
#include <cooperative_groups.h>

#include <cmath>

#include "gpu/cuda/delta_net_few.h"
#include "gpu/cuda/delta_net_token.cuh"
#include "gpu/cuda/dependent_launch.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kRanks = 8;
constexpr int kMostFewSlices = 4;  // beyond, whole heads keep all multiprocessors busy
constexpr int kDim = 128;          // of keys and of values

/// How the value heads of a key head are shared by a cluster.
template <int kGroup>
struct Share {
  static constexpr int kSlices = kRanks / kGroup;   // blocks of a value head
  static constexpr int kColumns = kDim / kSlices;   // of a block
  static constexpr int kLanes = kColumns / 4;       // threads that have the columns of some rows, four each
  static constexpr int kThreads = kParts * kLanes;  // each part of the sums has its threads
  static constexpr int kRows = kDim / kParts;       // of a part
  static constexpr int kChannels = 2 * kDim / kRanks;  // of q and k
  static_assert(kChannels + 2 * kColumns <= kThreads, "a thread has a channel or a gate");
  static_assert(kRows * kParts == kDim);
};

/// Grid: kRanks blocks for each key head, slices.
template <int kGroup>
__global__ void __launch_bounds__(Share<kGroup>::kThreads)
    decode_share(DeltaNetSizes sizes, DeltaNetWeights weights, Batch batch, DeltaNetPass<Bf16> pass,
                 float q_scale) {
#if __CUDA_ARCH__ >= 900
  using Of = Share<kGroup>;
  __shared__ float
      keys[2 * kDim];  // q, then k, after the convolution: every block of the cluster writes its share
  __shared__ __align__(16) float values[Of::kColumns];
  __shared__ __align__(16) float gates[Of::kColumns];
  __shared__ HeadGates of_head;
  __shared__ float4 recalled[kParts][Of::kLanes];  // parts of m
  __shared__ float4 answered[kParts][Of::kLanes];  // parts of n
  __shared__ float4 changes[Of::kLanes];           // d
  __shared__ float squares[kDim / 4];              // of outputs: the blocks of the value head write them

  const auto cluster = cooperative_groups::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank());
  const int key_head = static_cast<int>(blockIdx.x) / kRanks;
  const int slice_of_head = rank % Of::kSlices;
  const int head = key_head * kGroup + rank / Of::kSlices;
  const BatchSlice slice = batch.slices[blockIdx.y];
  const int thread = static_cast<int>(threadIdx.x);
  const int part = thread / Of::kLanes;
  const int lane = thread % Of::kLanes;  // four columns
  const int first_column = slice_of_head * Of::kColumns;
  const Bf16* row = pass.projected + static_cast<std::size_t>(slice.first_row) * pass.stride;

  float4* state = reinterpret_cast<float4*>(slice.slot + sizes.state_offset) +
                  ((static_cast<std::size_t>(head) * kDim + part * Of::kRows) * kDim + first_column) / 4 +
                  lane;
  float4 s[Of::kRows];
#pragma unroll
  for (int i = 0; i < Of::kRows; ++i) s[i] = state[i * kDim / 4];  // under way while the projection is made

  // A thread has a channel of q and k, a channel of v, or a gate.
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
  cluster.sync();  // from here on the others are there
  wait_for_earlier();
  let_next_begin();

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
  float own[3] = {0.0F, 0.0F, 0.0F};  // q . q, k . k, q . k: every warp makes them
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
  cluster.sync();  // nobody writes into another's memory after it

  const float of_row = warp_sum(squares[thread % 32]);
  if (!sums_answered) return;
  const float scale = 1.0F / sqrtf(of_row / static_cast<float>(kDim) + weights.norm_eps);
  Bf16* out = pass.out + static_cast<std::size_t>(slice.first_row) * sizes.value_size + head * kDim +
              first_column + 4 * lane;
  *reinterpret_cast<uint2*>(out) = finished(o, scale, *reinterpret_cast<const float4*>(gates + 4 * lane));
#endif
}

template <int kGroup>
void launch_share(const DeltaNetShape& shape, const DeltaNetWeights& weights, const Batch& batch,
                  const DeltaNetPass<Bf16>& pass, StreamHandle stream) {
  const LaunchShape grid{.blocks = dim3(kRanks * shape.key_heads, batch.slice_count),
                         .threads = Share<kGroup>::kThreads,
                         .cluster = kRanks};
  launch_after(decode_share<kGroup>, grid, stream, DeltaNetSizes(shape), weights, batch, pass,
               1.0F / std::sqrt(static_cast<float>(kDim)));
}

}  // namespace

bool suits_clusters(const DeltaNetShape& shape, int slices) {
  const int group = shape.value_heads / shape.key_heads;
  return shape.key_dim == kDim && shape.value_dim == kDim && slices <= kMostFewSlices &&
         (group == 1 || group == 2 || group == 4) && is_hopper_or_later();
}

void delta_net_decode_in_clusters(const DeltaNetShape& shape, const DeltaNetWeights& weights,
                                  const Batch& batch, const DeltaNetPass<Bf16>& pass, StreamHandle stream) {
  switch (shape.value_heads / shape.key_heads) {
    case 1:
      return launch_share<1>(shape, weights, batch, pass, stream);
    case 2:
      return launch_share<2>(shape, weights, batch, pass, stream);
    default:
      return launch_share<4>(shape, weights, batch, pass, stream);
  }
}

}  // namespace reprise::gpu::cuda
