#pragma once
// Attention of a decoded row over one split of kDecodeSplit positions, for all query heads of a key/value head at once: they are the
// (up to 16) rows of the products. By a block. Included by CUDA sources alone, with internal linkage.
//
// A block's loads are one row of tiles, the K of its pages and then their V, through a ring of kRing tiles:
// what is in flight is what keeps the memory busy. Small GPUs have no room for a long one; the
// bits are the same. Rows in blocks pass through the ring as they are stored, and are
// widened into one tile behind it.

#include "gpu/cuda/attention_keys.cuh"
#include "gpu/cuda/attention_pages.cuh"
#include "gpu/cuda/attention_tiles.cuh"
#include "gpu/cuda/dependent_launch.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = 16;  // query heads, of which the group exists
constexpr int kPages = kDecodeSplit / kGrid;

static_assert(kGrid == 8 * kWarps, "a warp scores 8 keys of a page");

template <KvType kKv, int kDim, int kRing>
struct DecodeShared {
  using Load = PageTile<kKv, kDim, kThreads>;
  // q [16, kDim] until all keys are scored, then the weights [16, kDecodeSplit]
  alignas(16) Bf16 rows[kRows * tiles::kRowStride<(kDim > kDecodeSplit ? kDim : kDecodeSplit)>];
  alignas(16) unsigned char ring[kRing][Load::kLandingBytes];
  alignas(16) unsigned char widened[Load::kIsWidened ? Load::kTileBytes : 16];
  float highest[kWarps][kRows];
  float weight[kWarps][kRows];
  const std::byte* pages[kPages];
};

/// A split of a sequence, as a block has it.
struct SplitOfRow {
  const BatchSlice& slice;
  int kv_head;
  int split;   // of the sequence
  int before;  // positions of the split that are before the window
  int count;   // positions of the split; none: there is no such split

  /// `index` counts from the first split that the row looks at.
  __device__ SplitOfRow(const AttentionShape& shape, const BatchSlice& of, int head, int index)
      : slice(of), kv_head(head) {
    const int first = first_key(shape, slice.stored);
    split = first / kDecodeSplit + index;
    before = first - split * kDecodeSplit;
    count = min(kDecodeSplit, slice.stored + 1 - split * kDecodeSplit);
  }
  /// Whether the row's own position is in it.
  __device__ bool has_newest() const { return split == slice.stored / kDecodeSplit; }
  __device__ int pages() const { return (count + kGrid - 1) / kGrid; }
};

/// Results of a split that a thread has: C fragments, of rows g and g + 8 with lane = 4 * g + t. Warps from kWarps on have none.
template <int kDim>
struct SplitSums {
  static constexpr int kPairs = kDim / 16;                                  // of blocks of 8 elements
  static constexpr int kWarpPairs = kPairs > kWarps ? kPairs / kWarps : 1;  // of a warp
  float out[kWarpPairs][2][4] = {};                                         // not yet divided by the weight
  float highest[2];                                                         // score, of rows g and g + 8

  /// put(half, element, two of them) for all that the thread has.
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

/// The score of 16 query heads for the warp's 8 keys of a page: a C fragment. Even and odd steps are summed
/// apart, to wait half as long.
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

/// Scores of the split, of all warps, become weights in shared memory. Page i of the warp's keys is s[i].
template <KvType kKv, int kDim, int kRing>
__device__ __forceinline__ void weigh_split(DecodeShared<kKv, kDim, kRing>& shared,
                                            const float (&s)[kPages][4], float (&highest)[2], float scale) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // rows g, g + 8
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
    float weight = 0;
    Bf16* place = shared.rows + row * tiles::kRowStride<kDecodeSplit> + warp * 8 + lane % 4 * 2;
#pragma unroll
    for (int page = 0; page < kPages; ++page) {
      const float first = tiles::power_of_two((s[page][2 * half] - highest[half]) * scale);
      const float second = tiles::power_of_two((s[page][2 * half + 1] - highest[half]) * scale);
      weight += first + second;
      *reinterpret_cast<std::uint32_t*>(place + page * kGrid) = narrow(first, second);
    }
    weight = tiles::sum_of_four(weight);
    if (lane % 4 == 0) shared.weight[warp][row] = weight;
  }
  // whoever reads this waits for the first values, and for the other warps, first
}

/// The sum of a row's weights, behind attend_split().
template <KvType kKv, int kDim, int kRing>
__device__ __forceinline__ float weight_of(const DecodeShared<kKv, kDim, kRing>& shared, int row) {
  float weight = 0;
#pragma unroll
  for (int other = 0; other < kWarps; ++other) weight += shared.weight[other][row];
  return weight;
}

/// `put_q(q)` writes q [16, kDim] into shared memory when the kernel in front has ended, and may write the row's own key and
/// value, by all threads; those are loaded behind it. At its end nobody reads the ring any more.
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
  // Load i is of the keys of page i, or of the values of page i - pages; a group in any case.
  const auto begin_load = [&](int i) {
    if (i < 2 * pages) {
      const int page = i < pages ? i : i - pages;
      const std::byte* from =
          shared.pages[page] + (i < pages ? shape.k_offset : shape.v_offset) + head_offset;
      Load::begin_copy(shared.ring[i % kRing], from, present(page));
    }
    end_copy_group();
  };
  // The tile of load i, which has landed.
  const auto end_load = [&](int i, int page) {
    unsigned char* landed = shared.ring[i % kRing];
    Load::end_copy(landed, shared.widened, present(page));
    return shared_address(Load::kIsWidened ? shared.widened : landed);
  };
  // Nothing but the page of the newest token is written now: what is loaded before that one waits for nobody.
  const int settled = own.has_newest() ? pages - 1 : 2 * pages;
#pragma unroll
  for (int i = 0; i < kRing; ++i) {
    if (i < settled) begin_load(i);
  }
  wait_for_earlier();
  let_next_begin();
  put_q(shared.rows);
  if (own.has_newest()) __syncthreads();  // the new key and value are there to be loaded
#pragma unroll
  for (int i = 0; i < kRing; ++i) {
    if (i >= settled) begin_load(i);
  }

  // Addresses for ldmatrix in a tile: A, 16 rows; B of K, the warp's 8 keys; B of V, transposed, 16 keys.
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
      __syncthreads();  // all have read the tile, and after the last one q
      begin_load(page + kRing);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = page * kGrid + warp * 8 + lane % 4 * 2 + i % 2;
      if (at >= count || at < before) s[page][i] = tiles::kMinusInfinity;
    }
  }
  weigh_split(shared, s, sums.highest, scale);

  for (int page = 0; page < pages; ++page) {
    const int load = pages + page;
    wait_for_copies<kRing - 1>();
    __syncthreads();
    const std::uint32_t tile = end_load(load, page);
    if (warp < kPairs) {
      const std::uint32_t v = tile + v_lane;
#pragma unroll
      for (int i = 0; i < kGrid / 16; ++i) {  // 16 keys at a time
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
    __syncthreads();  // all have read the tile
    begin_load(load + kRing);
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
