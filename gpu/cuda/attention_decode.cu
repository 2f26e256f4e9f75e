// Attention of decoded rows: each row stands at position `stored` of its sequence and attends to all up to
// itself, or to those of its window. One block takes one split of kDecodeSplit positions of one sequence, for all query heads of one
// key/value head at once: they are the (up to 16) rows of the products. A second kernel combines the splits.
//
// A block's loads are one row of tiles, the K of its pages and then their V, through a ring of kRing tiles:
// what is in flight is what keeps the memory busy. Rows in blocks pass through the ring as they are stored, and are
// widened into one tile behind it.
#include <algorithm>

#include "gpu/cuda/attention_keys.cuh"
#include "gpu/cuda/attention_pages.cuh"
#include "gpu/cuda/attention_parts.h"
#include "gpu/cuda/attention_tiles.cuh"
#include "gpu/cuda/dependent_launch.cuh"
#include "gpu/cuda/error.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = 16;  // query heads, of which the group exists
constexpr int kPages = kDecodeSplit / kGrid;
constexpr int kRing = 3;
constexpr int kCombineThreads = 64;
constexpr int kMostSlices = 32768;  // of one launch
// Rows are decoded in several launches where their partial results take more than this.
constexpr std::size_t kPartialBytes = std::size_t{64} << 20;

static_assert(kGrid == 8 * kWarps, "a warp scores 8 keys of a page");

template <KvType kKv, int kDim>
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

/// Results of splits: of row r of the launch, head h and split s, counted from the first that the row looks at, at
/// (r * heads + h) * splits + s.
struct Partial {
  float* out;       // [kDim] each, not yet divided by the weight
  float2* weights;  // highest score, sum of weights
  int splits;       // that a row may look at
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

/// `present` rows that follow each other, and zeros for the rest.
template <int kDim>
__device__ __forceinline__ void put_rows(Bf16* to, const Bf16* from, int present) {
  constexpr int kChunks = kDim / 8;  // of a row
#pragma unroll
  for (int chunk = static_cast<int>(threadIdx.x); chunk < kRows * kChunks; chunk += kThreads) {
    const int row = chunk / kChunks;
    const int column = chunk % kChunks * 8;
    *reinterpret_cast<uint4*>(to + row * tiles::kRowStride<kDim> + column) =
        row < present ? *reinterpret_cast<const uint4*>(from + row * kDim + column) : make_uint4(0, 0, 0, 0);
  }
}

/// Scores of the split, of all warps, become weights in shared memory. Page i of the warp's keys is s[i].
template <KvType kKv, int kDim>
__device__ __forceinline__ void weigh_split(DecodeShared<kKv, kDim>& shared, const float (&s)[kPages][4],
                                            float (&highest)[2], float scale) {
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

/// Blocks are (split, key/value head, slice from first_slice on).
template <KvType kKv, int kDim>
__global__ void __launch_bounds__(kThreads, 2) attend_splits(AttentionShape shape, Batch batch, const Bf16* q,
                                                             int first_slice, Partial partial, float scale) {
  using Load = PageTile<kKv, kDim, kThreads>;
  constexpr int kStride = tiles::kRowStride<kDim>;
  constexpr int kPairs = kDim / 16;                                  // of blocks of 8 elements
  constexpr int kWarpPairs = kPairs > kWarps ? kPairs / kWarps : 1;  // of a warp, for values
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<DecodeShared<kKv, kDim>*>(shared_bytes);
  const BatchSlice& slice = batch.slices[first_slice + static_cast<int>(blockIdx.z)];
  const int first = first_key(shape, slice.stored);
  const int split = first / kDecodeSplit + static_cast<int>(blockIdx.x);
  const int before = first - split * kDecodeSplit;  // positions of the split that are before the window
  const int count = min(kDecodeSplit, slice.stored + 1 - split * kDecodeSplit);  // positions of the split
  if (count <= 0) {
    wait_for_earlier();
    return;
  }
  const int pages = (count + kGrid - 1) / kGrid;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int group = shape.heads / shape.kv_heads;

  if (static_cast<int>(threadIdx.x) < pages) {
    shared.pages[threadIdx.x] =
        key_page(shape, slice, 0, nullptr, split * kPages + static_cast<int>(threadIdx.x));
  }
  __syncthreads();

  const std::size_t head_offset = static_cast<std::size_t>(kv_head) * Load::kHeadBytes;
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
  // The kernel in front writes into the page of the newest token alone: what is loaded before that one does not wait for it.
  const int settled = split == slice.stored / kDecodeSplit ? pages - 1 : 2 * pages;
#pragma unroll
  for (int i = 0; i < kRing; ++i) {
    if (i < settled) begin_load(i);
  }
  wait_for_earlier();
  let_next_begin();
  const Bf16* q_rows = q + (static_cast<std::size_t>(slice.first_row) * shape.heads + kv_head * group) * kDim;
  put_rows<kDim>(shared.rows, q_rows, group);
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
  float highest[2];
  weigh_split<kKv, kDim>(shared, s, highest, scale);

  float out[kWarpPairs][2][4] = {};  // C fragments
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
          multiply_add(out[pair][0], a, b[0], b[1]);
          multiply_add(out[pair][1], a, b[2], b[3]);
        }
      }
    }
    __syncthreads();  // all have read the tile
    begin_load(load + kRing);
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    if (row >= group) continue;
    const std::size_t place =
        (static_cast<std::size_t>(blockIdx.z) * shape.heads + kv_head * group + row) * partial.splits +
        blockIdx.x;
    if (warp < kPairs) {
      float* to = partial.out + place * kDim + lane % 4 * 2;
#pragma unroll
      for (int pair = 0; pair < kWarpPairs; ++pair) {
#pragma unroll
        for (int block = 0; block < 2; ++block) {
          *reinterpret_cast<float2*>(to + (warp * kWarpPairs + pair) * 16 + block * 8) =
              make_float2(out[pair][block][2 * half], out[pair][block][2 * half + 1]);
        }
      }
    }
    if (warp == 0 && lane % 4 == 0) {
      float weight = 0;
#pragma unroll
      for (int other = 0; other < kWarps; ++other) weight += shared.weight[other][row];
      partial.weights[place] = make_float2(highest[half], weight);
    }
  }
}

/// Blocks are (64 elements of the head, head, slice from first_slice on); a thread has one element.
template <int kDim>
__global__ void __launch_bounds__(kCombineThreads)
    combine_splits(AttentionShape shape, Batch batch, AttentionPass pass, int first_slice, Partial partial,
                   float scale) {
  __shared__ float2 shares[kCombineThreads];  // of a split's output, and its weight times that
  __shared__ float highest_of_warp[2];
  wait_for_earlier();
  let_next_begin();
  const BatchSlice& slice = batch.slices[first_slice + static_cast<int>(blockIdx.z)];
  const int thread = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int element = static_cast<int>(blockIdx.x) * kCombineThreads + thread;
  const int splits = slice.stored / kDecodeSplit + 1 - first_key(shape, slice.stored) / kDecodeSplit;
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
  float result = total * tiles::inverse(weight);
  const auto row = static_cast<std::size_t>(slice.first_row);
  if (shape.output_gate) {
    result *= tiles::sigmoid(widen(pass.projected[row * pass.stride + (2 * head + 1) * kDim + element]));
  }
  pass.out[(row * shape.heads + head) * kDim + element] = narrow(result);
}

/// That a row may look at.
int splits_of(const AttentionShape& shape, int longest) {
  const int all = (longest + kDecodeSplit - 1) / kDecodeSplit;
  return shape.window == 0 ? all : std::min(all, (shape.window + kDecodeSplit - 2) / kDecodeSplit + 1);
}

/// Bytes of the partial results of one row.
std::size_t row_bytes(const AttentionShape& shape, int longest) {
  return static_cast<std::size_t>(shape.heads) * splits_of(shape, longest) *
         (static_cast<std::size_t>(shape.head_dim) * sizeof(float) + sizeof(float2));
}

template <KvType kKv, int kDim>
void launch_splits(const AttentionShape& shape, const Batch& batch, const AttentionPass& pass,
                   StreamHandle stream) {
  constexpr int kBytes = sizeof(DecodeShared<kKv, kDim>);
  constexpr auto kAttend = attend_splits<kKv, kDim>;
  check(cudaFuncSetAttribute(kAttend, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "shared memory of attention");
  check(cudaFuncSetAttribute(kAttend, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "shared memory of attention");
  const int splits = splits_of(shape, batch.longest);
  const std::size_t fitting = kPartialBytes / row_bytes(shape, batch.longest);
  const int at_once = static_cast<int>(std::clamp<std::size_t>(fitting, 1, kMostSlices));
  const float scale = score_scale(shape);
  const auto* q = reinterpret_cast<const Bf16*>(pass.workspace);
  for (int first = 0; first < batch.slice_count; first += at_once) {
    const int slices = std::min(at_once, batch.slice_count - first);
    auto* out = reinterpret_cast<float*>(pass.workspace + q_bytes(shape, batch.rows));
    auto* weights =
        reinterpret_cast<float2*>(out + static_cast<std::size_t>(slices) * shape.heads * splits * kDim);
    const Partial partial{.out = out, .weights = weights, .splits = splits};
    launch_after(
        kAttend,
        {.blocks = dim3(splits, shape.kv_heads, slices), .threads = kThreads, .shared_bytes = kBytes}, stream,
        shape, batch, q, first, partial, scale);
    launch_after(combine_splits<kDim>,
                 {.blocks = dim3((kDim + kCombineThreads - 1) / kCombineThreads, shape.heads, slices),
                  .threads = kCombineThreads},
                 stream, shape, batch, pass, first, partial, scale);
  }
}

}  // namespace

std::size_t partial_bytes(const AttentionShape& shape, int rows, int longest) {
  const std::size_t of_row = row_bytes(shape, longest);
  return std::min(static_cast<std::size_t>(rows) * of_row, std::max(kPartialBytes, of_row));
}

void attention_decode(const AttentionShape& shape, const Batch& batch, const AttentionPass& pass,
                      StreamHandle stream) {
  if (batch.rows == 0) return;
  REPRISE_CHECK(batch.rows == batch.slice_count && batch.longest > 0, "a decoded slice has one row");
  attention_prepare(shape, batch, pass, stream);
  with_rows(shape, [&](auto kv, auto dim) {
    launch_splits<decltype(kv)::value, decltype(dim)::value>(shape, batch, pass, stream);
  });
}

}  // namespace reprise::gpu::cuda
