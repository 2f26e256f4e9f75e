// Two-pass prefill attention for few tiles.
//
// Computes: the same as attend_tiles() (prefill.cu), which would leave most SMs idle.
//
// Chosen when: bf16 rows, tiles * heads <= 96, a sequence of at least 2,048 tokens in the batch, no window.
//
// Mapping: score_pages() computes q K^T of all pages in parallel, grid (4 pages, one or two heads with the
// same KV head, tile). attend_strips() then walks the pages in ascending order, grid (strip of 32 or 64
// columns of V, head, tile): four warps turn scores into probabilities while four others multiply with V.
//
// Pipeline: V tiles pass through a cp.async ring of 4; probabilities are double-buffered. Scores are kept for
// a window of pages at a time (at most 128 MiB); between windows the online-softmax state is saved in the
// workspace.
//
// Bits: those of attend_tiles(): the same additions in the same order.

#include <algorithm>

#include "gpu/cuda/attention/pages.cuh"
#include "gpu/cuda/attention/parts.h"
#include "gpu/cuda/attention/rows.cuh"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kPagesAtOnce = 4;  // per block of score_pages()
constexpr int kMaxTilesTimesHeads = 96;
constexpr int kMinLongest = 2048;  // tokens; shorter sequences have few pages
constexpr int kRing = 4;
constexpr std::size_t kScoresOfPage = sizeof(float) * kGrid * kGrid;  // bytes, per tile and head
constexpr std::size_t kMaxScores = std::size_t{128} << 20;

// Columns of V per block. Every strip reads all scores, so strips are wide if there are enough blocks.
template <int kDim>
constexpr int kStrip = kDim < 32 ? kDim : 32;
template <int kDim>
constexpr int kWideStrip = kDim < 64 ? kStrip<kDim> : 64;
constexpr int kEnoughBlocks = 128;  // blocks that occupy nearly all of an H200's 132 SMs

/// The pages of this pair of launches, and the buffers between them.
struct Window {
  float4* scores;   // C fragments [tile, head, page of the window, warp, block of 8 keys, lane]
  float* progress;  // [tile, head, strip, float of a thread, thread]
  int first_page;
  int pages;
};

/// Saved floats per thread: kColumns / 8 C fragments, two max scores, two probability sums.
template <int kColumns>
constexpr int kProgressFloats = kColumns / 2 + 4;

struct TileOfRows {
  BatchSlice slice;
  int first;  // row in the slice
  int count;
  int last_page;  // page of the tile itself

  __device__ TileOfRows(const Batch& batch, int index) : slice(batch.slices[batch.tiles[index].slice]) {
    first = batch.tiles[index].first;
    count = min(kGrid, slice.rows - first);
    last_page = (slice.stored + first) / kGrid;
  }
  /// Returns the rows of a page that exist. The others may hold anything, even NaN.
  __device__ int present(int page) const { return page == last_page ? count : kGrid; }
};

/// Grid: kPagesAtOnce pages of the window, kTogether heads with the same keys, tile. Four warps per head.
template <KvType kKv, int kDim, int kTogether>
__global__ void __launch_bounds__(kThreads* kTogether)
    score_pages(AttentionShape shape, Batch batch, const Bf16* q, Window window) {
  using Load = PageTile<kKv, kDim, kThreads * kTogether>;
  constexpr int kStride = tiles::kRowStride<kDim>;
  extern __shared__ __align__(16) unsigned char shared[];  // q of each head, K, K as stored
  unsigned char* keys = shared + kTogether * Load::kTileBytes;
  unsigned char* landing = Load::kIsWidened ? keys + Load::kTileBytes : keys;
  pdl_wait();
  pdl_launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / 32 % kWarps;  // within its head
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int own = static_cast<int>(threadIdx.x) / kThreads;
  const int first_head = static_cast<int>(blockIdx.y) * kTogether;
  const int head = first_head + own;
  const TileOfRows tile(batch, static_cast<int>(blockIdx.z));
  const int first = static_cast<int>(blockIdx.x) * kPagesAtOnce;  // page index in the window
  if (window.first_page + first > tile.last_page) return;
  const int row = tile.slice.first_row + tile.first;
  const std::size_t row_stride = static_cast<std::size_t>(shape.heads) * kDim;
  const std::uint32_t q_tile = shared_address(shared);
  const std::uint32_t k_tile = shared_address(keys);
  const std::uint32_t q_lane =
      q_tile + own * Load::kTileBytes + ((warp * 16 + lane % 16) * kStride + lane / 16 * 8) * sizeof(Bf16);
  const std::uint32_t k_lane =
      k_tile + ((lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8) * sizeof(Bf16);
  const int kv_head = head / (shape.heads / shape.kv_heads);
  const std::size_t k_offset = shape.k_offset + static_cast<std::size_t>(kv_head) * Load::kHeadBytes;

#pragma unroll
  for (int i = 0; i < kTogether; ++i) {
    tiles::copy_rows<kDim, kGrid, kThreads * kTogether>(q_tile + i * Load::kTileBytes,
                                                        q + row * row_stride + (first_head + i) * kDim,
                                                        row_stride, tile.count);
  }
  for (int i = first; i < min(first + kPagesAtOnce, window.pages); ++i) {
    const int page = window.first_page + i;
    if (page > tile.last_page) break;
    Load::begin_copy(landing, tile.slice.pages[page] + k_offset, tile.present(page));
    end_copy_group();
    wait_for_copies<0>();
    __syncthreads();
    Load::end_copy(landing, keys, tile.present(page));
    float s[kKeyBlocks][4];
    score_page<kDim>(s, q_lane, k_lane);
    __syncthreads();  // all have read the keys
    if (page == tile.last_page) mask_later_keys(s, warp * 16 + lane / 4 - 2 * (lane % 4));
    float4* to =
        window.scores +
        (((static_cast<std::size_t>(blockIdx.z) * shape.heads + head) * window.pages + i) * kWarps + warp) *
            kKeyBlocks * 32 +
        lane;
#pragma unroll
    for (int block = 0; block < kKeyBlocks; ++block) {
      to[block * 32] = make_float4(s[block][0], s[block][1], s[block][2], s[block][3]);
    }
  }
}

/// Visits all accumulators in a fixed order.
template <int kColumns, class Each>
__device__ __forceinline__ void for_each_output(RowsInProgress<kColumns>& rows, const Each& each) {
#pragma unroll
  for (int block = 0; block < kColumns / 8; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) each(4 * block + i, rows.out[block][i]);
  }
}

/// Probabilities of a page, passed from lane to lane.
struct PageProbabilities {
  uint4 of_keys[kWarps][kGrid / 16][32];  // A fragments of 16 keys each
  float2 rescales[kWarps][32];            // rescale factors of rows g and g + 8
};
template <int kColumns>
struct StripShared {
  Bf16 values[kRing][kGrid * tiles::kRowStride<kColumns>];
  PageProbabilities probabilities[2];
  float2 sums[kWarps][32];  // final probability sums
};

__device__ __forceinline__ void sync_all_warps() {
  asm volatile("bar.sync 1, %0;" ::"n"(2 * kThreads) : "memory");
}

/// The softmax warps: turn scores into probabilities, one page ahead of the other warps.
template <int kColumns>
__device__ __forceinline__ void softmax_pages(StripShared<kColumns>& shared, const float4* scores, int pages,
                                              float (&max_and_sum)[4], float scale) {
  const int warp = static_cast<int>(threadIdx.x) / 32 - kWarps;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto load_scores = [&](int i, float(&s)[kKeyBlocks][4]) {
#pragma unroll
    for (int block = 0; block < kKeyBlocks; ++block) {
      const float4 four = scores[(static_cast<std::size_t>(i) * kWarps * kKeyBlocks + block) * 32];
      s[block][0] = four.x;
      s[block][1] = four.y;
      s[block][2] = four.z;
      s[block][3] = four.w;
    }
  };
  RowsInProgress<8> rows;
  rows.highest[0] = max_and_sum[0];
  rows.highest[1] = max_and_sum[1];
  rows.denominator[0] = max_and_sum[2];
  rows.denominator[1] = max_and_sum[3];
  float s[kKeyBlocks][4];
  load_scores(0, s);
  for (int i = 0; i < pages; ++i) {
    float next[kKeyBlocks][4];
    if (i + 1 < pages) load_scores(i + 1, next);
    float rescale[2];
    softmax_step(rows, s, scale, rescale);
    PageProbabilities& to = shared.probabilities[i % 2];
#pragma unroll
    for (int keys = 0; keys < kGrid / 16; ++keys) {
      std::uint32_t a[4];
      narrow_probabilities(a, s, keys);
      to.of_keys[warp][keys][lane] = make_uint4(a[0], a[1], a[2], a[3]);
    }
    to.rescales[warp][lane] = make_float2(rescale[0], rescale[1]);
    if (i + 1 == pages) shared.sums[warp][lane] = make_float2(rows.denominator[0], rows.denominator[1]);
    sync_all_warps();
#pragma unroll
    for (int block = 0; block < kKeyBlocks; ++block) {
#pragma unroll
      for (int k = 0; k < 4; ++k) s[block][k] = next[block][k];
    }
  }
  max_and_sum[0] = rows.highest[0];
  max_and_sum[1] = rows.highest[1];
  max_and_sum[2] = rows.denominator[0];
  max_and_sum[3] = rows.denominator[1];
}

/// Grid: strip, head, tile. The first four warps load V and multiply, the others compute probabilities.
template <KvType kKv, int kDim, int kColumns>
__global__ void __launch_bounds__(2 * kThreads)
    attend_strips(AttentionShape shape, Batch batch, AttentionPass<Bf16> pass, Window window, float scale) {
  using Load = PageTile<kKv, kDim, kThreads>;
  constexpr int kStride = tiles::kRowStride<kColumns>;
  extern __shared__ __align__(16) unsigned char strip_memory[];
  auto& shared = *reinterpret_cast<StripShared<kColumns>*>(strip_memory);
  pdl_wait();
  pdl_launch_dependents();
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const int warp = thread / 32;
  const int lane = thread % 32;
  const bool is_softmax_warp = threadIdx.x >= kThreads;
  const int strip = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const std::size_t of_tile = static_cast<std::size_t>(blockIdx.z) * shape.heads + head;
  const TileOfRows tile(batch, static_cast<int>(blockIdx.z));
  const int pages = min(window.pages, tile.last_page + 1 - window.first_page);
  if (pages <= 0) return;
  const bool is_last = window.first_page + pages > tile.last_page;
  float* progress =
      window.progress + (of_tile * (kDim / kColumns) + strip) * kProgressFloats<kColumns> * kThreads + thread;
  float* own_progress = progress + kColumns / 2 * kThreads;  // state of the softmax warps

  if (is_softmax_warp) {
    float kept[4] = {tiles::kMinusInfinity, tiles::kMinusInfinity, 0, 0};
    if (window.first_page > 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) kept[i] = own_progress[i * kThreads];
    }
    const float4* scores = window.scores + (of_tile * window.pages * kWarps + warp) * kKeyBlocks * 32 + lane;
    softmax_pages(shared, scores, pages, kept, scale);
    sync_all_warps();  // matches the last barrier of the multiplying warps
    if (is_last) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) own_progress[i * kThreads] = kept[i];
    return;
  }

  // Starts load i, the values of page i; commits a group in any case. Quantized rows are fetched one load
  // ahead.
  const int kv_head = head / (shape.heads / shape.kv_heads);
  const std::size_t v_offset = shape.v_offset + static_cast<std::size_t>(kv_head) * Load::kHeadBytes;
  [[maybe_unused]] StripLoad<kKv, kDim, kColumns, kThreads> strip_load;
  const auto begin_load = [&](int i) {
    const int page = window.first_page + i;
    if constexpr (Load::kIsWidened) {
      const auto fetch = [&](int which) {
        strip_load.fetch(tile.slice.pages[which] + v_offset, strip, tile.present(which));
      };
      if (i == 0) fetch(page);
      if (i < pages) strip_load.put(shared.values[i % kRing], tile.present(page));
      if (i + 1 < pages) fetch(page + 1);
    } else if (i < pages) {
      const auto* values =
          reinterpret_cast<const Bf16*>(tile.slice.pages[page] + v_offset) + strip * kColumns;
      tiles::copy_rows<kColumns, kGrid, kThreads>(shared_address(shared.values[i % kRing]), values, kDim,
                                                  tile.present(page));
    }
    end_copy_group();
  };
#pragma unroll
  for (int i = 0; i < kRing - 1; ++i) begin_load(i);
  RowsInProgress<kColumns> rows;
  begin_rows(rows);
  if (window.first_page > 0) {
    for_each_output(rows, [&](int i, float& value) { value = progress[i * kThreads]; });
  }
  wait_for_copies<kRing - 2>();
  sync_all_warps();  // values and probabilities of the first page are ready
  for (int i = 0; i < pages; ++i) {
    begin_load(i + kRing - 1);  // overwrites the previous page, which no warp reads any more
    const PageProbabilities& probabilities = shared.probabilities[i % 2];
    const float2 rescales = probabilities.rescales[warp][lane];
    const float rescale[2] = {rescales.x, rescales.y};
    rescale_rows(rows, rescale);
    const std::uint32_t v_lane =
        shared_address(shared.values[i % kRing]) + (lane % 16 * kStride + lane / 16 * 8) * sizeof(Bf16);
#pragma unroll
    for (int keys = 0; keys < kGrid / 16; ++keys) {
      const uint4 four = probabilities.of_keys[warp][keys][lane];
      const std::uint32_t a[4] = {four.x, four.y, four.z, four.w};
      add_values_of(rows, a, keys, v_lane);
    }
    wait_for_copies<kRing - 2>();
    sync_all_warps();  // the next page is ready, and this one has been read
  }
  if (!is_last) {
    for_each_output(rows, [&](int i, float& value) { progress[i * kThreads] = value; });
    return;
  }
  const float2 sums = shared.sums[warp][lane];
  rows.denominator[0] = sums.x;
  rows.denominator[1] = sums.y;
  const int warp_row = tile.slice.first_row + tile.first + warp * 16;
  const std::size_t out_stride = static_cast<std::size_t>(shape.heads) * kDim;
  const Bf16* gate = nullptr;
  if (shape.output_gate) {
    gate = pass.projected + static_cast<std::size_t>(warp_row) * pass.stride + (2 * head + 1) * kDim +
           strip * kColumns;
  }
  wait_for_copies<0>();
  finish_rows<kColumns>(rows, shared.values[0] + warp * 16 * kStride, tile.count - warp * 16, gate,
                        pass.stride, pass.out + warp_row * out_stride + head * kDim + strip * kColumns,
                        out_stride);
}

int pages_of(int longest) {
  return (longest + kGrid - 1) / kGrid;
}

int window_pages(const AttentionShape& shape, int tile_count, int longest) {
  const std::size_t page = static_cast<std::size_t>(tile_count) * shape.heads * kScoresOfPage;
  return std::min(pages_of(longest),
                  static_cast<int>(std::max<std::size_t>(kMaxScores / page, kPagesAtOnce)));
}

template <KvType kKv, int kDim, int kTogether>
constexpr int kScoreBytes = (1 + kTogether) * PageTile<kKv, kDim, kThreads * kTogether>::kTileBytes +
                            (PageTile<kKv, kDim, kThreads * kTogether>::kIsWidened
                                 ? PageTile<kKv, kDim, kThreads * kTogether>::kLandingBytes
                                 : 0);
template <KvType kKv, int kDim, int kTogether>
void launch_scores_of(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                      const Window& window, StreamHandle stream) {
  constexpr auto kScore = score_pages<kKv, kDim, kTogether>;
  constexpr int kBytes = kScoreBytes<kKv, kDim, kTogether>;
  static_assert(kTogether > 1 || kBytes <= kMinShared);
  allow_shared(kScore, kBytes);
  launch_after(kScore,
               {.blocks = dim3((window.pages + kPagesAtOnce - 1) / kPagesAtOnce, shape.heads / kTogether,
                               batch.tile_count),
                .threads = kThreads * kTogether,
                .shared_bytes = kBytes},
               stream, shape, batch, reinterpret_cast<const Bf16*>(pass.workspace), window);
}
/// Two heads with the same keys share a block if the group is even and shared memory suffices.
template <KvType kKv, int kDim>
void launch_scores(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                   const Window& window, StreamHandle stream) {
  if (shape.heads / shape.kv_heads % 2 == 0 && kScoreBytes<kKv, kDim, 2> <= max_shared()) {
    launch_scores_of<kKv, kDim, 2>(shape, batch, pass, window, stream);
  } else {
    launch_scores_of<kKv, kDim, 1>(shape, batch, pass, window, stream);
  }
}

template <KvType kKv, int kDim, int kColumns>
void launch_strips(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                   const Window& window, StreamHandle stream) {
  constexpr auto kAttend = attend_strips<kKv, kDim, kColumns>;
  constexpr int kBytes = sizeof(StripShared<kColumns>);
  static_assert(kBytes <= kMinShared);
  allow_shared(kAttend, kBytes);
  launch_after(kAttend,
               {.blocks = dim3(kDim / kColumns, shape.heads, batch.tile_count),
                .threads = 2 * kThreads,
                .shared_bytes = kBytes},
               stream, shape, batch, pass, window, score_scale(shape));
}

template <KvType kKv, int kDim>
void launch(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
            StreamHandle stream) {
  const int at_once = window_pages(shape, batch.tile_count, batch.longest);
  std::byte* scores = pass.workspace + q_bytes(shape, batch.rows);
  std::byte* progress =
      scores + static_cast<std::size_t>(batch.tile_count) * shape.heads * at_once * kScoresOfPage;
  for (int first = 0; first < pages_of(batch.longest); first += at_once) {
    const Window window{.scores = reinterpret_cast<float4*>(scores),
                        .progress = reinterpret_cast<float*>(progress),
                        .first_page = first,
                        .pages = at_once};
    launch_scores<kKv, kDim>(shape, batch, pass, window, stream);
    if (kDim / kWideStrip<kDim> * shape.heads * batch.tile_count >= kEnoughBlocks) {
      launch_strips<kKv, kDim, kWideStrip<kDim>>(shape, batch, pass, window, stream);
    } else {
      launch_strips<kKv, kDim, kStrip<kDim>>(shape, batch, pass, window, stream);
    }
  }
}

}  // namespace

bool can_use_two_pass(const AttentionShape& shape, int tile_count, int longest) {
  return tile_count > 0 && tile_count * shape.heads <= kMaxTilesTimesHeads && longest >= kMinLongest;
}

std::size_t two_pass_bytes(const AttentionShape& shape, int tile_count, int longest) {
  if (!can_use_two_pass(shape, tile_count, longest)) return 0;
  const auto of_heads = static_cast<std::size_t>(tile_count) * shape.heads;
  // Upper bound of kProgressFloats over all strips: head_dim floats per thread, since a strip has at least 8
  // columns.
  const std::size_t progress = of_heads * kThreads * sizeof(float) * shape.head_dim;
  return of_heads * window_pages(shape, tile_count, longest) * kScoresOfPage + progress;
}

void attend_two_pass(const AttentionShape& shape, const Batch& batch, const AttentionPass<Bf16>& pass,
                     StreamHandle stream) {
  with_rows(shape, [&](auto kv, auto dim) {
    launch<decltype(kv)::value, decltype(dim)::value>(shape, batch, pass, stream);
  });
}

}  // namespace reprise::gpu::cuda
