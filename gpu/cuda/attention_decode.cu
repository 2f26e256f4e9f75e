// Attention of decoded rows: each row stands at position `stored` of its sequence and attends to all up to
// itself, or to those of its window. One block takes one split of one sequence, for all query heads of one key/value head
// (gpu/cuda/attention_split.cuh); a second kernel adds up the splits where there are several. Of few blocks each makes the q that it needs of what was
// projected, and that of the last split the new key and value, too; where they are many, a kernel in front does so once for all
// of them (attention_prepare). The bits are the same.
#include <algorithm>

#include "gpu/cuda/attention_decoded_row.cuh"
#include "gpu/cuda/attention_parts.h"
#include "gpu/cuda/attention_split.cuh"
#include "gpu/cuda/error.h"
#include "gpu/cuda/shared_memory.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kCombineThreads = 64;
constexpr int kMostSlices = 32768;  // of one launch
constexpr int kFewBlocks = 528;     // that each make their own q: four for each multiprocessor of a large GPU
constexpr int kUsualRing = 3;       // tiles of a block that are on their way
constexpr int kShortRing = 2;       // the same on GPUs with little shared memory
// Rows are decoded in several launches where their partial results take more than this.
constexpr std::size_t kPartialBytes = std::size_t{64} << 20;

/// Results of splits: of row r of the launch, head h and split s, counted from the first that the row looks at, at
/// (r * heads + h) * splits + s.
struct Partial {
  float* out;       // [kDim] each, not yet divided by the weight
  float2* weights;  // highest score, sum of weights
  int splits;       // that a row may look at
};

/// Splits that a row looks at.
__device__ __forceinline__ int splits_of(const AttentionShape& shape, const BatchSlice& slice) {
  return slice.stored / kDecodeSplit + 1 - first_key(shape, slice.stored) / kDecodeSplit;
}

/// The split of a block (split, key/value head, slice from first_slice on) into `sums`; false: there is no such split.
template <bool kPrepared, KvType kKv, int kDim, int kRing>
__device__ __forceinline__ bool attend_own(DecodeShared<kKv, kDim, kRing>& shared,
                                           const AttentionShape& shape, const SplitOfRow& own,
                                           const AttentionPass<Bf16>& pass, float scale,
                                           SplitSums<kDim>& sums) {
  if (own.count <= 0) {
    wait_for_earlier();
    let_next_begin();
    return false;
  }
  const int group = shape.heads / shape.kv_heads;
  const int row = own.slice.first_row;
  if constexpr (kPrepared) {
    const Bf16* rows = reinterpret_cast<const Bf16*>(pass.workspace) +
                       (static_cast<std::size_t>(row) * shape.heads + own.kv_head * group) * kDim;
    attend_split(
        shared, shape, own, scale, [&](Bf16* q) { put_rows<kDim, kRows>(q, rows, group); }, sums);
  } else {
    ask_for_norms<kDim>(shape, pass, row);
    attend_split(
        shared, shape, own, scale,
        [&](Bf16* q) {
          clear_rows<kDim, kRows>(q, group);
          NewestRow newest{};
          if (own.has_newest()) newest = newest_row<kKv, kDim>(shape, own.slice, own.kv_head);
          prepare_row<kKv, kDim>(shape, pass, row, own.kv_head, q, newest);
        },
        sums);
  }
  return true;
}

/// The results of a row that has one split alone: what combine_splits() would make of it.
template <KvType kKv, int kDim, int kRing>
__device__ __forceinline__ void finish_only_split(const DecodeShared<kKv, kDim, kRing>& shared,
                                                  const AttentionShape& shape, const SplitOfRow& own,
                                                  const AttentionPass<Bf16>& pass,
                                                  const SplitSums<kDim>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = shape.heads / shape.kv_heads;
  sums.each_pair([&](int half, int element, float2 two) {
    const int of_group = lane / 4 + half * 8;
    if (of_group >= group) return;
    const int row = own.slice.first_row;
    const int head = own.kv_head * group + of_group;
    const float share = tiles::inverse(weight_of(shared, of_group));
    float first = fmaf(1.0F, two.x, 0.0F) * share;  // the sum of one, which has no negative zero
    float second = fmaf(1.0F, two.y, 0.0F) * share;
    if (shape.output_gate) {
      first *= gate_of<kDim>(shape, pass, row, head, element);
      second *= gate_of<kDim>(shape, pass, row, head, element + 1);
    }
    *reinterpret_cast<std::uint32_t*>(pass.out + (static_cast<std::size_t>(row) * shape.heads + head) * kDim +
                                      element) = narrow(first, second);
  });
}

/// Results go to `partial`, or where no row has more than one split, to the output.
template <KvType kKv, int kDim, bool kPrepared, int kRing>
__global__ void __launch_bounds__(kThreads, 2)
    attend_splits(AttentionShape shape, Batch batch, AttentionPass<Bf16> pass, int first_slice,
                  Partial partial, float scale) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<DecodeShared<kKv, kDim, kRing>*>(shared_bytes);
  const SplitOfRow own(shape, batch.slices[first_slice + static_cast<int>(blockIdx.z)],
                       static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x));
  SplitSums<kDim> sums;
  if (!attend_own<kPrepared>(shared, shape, own, pass, scale, sums)) return;
  if (partial.splits == 1) return finish_only_split(shared, shape, own, pass, sums);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = shape.heads / shape.kv_heads;
  const auto place_of = [&](int row) {
    return (static_cast<std::size_t>(blockIdx.z) * shape.heads + own.kv_head * group + row) * partial.splits +
           blockIdx.x;
  };
  sums.each_pair([&](int half, int element, float2 two) {
    const int row = lane / 4 + half * 8;
    if (row >= group) return;
    *reinterpret_cast<float2*>(partial.out + place_of(row) * kDim + element) = two;
  });
  if (threadIdx.x >= 32 || lane % 4 != 0) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    if (row < group) partial.weights[place_of(row)] = make_float2(sums.highest[half], weight_of(shared, row));
  }
}

/// Blocks are (64 elements of the head, head, slice from first_slice on); a thread has one element.
template <int kDim>
__global__ void __launch_bounds__(kCombineThreads)
    combine_splits(AttentionShape shape, Batch batch, AttentionPass<Bf16> pass, int first_slice,
                   Partial partial, float scale) {
  __shared__ float2 shares[kCombineThreads];  // of a split's output, and its weight times that
  __shared__ float highest_of_warp[2];
  const BatchSlice& slice = batch.slices[first_slice + static_cast<int>(blockIdx.z)];
  const int thread = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int element = static_cast<int>(blockIdx.x) * kCombineThreads + thread;
  const float gate =
      gate_of<kDim>(shape, pass, slice.first_row, head, min(element, kDim - 1));  // older still
  wait_for_earlier();
  let_next_begin();
  const int splits = splits_of(shape, slice);
  const std::size_t place =
      (static_cast<std::size_t>(blockIdx.z) * shape.heads + head) * static_cast<std::size_t>(partial.splits);
  const float2* weights = partial.weights + place;
  const float* outs = partial.out + place * kDim + min(element, kDim - 1);

  float highest = tiles::kMinusInfinity;
  for (int split = thread; split < splits; split += kCombineThreads) {
    highest = fmaxf(highest, weights[split].x);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffffU, highest, step));
  }
  if (thread % 32 == 0) highest_of_warp[thread / 32] = highest;
  __syncthreads();
  highest = fmaxf(highest_of_warp[0], highest_of_warp[1]);

  float total = 0;
  float weight = 0;
  for (int begin = 0; begin < splits; begin += kCombineThreads) {
    const int some = min(kCombineThreads, splits - begin);
    __syncthreads();  // the shares before are used up
    if (thread < some) {
      const float2 own = weights[begin + thread];
      const float share = tiles::power_of_two((own.x - highest) * scale);
      shares[thread] = make_float2(share, share * own.y);
    }
    __syncthreads();
#pragma unroll 16
    for (int i = 0; i < some; ++i) {
      total = fmaf(shares[i].x, outs[static_cast<std::size_t>(begin + i) * kDim], total);
      weight += shares[i].y;
    }
  }
  if (element >= kDim) return;
  const float result = total * tiles::inverse(weight);
  pass.out[(static_cast<std::size_t>(slice.first_row) * shape.heads + head) * kDim + element] =
      narrow(shape.output_gate ? result * gate : result);
}

/// That a row may look at.
int most_splits(const AttentionShape& shape, int longest) {
  const int all = (longest + kDecodeSplit - 1) / kDecodeSplit;
  return shape.window == 0 ? all : std::min(all, (shape.window + kDecodeSplit - 2) / kDecodeSplit + 1);
}

/// Bytes of the partial results of one row.
std::size_t row_bytes(const AttentionShape& shape, int longest) {
  return static_cast<std::size_t>(shape.heads) * most_splits(shape, longest) *
         (static_cast<std::size_t>(shape.head_dim) * sizeof(float) + sizeof(float2));
}

/// kPrepared: q is in the workspace.
template <KvType kKv, int kDim, bool kPrepared, int kRing>
void launch_splits(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                   StreamHandle stream) {
  constexpr int kBytes = sizeof(DecodeShared<kKv, kDim, kRing>);
  constexpr auto kAttend = attend_splits<kKv, kDim, kPrepared, kRing>;
  static_assert(kRing > kShortRing || kBytes <= kLeastShared);
  allow_shared(kAttend, kBytes);
  check(cudaFuncSetAttribute(kAttend, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "shared memory of attention");
  const int splits = most_splits(shape, batch.longest);
  const std::size_t fitting = kPartialBytes / row_bytes(shape, batch.longest);
  const int at_once = static_cast<int>(std::clamp<std::size_t>(fitting, 1, kMostSlices));
  const float scale = score_scale(shape);
  for (int first = 0; first < batch.slice_count; first += at_once) {
    const int slices = std::min(at_once, batch.slice_count - first);
    auto* out = reinterpret_cast<float*>(pass.workspace + q_bytes(shape, batch.rows));
    auto* weights =
        reinterpret_cast<float2*>(out + static_cast<std::size_t>(slices) * shape.heads * splits * kDim);
    const Partial partial{.out = out, .weights = weights, .splits = splits};
    launch_after(
        kAttend,
        {.blocks = dim3(splits, shape.kv_heads, slices), .threads = kThreads, .shared_bytes = kBytes}, stream,
        shape, batch, pass, first, partial, scale);
    if (splits == 1) continue;
    launch_after(combine_splits<kDim>,
                 {.blocks = dim3((kDim + kCombineThreads - 1) / kCombineThreads, shape.heads, slices),
                  .threads = kCombineThreads},
                 stream, shape, batch, pass, first, partial, scale);
  }
}

template <KvType kKv, int kDim>
void launch_decode(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                   StreamHandle stream) {
  const std::int64_t blocks =
      std::int64_t{most_splits(shape, batch.longest)} * shape.kv_heads * batch.slice_count;
  const bool many = blocks > kFewBlocks;
  if (many) attention_prepare(shape, batch, pass, stream);
  constexpr int kBytes = sizeof(DecodeShared<kKv, kDim, kUsualRing>);
  if constexpr (kBytes > kLeastShared) {
    if (kBytes > most_shared()) {
      return many ? launch_splits<kKv, kDim, true, kShortRing>(shape, batch, pass, stream)
                  : launch_splits<kKv, kDim, false, kShortRing>(shape, batch, pass, stream);
    }
  }
  return many ? launch_splits<kKv, kDim, true, kUsualRing>(shape, batch, pass, stream)
              : launch_splits<kKv, kDim, false, kUsualRing>(shape, batch, pass, stream);
}

}  // namespace

std::size_t partial_bytes(const AttentionShape& shape, int rows, int longest) {
  const std::size_t of_row = row_bytes(shape, longest);
  return std::min(static_cast<std::size_t>(rows) * of_row, std::max(kPartialBytes, of_row));
}

void attention_decode(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                      StreamHandle stream) {
  if (batch.rows == 0) return;
  REPRISE_CHECK(batch.rows == batch.slice_count && batch.longest > 0,
                "a decode batch has a slice without exactly one row");
  check_pass(shape, pass);
  with_rows(shape, [&](auto kv, auto dim) {
    launch_decode<decltype(kv)::value, decltype(dim)::value>(shape, batch, pass, stream);
  });
}

}  // namespace reprise::gpu::cuda
