// Split-KV attention (flash decoding) for decode.
//
// Computes: attention of one row per sequence over all positions up to its own or those in its window; bf16
// MMA, f32 softmax. Includes norm and RoPE of q, and the append of the new key and value.
//
// Chosen when: bf16 rows and one row per slice. Above 528 blocks attention_prepare() does norm, RoPE and
// append once for all blocks; below, each block prepares its own q, and the block with the row's own position
// appends. The bits are the same.
//
// Mapping: grid (split of 256 positions, KV head, slice). The up to 16 query heads of the KV head are the
// rows of the MMA. Each of 8 warps has 8 keys of every page for the scores, and 16 or more columns for the
// values. With more than one split, combine_splits() merges them.
//
// Pipeline: K pages, then V pages pass through a cp.async ring of 3 tiles (2 if shared memory is small).
// Pages that this step does not write are requested before the PDL wait. Quantized tiles are dequantized into
// one extra tile.
//
// Bits: splits are anchored at position 0 and merged in ascending order.

#include <algorithm>

#include "gpu/cuda/attention/heads.cuh"
#include "gpu/cuda/attention/kv_rows.cuh"
#include "gpu/cuda/attention/pages.cuh"
#include "gpu/cuda/attention/parts.h"
#include "gpu/cuda/attention/tiles.cuh"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"

namespace reprise::gpu::cuda {
namespace {

// -- the row and its gate

template <int kDim, int kRows>
__device__ __forceinline__ void clear_rows(Bf16* q, int group) {
  constexpr int kChunks = kDim / 8;
  for (int chunk = static_cast<int>(threadIdx.x); chunk < (kRows - group) * kChunks;
       chunk += static_cast<int>(blockDim.x)) {
    const int row = group + chunk / kChunks;
    *reinterpret_cast<uint4*>(q + row * tiles::kRowStride<kDim> + chunk % kChunks * 8) =
        make_uint4(0, 0, 0, 0);
  }
}

/// Prefetches norm weights and RoPE tables, which the previous kernel does not write.
template <int kDim>
__device__ __forceinline__ void prefetch_norms(const AttentionShape& shape, const AttentionPass<Bf16>& pass,
                                               int row) {
  constexpr int kLine = 32;
  const int at = static_cast<int>(threadIdx.x) * kLine;
  const auto ask = [](const float* line) { asm volatile("prefetch.global.L1 [%0];" ::"l"(line)); };
  if (at < shape.rope_pairs) {
    ask(pass.rope_cos + static_cast<std::size_t>(row) * shape.rope_pairs + at);
    ask(pass.rope_sin + static_cast<std::size_t>(row) * shape.rope_pairs + at);
  }
  if (!shape.qk_norm || at >= kDim) return;
  ask(pass.q_norm + at);
  ask(pass.k_norm + at);
}

/// Destination of the row's own key and value; null: another block writes them.
struct NewestRow {
  std::byte* key = nullptr;
  std::byte* value = nullptr;
};

/// Writes q of the group's heads to shared memory, and the new key and value to the page. One head per warp.
template <KvType kKv, int kDim>
__device__ __forceinline__ void prepare_row(const AttentionShape& shape, const AttentionPass<Bf16>& pass,
                                            int row, int kv_head, Bf16* q, const NewestRow& newest) {
  const int group = shape.heads / shape.kv_heads;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pitch = shape.output_gate ? 2 * kDim : kDim;  // elements between heads of q
  const Bf16* projected = pass.projected + static_cast<std::size_t>(row) * pass.stride;
  const Bf16* keys = projected + shape.heads * pitch + kv_head * kDim;
  const std::size_t first_angle = static_cast<std::size_t>(row) * shape.rope_pairs;
  const float* cosine = pass.rope_cos + first_angle;
  const float* sine = pass.rope_sin + first_angle;
  const int items = newest.key == nullptr ? group : group + 2;
  for (int item = static_cast<int>(threadIdx.x) / 32; item < items;
       item += static_cast<int>(blockDim.x) / 32) {
    if (item < group) {
      const EightOfHead read = read_head<kDim>(projected + (kv_head * group + item) * pitch, lane);
      const EightOfHead ready = prepare_head<kDim>(read, shape, pass.q_norm, cosine, sine, lane);
      KvRow<KvType::kBF16, kDim>::store(reinterpret_cast<std::byte*>(q + item * tiles::kRowStride<kDim>),
                                        lane, ready.x);
    } else if (item == group) {
      const EightOfHead read = read_head<kDim>(keys, lane);
      const EightOfHead ready = prepare_head<kDim>(read, shape, pass.k_norm, cosine, sine, lane);
      KvRow<kKv, kDim>::store(newest.key, lane, ready.x);
    } else {
      const EightOfHead read = read_head<kDim>(keys + shape.kv_heads * kDim, lane);
      KvRow<kKv, kDim>::store(newest.value, lane, read.x);
    }
  }
}

template <KvType kKv, int kDim>
__device__ __forceinline__ NewestRow newest_row(const AttentionShape& shape, const BatchSlice& slice,
                                                int kv_head) {
  std::byte* page =
      key_page(shape, slice, 0, nullptr, slice.stored / kGrid) +
      static_cast<std::size_t>(kv_head * kGrid + slice.stored % kGrid) * KvRow<kKv, kDim>::kBytes;
  return {.key = page + shape.k_offset, .value = page + shape.v_offset};
}

/// Copies prepared rows of q; rows from `present` on become zero.
template <int kDim, int kRows>
__device__ __forceinline__ void put_rows(Bf16* to, const Bf16* from, int present) {
  constexpr int kChunks = kDim / 8;
  for (int chunk = static_cast<int>(threadIdx.x); chunk < kRows * kChunks;
       chunk += static_cast<int>(blockDim.x)) {
    const int row = chunk / kChunks;
    const int column = chunk % kChunks * 8;
    *reinterpret_cast<uint4*>(to + row * tiles::kRowStride<kDim> + column) =
        row < present ? *reinterpret_cast<const uint4*>(from + row * kDim + column) : make_uint4(0, 0, 0, 0);
  }
}

/// Returns the output gate of an element; 1 without a gate.
template <int kDim>
__device__ __forceinline__ float gate_of(const AttentionShape& shape, const AttentionPass<Bf16>& pass,
                                         int row, int head, int element) {
  if (!shape.output_gate) return 1;
  const Bf16* gates = pass.projected + static_cast<std::size_t>(row) * pass.stride + (2 * head + 1) * kDim;
  return tiles::sigmoid(widen(gates[element]));
}

// -- a split

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = 16;  // query heads; `group` of them exist
constexpr int kPages = kDecodeSplit / kGrid;

static_assert(kGrid == 8 * kWarps, "a warp must score exactly 8 keys of a page");

template <KvType kKv, int kDim, int kRing>
struct DecodeShared {
  using Load = PageTile<kKv, kDim, kThreads>;
  // q [16, kDim] until all keys are scored, then the probabilities [16, kDecodeSplit]
  alignas(16) Bf16 rows[kRows * tiles::kRowStride<(kDim > kDecodeSplit ? kDim : kDecodeSplit)>];
  alignas(16) unsigned char ring[kRing][Load::kLandingBytes];
  alignas(16) unsigned char widened[Load::kIsWidened ? Load::kTileBytes : 16];
  float highest[kWarps][kRows];
  float denominator[kWarps][kRows];
  const std::byte* pages[kPages];
};

/// A block's split of a sequence.
struct SplitOfRow {
  const BatchSlice& slice;
  int kv_head;
  int split;   // index in the sequence
  int before;  // positions of the split before the window
  int count;   // positions of the split; <= 0: it does not exist

  /// `index` counts from the first split that the row attends to.
  __device__ SplitOfRow(const AttentionShape& shape, const BatchSlice& of, int head, int index)
      : slice(of), kv_head(head) {
    const int first = first_key(shape, slice.stored);
    split = first / kDecodeSplit + index;
    before = first - split * kDecodeSplit;
    count = min(kDecodeSplit, slice.stored + 1 - split * kDecodeSplit);
  }
  __device__ bool has_newest() const { return split == slice.stored / kDecodeSplit; }
  __device__ int pages() const { return (count + kGrid - 1) / kGrid; }
};

/// A thread's part of a split's output: C fragments of rows g and g + 8, lane = 4 * g + t. Surplus warps have
/// none.
template <int kDim>
struct SplitSums {
  static constexpr int kPairs = kDim / 16;                                  // pairs of blocks of 8 elements
  static constexpr int kWarpPairs = kPairs > kWarps ? kPairs / kWarps : 1;  // per warp
  float out[kWarpPairs][2][4] = {};                                         // unnormalized
  float highest[2];                                                         // max score of rows g and g + 8

  template <class Put>
  __device__ void each_pair(const Put& put) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (warp >= kPairs) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int pair = 0; pair < kWarpPairs; ++pair) {
#pragma unroll
        for (int block = 0; block < 2; ++block) {
          const int element = (warp * kWarpPairs + pair) * 16 + block * 8 + lane % 4 * 2;
          put(half, element, make_float2(out[pair][block][2 * half], out[pair][block][2 * half + 1]));
        }
      }
    }
  }
};

/// Scores of 16 query heads for the warp's 8 keys of a page: a C fragment. Even and odd MMAs accumulate
/// separately, which halves the dependency chain.
template <int kDim>
__device__ __forceinline__ void score_keys(float (&s)[4], std::uint32_t q, std::uint32_t k) {
  float odd[4] = {0, 0, 0, 0};
#pragma unroll
  for (float& value : s) value = 0;
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    std::uint32_t a[4];
    std::uint32_t b[2];
    load_matrices(a, q + i * 16 * sizeof(Bf16));
    load_two_matrices(b, k + i * 16 * sizeof(Bf16));
    multiply_add(i % 2 == 0 ? s : odd, a, b[0], b[1]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) s[i] += odd[i];
}

/// Softmax over the split: writes probabilities to shared memory; readers need a barrier. s[i]: the warp's
/// scores of page i.
template <KvType kKv, int kDim, int kRing>
__device__ __forceinline__ void softmax_split(DecodeShared<kKv, kDim, kRing>& shared,
                                              const float (&s)[kPages][4], float (&highest)[2], float scale) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float own = tiles::kMinusInfinity;
#pragma unroll
    for (const auto& page : s) own = fmaxf(own, fmaxf(page[2 * half], page[2 * half + 1]));
    own = tiles::highest_of_four(own);
    if (lane % 4 == 0) shared.highest[warp][lane / 4 + half * 8] = own;
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    highest[half] = shared.highest[0][row];
#pragma unroll
    for (int other = 1; other < kWarps; ++other)
      highest[half] = fmaxf(highest[half], shared.highest[other][row]);
    float denominator = 0;
    Bf16* to = shared.rows + row * tiles::kRowStride<kDecodeSplit> + warp * 8 + lane % 4 * 2;
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
      const float first = tiles::power_of_two((s[page][2 * half] - highest[half]) * scale);
      const float second = tiles::power_of_two((s[page][2 * half + 1] - highest[half]) * scale);
      denominator += first + second;
      *reinterpret_cast<std::uint32_t*>(to + page * kGrid) = narrow(first, second);
    }
    denominator = tiles::sum_of_four(denominator);
    if (lane % 4 == 0) shared.denominator[warp][row] = denominator;
  }
}

/// Returns the sum of a row's probabilities. Requires: attend_split() has returned.
template <KvType kKv, int kDim, int kRing>
__device__ __forceinline__ float probability_sum(const DecodeShared<kKv, kDim, kRing>& shared, int row) {
  float denominator = 0;
#pragma unroll
  for (int other = 0; other < kWarps; ++other) denominator += shared.denominator[other][row];
  return denominator;
}

/// Attention over a split. All threads call put_q(q) after the PDL wait; it writes q [16, kDim] to shared
/// memory and may append the new key and value, which are loaded only afterwards. On return no thread reads
/// the ring.
template <KvType kKv, int kDim, int kRing, class PutQ>
__device__ __forceinline__ void attend_split(DecodeShared<kKv, kDim, kRing>& shared,
                                             const AttentionShape& shape, const SplitOfRow& own, float scale,
                                             const PutQ& put_q, SplitSums<kDim>& sums) {
  using Load = PageTile<kKv, kDim, kThreads>;
  constexpr int kStride = tiles::kRowStride<kDim>;
  constexpr int kPairs = SplitSums<kDim>::kPairs;
  constexpr int kWarpPairs = SplitSums<kDim>::kWarpPairs;
  const int count = own.count;
  const int before = own.before;
  const int pages = own.pages();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (static_cast<int>(threadIdx.x) < pages) {
    shared.pages[threadIdx.x] =
        key_page(shape, own.slice, 0, nullptr, own.split * kPages + static_cast<int>(threadIdx.x));
  }
  __syncthreads();

  const std::size_t head_offset = static_cast<std::size_t>(own.kv_head) * Load::kHeadBytes;
  const auto present = [&](int page) {
    return (page + 1) * kGrid <= before ? 0 : min(kGrid, count - page * kGrid);
  };
  // Starts load i: keys of page i, or values of page i - pages. Commits a group in any case.
  const auto begin_load = [&](int i) {
    if (i < 2 * pages) {
      const int page = i < pages ? i : i - pages;
      const std::byte* from =
          shared.pages[page] + (i < pages ? shape.k_offset : shape.v_offset) + head_offset;
      Load::begin_copy(shared.ring[i % kRing], from, present(page));
    }
    end_copy_group();
  };
  // Returns the bf16 tile of load i, which has arrived.
  const auto end_load = [&](int i, int page) {
    unsigned char* landed = shared.ring[i % kRing];
    Load::end_copy(landed, shared.widened, present(page));
    return shared_address(Load::kIsWidened ? shared.widened : landed);
  };
  // Loads before that of the newest token's page need not wait: no kernel writes those pages in this step.
  const int settled = own.has_newest() ? pages - 1 : 2 * pages;
#pragma unroll
  for (int i = 0; i < kRing; ++i) {
    if (i < settled) begin_load(i);
  }
  pdl_wait();
  pdl_launch_dependents();
  put_q(shared.rows);
  if (own.has_newest()) __syncthreads();  // the new key and value are visible
#pragma unroll
  for (int i = 0; i < kRing; ++i) {
    if (i >= settled) begin_load(i);
  }

  // ldmatrix addresses in a tile: A, 16 rows; B of K, the warp's 8 keys; B of V, transposed, 16 keys.
  const int k_lane = ((warp * 8 + lane % 8) * kStride + lane / 8 % 2 * 8) * static_cast<int>(sizeof(Bf16));
  const int v_lane = (lane % 16 * kStride + lane / 16 * 8) * static_cast<int>(sizeof(Bf16));
  const std::uint32_t q_lane =
      shared_address(shared.rows) + (lane % 16 * kStride + lane / 16 * 8) * sizeof(Bf16);
  const std::uint32_t p_lane = shared_address(shared.rows) +
                               (lane % 16 * tiles::kRowStride<kDecodeSplit> + lane / 16 * 8) * sizeof(Bf16);

  float s[kPages][4];
#pragma unroll
  for (int page = 0; page < kPages; ++page) {
    if (page < pages) {
      wait_for_copies<kRing - 1>();
      __syncthreads();
      score_keys<kDim>(s[page], q_lane, end_load(page, page) + k_lane);
      __syncthreads();  // all have read the tile and, after the last one, q
      begin_load(page + kRing);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = page * kGrid + warp * 8 + lane % 4 * 2 + i % 2;
      if (at >= count || at < before) s[page][i] = tiles::kMinusInfinity;
    }
  }
  softmax_split(shared, s, sums.highest, scale);

  for (int page = 0; page < pages; ++page) {
    const int load = pages + page;
    wait_for_copies<kRing - 1>();
    __syncthreads();
    const std::uint32_t tile = end_load(load, page);
    if (warp < kPairs) {
      const std::uint32_t v = tile + v_lane;
#pragma unroll
      for (int i = 0; i < kGrid / 16; ++i) {
        std::uint32_t a[4];
        load_matrices(a, p_lane + (page * kGrid + i * 16) * sizeof(Bf16));
#pragma unroll
        for (int pair = 0; pair < kWarpPairs; ++pair) {
          std::uint32_t b[4];
          load_transposed(b, v + (i * 16 * kStride + (warp * kWarpPairs + pair) * 16) * sizeof(Bf16));
          multiply_add(sums.out[pair][0], a, b[0], b[1]);
          multiply_add(sums.out[pair][1], a, b[2], b[3]);
        }
      }
    }
    __syncthreads();
    begin_load(load + kRing);
  }
}

constexpr int kCombineThreads = 64;
constexpr int kMaxSlices = 32768;  // per launch
constexpr int kFewBlocks = 528;    // blocks that prepare their own q, at most: four per SM of an H200
constexpr int kUsualRing = 3;      // tiles in flight
constexpr int kShortRing = 2;      // for GPUs with little shared memory
// A decode whose partial results need more is split into several launches.
constexpr std::size_t kPartialBytes = std::size_t{64} << 20;

/// Partial results. Row r of the launch, head h and split s (from the first one the row attends to) are at (r
/// * heads + h) * splits + s.
struct Partial {
  float* out;           // [kDim] each, unnormalized
  float2* max_and_sum;  // of scores; of probabilities
  int splits;           // max per row
};

__device__ __forceinline__ int splits_of(const AttentionShape& shape, const BatchSlice& slice) {
  return slice.stored / kDecodeSplit + 1 - first_key(shape, slice.stored) / kDecodeSplit;
}

/// Computes a block's split; returns false if it does not exist.
template <bool kPrepared, KvType kKv, int kDim, int kRing>
__device__ __forceinline__ bool attend_own(DecodeShared<kKv, kDim, kRing>& shared,
                                           const AttentionShape& shape, const SplitOfRow& own,
                                           const AttentionPass<Bf16>& pass, float scale,
                                           SplitSums<kDim>& sums) {
  if (own.count <= 0) {
    pdl_wait();
    pdl_launch_dependents();
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
    prefetch_norms<kDim>(shape, pass, row);
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

/// Writes the output of a row with a single split, bitwise as combine_splits() would.
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
    const float share = tiles::inverse(probability_sum(shared, of_group));
    float first = fmaf(1.0F, two.x, 0.0F) * share;  // combine_splits() adds to 0, which turns -0 into 0
    float second = fmaf(1.0F, two.y, 0.0F) * share;
    if (shape.output_gate) {
      first *= gate_of<kDim>(shape, pass, row, head, element);
      second *= gate_of<kDim>(shape, pass, row, head, element + 1);
    }
    *reinterpret_cast<std::uint32_t*>(pass.out + (static_cast<std::size_t>(row) * shape.heads + head) * kDim +
                                      element) = narrow(first, second);
  });
}

/// Grid: split, KV head, slice - first_slice. Writes to `partial`, or to the output if no row has several
/// splits.
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
  const auto index_of = [&](int row) {
    return (static_cast<std::size_t>(blockIdx.z) * shape.heads + own.kv_head * group + row) * partial.splits +
           blockIdx.x;
  };
  sums.each_pair([&](int half, int element, float2 two) {
    const int row = lane / 4 + half * 8;
    if (row >= group) return;
    *reinterpret_cast<float2*>(partial.out + index_of(row) * kDim + element) = two;
  });
  if (threadIdx.x >= 32 || lane % 4 != 0) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    if (row < group)
      partial.max_and_sum[index_of(row)] = make_float2(sums.highest[half], probability_sum(shared, row));
  }
}

/// Merges the splits of a head. Grid: 64 elements of the head, head, slice - first_slice; one element per
/// thread.
template <int kDim>
__global__ void __launch_bounds__(kCombineThreads)
    combine_splits(AttentionShape shape, Batch batch, AttentionPass<Bf16> pass, int first_slice,
                   Partial partial, float scale) {
  // factor of a split's output, and its probability sum times that factor
  __shared__ float2 shares[kCombineThreads];
  __shared__ float highest_of_warp[2];
  const BatchSlice& slice = batch.slices[first_slice + static_cast<int>(blockIdx.z)];
  const int thread = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int element = static_cast<int>(blockIdx.x) * kCombineThreads + thread;
  const float gate =
      // not written by the previous kernel
      gate_of<kDim>(shape, pass, slice.first_row, head, min(element, kDim - 1));
  pdl_wait();
  pdl_launch_dependents();
  const int splits = splits_of(shape, slice);
  const std::size_t first_split =
      (static_cast<std::size_t>(blockIdx.z) * shape.heads + head) * static_cast<std::size_t>(partial.splits);
  const float2* max_and_sum = partial.max_and_sum + first_split;
  const float* outs = partial.out + first_split * kDim + min(element, kDim - 1);

  float highest = tiles::kMinusInfinity;
  for (int split = thread; split < splits; split += kCombineThreads) {
    highest = fmaxf(highest, max_and_sum[split].x);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffffU, highest, step));
  }
  if (thread % 32 == 0) highest_of_warp[thread / 32] = highest;
  __syncthreads();
  highest = fmaxf(highest_of_warp[0], highest_of_warp[1]);

  float total = 0;
  float denominator = 0;
  for (int begin = 0; begin < splits; begin += kCombineThreads) {
    const int some = min(kCombineThreads, splits - begin);
    __syncthreads();  // the previous shares have been read
    if (thread < some) {
      const float2 own = max_and_sum[begin + thread];
      const float share = tiles::power_of_two((own.x - highest) * scale);
      shares[thread] = make_float2(share, share * own.y);
    }
    __syncthreads();
#pragma unroll 16
    for (int i = 0; i < some; ++i) {
      total = fmaf(shares[i].x, outs[static_cast<std::size_t>(begin + i) * kDim], total);
      denominator += shares[i].y;
    }
  }
  if (element >= kDim) return;
  const float result = total * tiles::inverse(denominator);
  pass.out[(static_cast<std::size_t>(slice.first_row) * shape.heads + head) * kDim + element] =
      narrow(shape.output_gate ? result * gate : result);
}

int max_splits(const AttentionShape& shape, int longest) {
  const int all = (longest + kDecodeSplit - 1) / kDecodeSplit;
  return shape.window == 0 ? all : std::min(all, (shape.window + kDecodeSplit - 2) / kDecodeSplit + 1);
}

std::size_t row_bytes(const AttentionShape& shape, int longest) {
  return static_cast<std::size_t>(shape.heads) * max_splits(shape, longest) *
         (static_cast<std::size_t>(shape.head_dim) * sizeof(float) + sizeof(float2));
}

template <KvType kKv, int kDim, bool kPrepared, int kRing>
void launch_splits(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                   StreamHandle stream) {
  constexpr int kBytes = sizeof(DecodeShared<kKv, kDim, kRing>);
  constexpr auto kAttend = attend_splits<kKv, kDim, kPrepared, kRing>;
  static_assert(kRing > kShortRing || kBytes <= kMinShared);
  allow_shared(kAttend, kBytes);
  check(cudaFuncSetAttribute(kAttend, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "shared memory of attention");
  const int splits = max_splits(shape, batch.longest);
  const std::size_t fitting = kPartialBytes / row_bytes(shape, batch.longest);
  const int at_once = static_cast<int>(std::clamp<std::size_t>(fitting, 1, kMaxSlices));
  const float scale = score_scale(shape);
  for (int first = 0; first < batch.slice_count; first += at_once) {
    const int slices = std::min(at_once, batch.slice_count - first);
    auto* out = reinterpret_cast<float*>(pass.workspace + q_bytes(shape, batch.rows));
    auto* max_and_sum =
        reinterpret_cast<float2*>(out + static_cast<std::size_t>(slices) * shape.heads * splits * kDim);
    const Partial partial{.out = out, .max_and_sum = max_and_sum, .splits = splits};
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
      std::int64_t{max_splits(shape, batch.longest)} * shape.kv_heads * batch.slice_count;
  const bool many = blocks > kFewBlocks;
  if (many) attention_prepare(shape, batch, pass, stream);
  constexpr int kBytes = sizeof(DecodeShared<kKv, kDim, kUsualRing>);
  if constexpr (kBytes > kMinShared) {
    if (kBytes > max_shared()) {
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
                "a decode batch has no tokens, or a slice without exactly one row");
  check_pass(shape, pass);
  with_rows(shape, [&](auto kv, auto dim) {
    launch_decode<decltype(kv)::value, decltype(dim)::value>(shape, batch, pass, stream);
  });
}

}  // namespace reprise::gpu::cuda
