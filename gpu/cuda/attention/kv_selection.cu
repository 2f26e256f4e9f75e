// KV compression (kv_selection.h).
//
// Scoring. Mapping: a block has one page, one query head and kQueriesAtOnce queries, a thread kOwnEntries
// entries for kOwnQueries queries. Scores are computed twice instead of being stored: reduce_pages() and
// merge_pages() find each query's maximum and sum, add_probabilities() adds the probabilities to the sums of a head,
// and pool_sums() pools them.
//
// Bits: all sums are in a fixed order of KV indices and queries.

#include "gpu/cuda/attention/kv_selection.h"

#include <cmath>

#include "base/check.h"
#include "gpu/cuda/attention/kv_rows.cuh"
#include "gpu/cuda/attention/parts.h"
#include "gpu/cuda/attention/tiles.cuh"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

using SoftmaxState = CompactionSpace::SoftmaxState;

constexpr int kScoreThreads = 256;
constexpr int kSpan = 32;  // head elements per step
constexpr int kOwnEntries = 4;
constexpr int kOwnQueries = 2;
constexpr int kEntryThreads = kGrid / kOwnEntries;
constexpr int kChunk = 8;  // elements loaded at once
constexpr int kEntryStride = kGrid + 4;
constexpr int kQueryStride = kQueriesAtOnce + 2;

static_assert(kScoreThreads == kEntryThreads * (kQueriesAtOnce / kOwnQueries),
              "the block must have one thread per kOwnEntries x kOwnQueries scores");
static_assert(kScoreThreads * kChunk == kGrid * kSpan, "every thread must load one chunk of a key");

/// Keys and queries of a page, one step of head elements, transposed so that a thread's entries are
/// contiguous.
struct ScoreShared {
  alignas(16) float keys[kSpan][kEntryStride];
  alignas(16) float queries[kSpan][kQueryStride];
};

struct Square {
  int page;
  int head;
  int first_query;  // position
  int queries;      // existing queries
};
/// Grid: pages, heads.
__device__ __forceinline__ Square square_of_block(int first_query, int queries) {
  return {.page = static_cast<int>(blockIdx.x),
          .head = static_cast<int>(blockIdx.y),
          .first_query = first_query,
          .queries = queries};
}

/// Computes the thread's scores, scaled for exp2; -infinity for masked or missing entries.
template <KvType kKv, int kDim>
__device__ __forceinline__ void score_square(const PromptOfLayer& prompt, const Square& at, float scale,
                                             ScoreShared& shared, float (&s)[kOwnQueries][kOwnEntries]) {
  using Key = KvRow<kKv, kDim>;
  using Query = KvRow<KvType::kBF16, kDim>;
  const AttentionShape& shape = prompt.shape;
  const int thread = static_cast<int>(threadIdx.x);
  const int kv_head = at.head / (shape.heads / shape.kv_heads);
  const std::byte* keys =
      prompt.pages[at.page] + shape.k_offset + static_cast<std::size_t>(kv_head) * kGrid * Key::kBytes;
  const int present = min(kGrid, prompt.tokens - at.page * kGrid);
  const int loaded = thread / (kSpan / kChunk);  // row that this thread loads
  const int chunk = thread % (kSpan / kChunk) * kChunk;
  const int first_entry = thread % kEntryThreads * kOwnEntries;
  const int first_query = thread / kEntryThreads * kOwnQueries;
#pragma unroll
  for (auto& row : s) {
#pragma unroll
    for (float& value : row) value = 0;
  }
  for (int begin = 0; begin < kDim; begin += kSpan) {
    __syncthreads();  // the previous step has been read
    float x[kChunk] = {};
    if (loaded < present && begin + chunk < kDim) {
      const int index = (begin + chunk) / kChunk;
      Key::widened(Key::fetch(keys + loaded * Key::kBytes, index), index, x);
    }
#pragma unroll
    for (int i = 0; i < kChunk; ++i) shared.keys[chunk + i][loaded] = x[i];
    if (loaded < kQueriesAtOnce) {
      float y[kChunk] = {};
      if (loaded < at.queries && begin + chunk < kDim) {
        const int entry = (at.first_query + loaded) % prompt.ring.window;
        const std::byte* row = prompt.ring.rows + static_cast<std::size_t>(entry) * prompt.ring.row_bytes +
                               prompt.queries + at.head * Query::kBytes;
        const int index = (begin + chunk) / kChunk;
        Query::widened(Query::fetch(row, index), index, y);
      }
#pragma unroll
      for (int i = 0; i < kChunk; ++i) shared.queries[chunk + i][loaded] = y[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSpan; ++i) {
      const float4 k = *reinterpret_cast<const float4*>(&shared.keys[i][first_entry]);
      const float2 q = *reinterpret_cast<const float2*>(&shared.queries[i][first_query]);
      s[0][0] = fmaf(q.x, k.x, s[0][0]);
      s[0][1] = fmaf(q.x, k.y, s[0][1]);
      s[0][2] = fmaf(q.x, k.z, s[0][2]);
      s[0][3] = fmaf(q.x, k.w, s[0][3]);
      s[1][0] = fmaf(q.y, k.x, s[1][0]);
      s[1][1] = fmaf(q.y, k.y, s[1][1]);
      s[1][2] = fmaf(q.y, k.z, s[1][2]);
      s[1][3] = fmaf(q.y, k.w, s[1][3]);
    }
  }
#pragma unroll
  for (int i = 0; i < kOwnQueries; ++i) {
    const int query = first_query + i;
#pragma unroll
    for (int j = 0; j < kOwnEntries; ++j) {
      const bool sees = query < at.queries && at.page * kGrid + first_entry + j <= at.first_query + query;
      s[i][j] = sees ? s[i][j] * scale : tiles::kMinusInfinity;
    }
  }
}

/// Exponent relative to the maximum; -infinity if nothing is visible.
__device__ __forceinline__ float below(float score, float highest) {
  return highest == tiles::kMinusInfinity ? tiles::kMinusInfinity : score - highest;
}

/// Max score and probability sum of each query over a page. Grid: pages, heads.
template <KvType kKv, int kDim>
__global__ void __launch_bounds__(kScoreThreads)
    reduce_pages(PromptOfLayer prompt, int first_query, int queries, float scale, SoftmaxState* of_pages) {
  __shared__ ScoreShared shared;
  const Square at = square_of_block(first_query, queries);
  float s[kOwnQueries][kOwnEntries];
  score_square<kKv, kDim>(prompt, at, scale, shared, s);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kOwnQueries; ++i) {
    float highest = fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3]));
#pragma unroll
    for (int step = kEntryThreads / 2; step > 0; step /= 2) {
      highest = fmaxf(highest, __shfl_xor_sync(0xffffffffU, highest, step));
    }
    float denominator = 0;
#pragma unroll
    for (int j = 0; j < kOwnEntries; ++j) denominator += tiles::power_of_two(below(s[i][j], highest));
#pragma unroll
    for (int step = kEntryThreads / 2; step > 0; step /= 2) {
      denominator += __shfl_xor_sync(0xffffffffU, denominator, step);
    }
    if (thread % kEntryThreads != 0) continue;
    const int query = thread / kEntryThreads * kOwnQueries + i;
    of_pages[(static_cast<std::size_t>(at.head) * kQueriesAtOnce + query) * gridDim.x + blockIdx.x] = {
        .highest = highest, .denominator = denominator};
  }
}

/// Merges the pages. Grid: queries, heads; one warp.
__global__ void __launch_bounds__(32)
    merge_pages(const SoftmaxState* of_pages, int pages, SoftmaxState* of_prompt) {
  const int lane = static_cast<int>(threadIdx.x);
  const std::size_t row = static_cast<std::size_t>(blockIdx.y) * kQueriesAtOnce + blockIdx.x;
  const SoftmaxState* own = of_pages + row * static_cast<std::size_t>(pages);
  float highest = tiles::kMinusInfinity;
  for (int page = lane; page < pages; page += 32) highest = fmaxf(highest, own[page].highest);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffffU, highest, step));
  }
  float denominator = 0;
  for (int page = lane; page < pages; page += 32) {
    denominator += own[page].denominator * tiles::power_of_two(below(own[page].highest, highest));
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) denominator += __shfl_xor_sync(0xffffffffU, denominator, step);
  if (lane == 0) of_prompt[row] = {.highest = highest, .denominator = denominator};
}

/// Adds the probabilities to the sums of a head, queries in ascending order. Grid: pages before the window,
/// heads.
template <KvType kKv, int kDim>
__global__ void __launch_bounds__(kScoreThreads)
    add_probabilities(PromptOfLayer prompt, int first_query, int queries, float scale,
                      const SoftmaxState* of_prompt, float* sums) {
  __shared__ ScoreShared shared;
  __shared__ float probabilities[kQueriesAtOnce][kGrid];
  const Square at = square_of_block(first_query, queries);
  float s[kOwnQueries][kOwnEntries];
  score_square<kKv, kDim>(prompt, at, scale, shared, s);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kOwnQueries; ++i) {
    const int query = thread / kEntryThreads * kOwnQueries + i;
    const SoftmaxState state = of_prompt[static_cast<std::size_t>(at.head) * kQueriesAtOnce + query];
#pragma unroll
    for (int j = 0; j < kOwnEntries; ++j) {
      probabilities[query][thread % kEntryThreads * kOwnEntries + j] =
          tiles::power_of_two(below(s[i][j], state.highest)) / state.denominator;
    }
  }
  __syncthreads();
  const int entry = at.page * kGrid + thread;
  if (thread >= kGrid || entry >= prompt.scored) return;
  float* sum = sums + static_cast<std::size_t>(at.head) * prompt.scored + entry;
  float total = first_query == prompt.scored ? 0 : *sum;
  for (int query = 0; query < queries; ++query) total += probabilities[query][thread];
  *sum = total;
}

/// Grid: blocks of entries, KV heads.
__global__ void __launch_bounds__(kScoreThreads)
    pool_sums(PromptOfLayer prompt, const float* sums, float* scores) {
  const int entry = static_cast<int>(blockIdx.x) * kScoreThreads + static_cast<int>(threadIdx.x);
  const int scored = prompt.scored;
  if (entry >= scored) return;
  const int group = prompt.shape.heads / prompt.shape.kv_heads;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int half = static_cast<int>(prompt.budget.pool_width) / 2;
  const int begin = max(entry - half, 0);
  const int end = min(entry + half + 1, scored);
  const bool takes_most = prompt.budget.pooling == KvBudget::Pooling::kMax;
  float score = 0;
  for (int i = 0; i < group; ++i) {
    const float* own = sums + static_cast<std::size_t>(kv_head * group + i) * scored;
    float pooled = own[begin];
    for (int k = begin + 1; k < end; ++k) {
      pooled = takes_most ? (pooled < own[k] ? own[k] : pooled) : pooled + own[k];
    }
    if (!takes_most) pooled /= static_cast<float>(prompt.budget.pool_width);
    score += pooled;
  }
  scores[static_cast<std::size_t>(kv_head) * scored + entry] = score;
}

template <KvType kKv, int kDim>
void sum_probabilities(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream) {
  const auto heads = static_cast<unsigned>(prompt.shape.heads);
  const auto pages = static_cast<unsigned>((prompt.tokens + kGrid - 1) / kGrid);
  const auto scored_pages = static_cast<unsigned>((prompt.scored + kGrid - 1) / kGrid);
  const float scale = score_scale(prompt.shape);
  for (int first = prompt.scored; first < prompt.tokens; first += kQueriesAtOnce) {
    const int queries = prompt.tokens - first < kQueriesAtOnce ? prompt.tokens - first : kQueriesAtOnce;
    reduce_pages<kKv, kDim>
        <<<dim3(pages, heads), kScoreThreads, 0, stream>>>(prompt, first, queries, scale, space.of_pages);
    check_launch("the scores of a prompt's pages");
    merge_pages<<<dim3(static_cast<unsigned>(queries), heads), 32, 0, stream>>>(
        space.of_pages, static_cast<int>(pages), space.of_prompt);
    check_launch("the scores of a prompt");
    add_probabilities<kKv, kDim><<<dim3(scored_pages, heads), kScoreThreads, 0, stream>>>(
        prompt, first, queries, scale, space.of_prompt, space.sums);
    check_launch("the probabilities of a prompt's KV entries");
  }
}

}  // namespace

void score_entries(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream) {
  const AttentionShape& shape = prompt.shape;
  REPRISE_CHECK(attention_supports(shape) && shape.window == 0 && prompt.scored > 0 &&
                    prompt.ring.window == static_cast<int>(prompt.budget.window) &&
                    prompt.ring.row_bytes % 16 == 0 && prompt.queries % 16 == 0,
                "KV scoring was called for a shape, window or size without a kernel");
  with_rows(shape, [&](auto kv, auto dim) {
    sum_probabilities<decltype(kv)::value, decltype(dim)::value>(prompt, space, stream);
  });
  const auto blocks = static_cast<unsigned>((prompt.scored + kScoreThreads - 1) / kScoreThreads);
  pool_sums<<<dim3(blocks, static_cast<unsigned>(shape.kv_heads)), kScoreThreads, 0, stream>>>(
      prompt, space.sums, space.scores);
  check_launch("the scores of a prompt's KV entries");
}

namespace {

// -- saving queries, selection, gathering

constexpr int kRememberThreads = 128;
constexpr int kChooseThreads = 512;
constexpr int kChooseWarps = kChooseThreads / 32;
constexpr int kDigits = 256;  // eight bits of a score per pass
constexpr int kGatherWarps = 8;

/// Grid: rows.
template <class Row>
__global__ void __launch_bounds__(kRememberThreads)
    copy_queries(AttentionShape shape, Batch batch, const Row* q, const QueryRing* rings,
                 std::size_t offset) {
  const int row = static_cast<int>(blockIdx.x);
  const int index = batch.row_slice[row];
  if (index == kNoSlice) return;
  const QueryRing ring = rings[index];
  const BatchSlice& slice = batch.slices[index];
  if (ring.rows == nullptr || row - slice.first_row < slice.rows - ring.window) return;
  const int size = shape.heads * shape.head_dim;
  const Row* from = q + static_cast<std::size_t>(row) * size;
  auto* to = reinterpret_cast<Bf16*>(
      ring.rows + static_cast<std::size_t>(batch.positions[row] % ring.window) * ring.row_bytes + offset);
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kRememberThreads) {
    store_row(to[i], load_row(from[i]));
  }
}

/// Maps a score to an unsigned key in the same order; NaN ranks lowest.
__device__ __forceinline__ std::uint32_t order_of(float score) {
  constexpr std::uint32_t kSign = 0x80000000U;
  const bool is_number = score == score;
  const std::uint32_t bits = score == 0 ? 0 : __float_as_uint(is_number ? score : -__builtin_huge_valf());
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// Exclusive prefix sum over the block; `all` becomes the total. All threads must call it.
__device__ __forceinline__ std::uint32_t counted_before(std::uint32_t count,
                                                        std::uint32_t (&warps)[kChooseWarps],
                                                        std::uint32_t& all) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t upto = count;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const std::uint32_t other = __shfl_up_sync(0xffffffffU, upto, step);
    if (lane >= step) upto += other;
  }
  __syncthreads();  // the previous values have been read
  if (lane == 31) warps[warp] = upto;
  __syncthreads();
  std::uint32_t before = upto - count;
  all = 0;
  for (int i = 0; i < kChooseWarps; ++i) {
    if (i < warp) before += warps[i];
    all += warps[i];
  }
  return before;
}

/// Radix select: finds the lowest selected score digit by digit from the highest, then writes, in ascending
/// order, the entries above it and as many equal ones as are left. Grid: KV heads.
__global__ void __launch_bounds__(kChooseThreads)
    choose(PromptOfLayer prompt, const float* scores, std::uint32_t* kept) {
  __shared__ std::uint32_t counts[kDigits];
  __shared__ std::uint32_t warps[kChooseWarps];
  __shared__ std::uint32_t found_digit;
  __shared__ std::uint32_t found_left;
  const int thread = static_cast<int>(threadIdx.x);
  const int scored = prompt.scored;
  const auto budget = static_cast<int>(prompt.budget.tokens);
  const auto sinks = static_cast<int>(prompt.budget.sinks);
  const int wanted = budget - static_cast<int>(prompt.budget.window + prompt.budget.sinks);
  const float* own = scores + static_cast<std::size_t>(blockIdx.x) * scored;
  std::uint32_t* to = kept + static_cast<std::size_t>(blockIdx.x) * budget;
  for (int i = thread; i < sinks; i += kChooseThreads) to[i] = static_cast<std::uint32_t>(i);
  for (int i = thread; i < budget - sinks - wanted; i += kChooseThreads) {
    to[sinks + wanted + i] = static_cast<std::uint32_t>(scored + i);
  }
  if (wanted == 0) return;

  std::uint32_t last = 0;  // known digits of the lowest selected score
  std::uint32_t known = 0;
  auto left = static_cast<std::uint32_t>(wanted);  // entries with these digits still to be selected
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = thread; i < kDigits; i += kChooseThreads) counts[i] = 0;
    __syncthreads();
    for (int entry = sinks + thread; entry < scored; entry += kChooseThreads) {
      const std::uint32_t order = order_of(own[entry]);
      if ((order & known) == last) atomicAdd(&counts[order >> shift & (kDigits - 1)], 1U);
    }
    __syncthreads();
    if (thread == 0) {
      std::uint32_t above = 0;
      int digit = kDigits - 1;
      while (above + counts[digit] < left) above += counts[digit--];
      found_digit = static_cast<std::uint32_t>(digit);
      found_left = left - above;
    }
    __syncthreads();
    last |= found_digit << shift;
    left = found_left;
    known |= static_cast<std::uint32_t>(kDigits - 1) << shift;
  }

  constexpr int kEqual = 16;  // bits of the count of higher entries; equal ones are counted above them
  std::uint32_t above_before = 0;
  std::uint32_t equal_before = 0;
  for (int first = sinks; first < scored; first += kChooseThreads) {
    const int entry = first + thread;
    const std::uint32_t order = entry < scored ? order_of(own[entry]) : 0;
    const bool is_above = entry < scored && order > last;
    const bool is_equal = entry < scored && order == last;
    std::uint32_t all = 0;
    const std::uint32_t before =
        counted_before((is_above ? 1U : 0U) | (is_equal ? 1U << kEqual : 0U), warps, all);
    const std::uint32_t above = above_before + (before & ((1U << kEqual) - 1));
    const std::uint32_t equal = equal_before + (before >> kEqual);
    if (is_above || (is_equal && equal < left)) {
      to[sinks + above + (equal < left ? equal : left)] = static_cast<std::uint32_t>(entry);
    }
    above_before += all & ((1U << kEqual) - 1);
    equal_before += all >> kEqual;
  }
}

/// Grid: blocks of selected entries, KV heads; one entry per warp. Rows are copied in units of Unit.
template <class Unit>
__global__ void __launch_bounds__(32 * kGatherWarps)
    gather(PromptOfLayer prompt, std::size_t row_bytes, const std::uint32_t* kept) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int entry = static_cast<int>(blockIdx.x) * kGatherWarps + static_cast<int>(threadIdx.x) / 32;
  const auto budget = static_cast<int>(prompt.budget.tokens);
  if (entry >= budget) return;
  const int from = static_cast<int>(kept[static_cast<std::size_t>(blockIdx.y) * budget + entry]);
  const auto row = [&](std::byte* page, std::size_t part, int at) {
    return reinterpret_cast<Unit*>(page + part +
                                   (static_cast<std::size_t>(blockIdx.y) * kGrid + at % kGrid) * row_bytes);
  };
  const auto units = static_cast<int>(row_bytes / sizeof(Unit));
  const Unit* k = row(prompt.pages[from / kGrid], prompt.shape.k_offset, from);
  const Unit* v = row(prompt.pages[from / kGrid], prompt.shape.v_offset, from);
  Unit* k_to = row(prompt.into[entry / kGrid], prompt.shape.k_offset, entry);
  Unit* v_to = row(prompt.into[entry / kGrid], prompt.shape.v_offset, entry);
  for (int i = lane; i < units; i += 32) {
    k_to[i] = k[i];
    v_to[i] = v[i];
  }
}

constexpr std::size_t kSpaceAlignment = 256;

/// Bump allocator; with null memory it only counts.
class SpaceCutter {
 public:
  explicit SpaceCutter(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(std::size_t count) {
    const std::size_t at = used_;
    used_ += (count * sizeof(T) + kSpaceAlignment - 1) / kSpaceAlignment * kSpaceAlignment;
    return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + at);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

CompactionSpace cut(SpaceCutter& cutter, const AttentionShape& shape, std::size_t tokens,
                    const KvBudget& budget) {
  const auto heads = static_cast<std::size_t>(shape.heads);
  const auto kv_heads = static_cast<std::size_t>(shape.kv_heads);
  const std::size_t queries = heads * kQueriesAtOnce;
  const std::size_t pages = (tokens + kGrid - 1) / kGrid;
  const std::size_t scored = tokens - budget.window;
  return {.of_pages = cutter.take<CompactionSpace::SoftmaxState>(queries * pages),
          .of_prompt = cutter.take<CompactionSpace::SoftmaxState>(queries),
          .sums = cutter.take<float>(heads * scored),
          .scores = cutter.take<float>(kv_heads * scored),
          .kept = cutter.take<std::uint32_t>(kv_heads * budget.tokens)};
}

}  // namespace

std::size_t CompactionSpace::bytes(const AttentionShape& shape, std::size_t tokens, const KvBudget& budget) {
  SpaceCutter counter(nullptr);
  cut(counter, shape, tokens, budget);
  return counter.used();
}

CompactionSpace CompactionSpace::of(const AttentionShape& shape, std::size_t tokens, const KvBudget& budget,
                                    std::byte* memory) {
  SpaceCutter cutter(memory);
  return cut(cutter, shape, tokens, budget);
}

template <class Row>
void remember_queries(const AttentionShape& shape, const Batch& batch, const AttentionPass<Row>& pass,
                      const QueryRing* rings, std::size_t offset, StreamHandle stream) {
  if (batch.rows == 0) return;
  REPRISE_CHECK(offset % 16 == 0, "the offset of the saved queries is not a multiple of 16");
  copy_queries<<<static_cast<unsigned>(batch.rows), kRememberThreads, 0, stream>>>(
      shape, batch, reinterpret_cast<const Row*>(pass.workspace), rings, offset);
  check_launch("the queries of a prompt's last tokens");
}
template void remember_queries(const AttentionShape&, const Batch&, const AttentionPass<Bf16>&,
                               const QueryRing*, std::size_t, StreamHandle);
template void remember_queries(const AttentionShape&, const Batch&, const AttentionPass<float>&,
                               const QueryRing*, std::size_t, StreamHandle);

void choose_entries(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream) {
  const KvBudget& budget = prompt.budget;
  REPRISE_CHECK(
      budget.shortens(static_cast<std::uint64_t>(prompt.tokens)) && budget.tokens >= budget.fixed(),
      "KV entries were selected although the budget does not shorten the prompt, or is below its fixed part");
  choose<<<static_cast<unsigned>(prompt.shape.kv_heads), kChooseThreads, 0, stream>>>(prompt, space.scores,
                                                                                      space.kept);
  check_launch("the selection of a prompt's KV entries");
}

void gather_entries(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream) {
  const dim3 blocks((prompt.budget.tokens + kGatherWarps - 1) / kGatherWarps,
                    static_cast<unsigned>(prompt.shape.kv_heads));
  const std::size_t row_bytes =
      kv_row_bytes(prompt.shape.kv, static_cast<std::size_t>(prompt.shape.head_dim));
  if (row_bytes % sizeof(uint4) == 0) {
    gather<uint4><<<blocks, 32 * kGatherWarps, 0, stream>>>(prompt, row_bytes, space.kept);
  } else {
    REPRISE_CHECK(row_bytes % sizeof(std::uint16_t) == 0, "a row of keys has an odd number of bytes");
    gather<std::uint16_t><<<blocks, 32 * kGatherWarps, 0, stream>>>(prompt, row_bytes, space.kept);
  }
  check_launch("the gathering of a prompt's KV entries");
}

}  // namespace reprise::gpu::cuda
