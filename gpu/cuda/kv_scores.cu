// What the last queries of a prompt look at, for each place of it.
//
// Scores are computed twice, and never kept: once for each query's highest and its sum of weights, once for the weights
// themselves. A block has one page of places, one query head and kQueriesAtOnce queries; a thread kOwnPlaces places for
// kOwnQueries queries.
#include <cmath>

#include "base/check.h"
#include "gpu/cuda/attention_parts.h"
#include "gpu/cuda/attention_tiles.cuh"
#include "gpu/cuda/error.h"
#include "gpu/cuda/kv_rows.cuh"
#include "gpu/cuda/kv_selection.h"

namespace reprise::gpu::cuda {
namespace {

using Seen = CompactionSpace::Seen;

constexpr int kScoreThreads = 256;
constexpr int kSpan = 32;  // elements of a head at a time
constexpr int kOwnPlaces = 4;
constexpr int kOwnQueries = 2;
constexpr int kPlaceThreads = kGrid / kOwnPlaces;
constexpr int kChunk = 8;  // elements that are loaded at once
constexpr int kPlaceStride = kGrid + 4;
constexpr int kQueryStride = kQueriesAtOnce + 2;

static_assert(kScoreThreads == kPlaceThreads * (kQueriesAtOnce / kOwnQueries), "a thread for each square");
static_assert(kScoreThreads * kChunk == kGrid * kSpan, "a thread loads a chunk of a key");

/// Keys and queries of a page, a span of elements at a time, element by element: so that a thread's are side by side.
struct ScoreShared {
  alignas(16) float keys[kSpan][kPlaceStride];
  alignas(16) float queries[kSpan][kQueryStride];
};

/// Which queries of which head, over which places.
struct Square {
  int page;
  int head;
  int first_query;  // position
  int queries;      // that exist
};
/// Grid: pages, heads.
__device__ __forceinline__ Square square_of_block(int first_query, int queries) {
  return {.page = static_cast<int>(blockIdx.x),
          .head = static_cast<int>(blockIdx.y),
          .first_query = first_query,
          .queries = queries};
}

/// The thread's scores, in powers of two; minus infinity where there is nothing to look at.
template <KvType kKv, int kDim>
__device__ __forceinline__ void score_square(const PromptOfLayer& prompt, const Square& at, float scale,
                                             ScoreShared& shared, float (&s)[kOwnQueries][kOwnPlaces]) {
  using Key = KvRow<kKv, kDim>;
  using Query = KvRow<KvType::kBF16, kDim>;
  const AttentionShape& shape = prompt.shape;
  const int thread = static_cast<int>(threadIdx.x);
  const int kv_head = at.head / (shape.heads / shape.kv_heads);
  const std::byte* keys =
      prompt.pages[at.page] + shape.k_offset + static_cast<std::size_t>(kv_head) * kGrid * Key::kBytes;
  const int present = min(kGrid, prompt.tokens - at.page * kGrid);
  const int loaded = thread / (kSpan / kChunk);  // the row whose chunk this thread loads
  const int chunk = thread % (kSpan / kChunk) * kChunk;
  const int first_place = thread % kPlaceThreads * kOwnPlaces;
  const int first_query = thread / kPlaceThreads * kOwnQueries;
#pragma unroll
  for (auto& row : s) {
#pragma unroll
    for (float& value : row) value = 0;
  }
  for (int begin = 0; begin < kDim; begin += kSpan) {
    __syncthreads();  // what was there has been read
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
        const int place = (at.first_query + loaded) % prompt.ring.window;
        const std::byte* row = prompt.ring.rows + static_cast<std::size_t>(place) * prompt.ring.row_bytes +
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
      const float4 k = *reinterpret_cast<const float4*>(&shared.keys[i][first_place]);
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
    for (int j = 0; j < kOwnPlaces; ++j) {
      const bool sees = query < at.queries && at.page * kGrid + first_place + j <= at.first_query + query;
      s[i][j] = sees ? s[i][j] * scale : tiles::kMinusInfinity;
    }
  }
}

/// What a weight of 1 is taken from; nothing is as high as nothing.
__device__ __forceinline__ float below(float score, float highest) {
  return highest == tiles::kMinusInfinity ? tiles::kMinusInfinity : score - highest;
}

/// Grid: pages, heads. The highest score and the sum of weights that each query has in a page.
template <KvType kKv, int kDim>
__global__ void __launch_bounds__(kScoreThreads)
    look_at_pages(PromptOfLayer prompt, int first_query, int queries, float scale, Seen* of_pages) {
  __shared__ ScoreShared shared;
  const Square at = square_of_block(first_query, queries);
  float s[kOwnQueries][kOwnPlaces];
  score_square<kKv, kDim>(prompt, at, scale, shared, s);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kOwnQueries; ++i) {
    float highest = fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3]));
#pragma unroll
    for (int step = kPlaceThreads / 2; step > 0; step /= 2) {
      highest = fmaxf(highest, __shfl_xor_sync(0xffffffffU, highest, step));
    }
    float weight = 0;
#pragma unroll
    for (int j = 0; j < kOwnPlaces; ++j) weight += tiles::power_of_two(below(s[i][j], highest));
#pragma unroll
    for (int step = kPlaceThreads / 2; step > 0; step /= 2) {
      weight += __shfl_xor_sync(0xffffffffU, weight, step);
    }
    if (thread % kPlaceThreads != 0) continue;
    const int query = thread / kPlaceThreads * kOwnQueries + i;
    of_pages[(static_cast<std::size_t>(at.head) * kQueriesAtOnce + query) * gridDim.x + blockIdx.x] = {
        .highest = highest, .weight = weight};
  }
}

/// Grid: queries, heads; one warp.
__global__ void __launch_bounds__(32) add_pages(const Seen* of_pages, int pages, Seen* of_prompt) {
  const int lane = static_cast<int>(threadIdx.x);
  const std::size_t row = static_cast<std::size_t>(blockIdx.y) * kQueriesAtOnce + blockIdx.x;
  const Seen* own = of_pages + row * static_cast<std::size_t>(pages);
  float highest = tiles::kMinusInfinity;
  for (int page = lane; page < pages; page += 32) highest = fmaxf(highest, own[page].highest);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffffU, highest, step));
  }
  float weight = 0;
  for (int page = lane; page < pages; page += 32) {
    weight += own[page].weight * tiles::power_of_two(below(own[page].highest, highest));
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) weight += __shfl_xor_sync(0xffffffffU, weight, step);
  if (lane == 0) of_prompt[row] = {.highest = highest, .weight = weight};
}

/// Grid: pages in front of the window, heads. The queries' weights are added to the sums of their head, in the order of the
/// queries.
template <KvType kKv, int kDim>
__global__ void __launch_bounds__(kScoreThreads)
    add_weights(PromptOfLayer prompt, int first_query, int queries, float scale, const Seen* of_prompt,
                float* sums) {
  __shared__ ScoreShared shared;
  __shared__ float weights[kQueriesAtOnce][kGrid];
  const Square at = square_of_block(first_query, queries);
  float s[kOwnQueries][kOwnPlaces];
  score_square<kKv, kDim>(prompt, at, scale, shared, s);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kOwnQueries; ++i) {
    const int query = thread / kPlaceThreads * kOwnQueries + i;
    const Seen seen = of_prompt[static_cast<std::size_t>(at.head) * kQueriesAtOnce + query];
#pragma unroll
    for (int j = 0; j < kOwnPlaces; ++j) {
      weights[query][thread % kPlaceThreads * kOwnPlaces + j] =
          tiles::power_of_two(below(s[i][j], seen.highest)) / seen.weight;
    }
  }
  __syncthreads();
  const int place = at.page * kGrid + thread;
  if (thread >= kGrid || place >= prompt.scored) return;
  float* sum = sums + static_cast<std::size_t>(at.head) * prompt.scored + place;
  float total = first_query == prompt.scored ? 0 : *sum;
  for (int query = 0; query < queries; ++query) total += weights[query][thread];
  *sum = total;
}

/// Grid: blocks of places, key/value heads.
__global__ void __launch_bounds__(kScoreThreads)
    pool_sums(PromptOfLayer prompt, const float* sums, float* scores) {
  const int place = static_cast<int>(blockIdx.x) * kScoreThreads + static_cast<int>(threadIdx.x);
  const int scored = prompt.scored;
  if (place >= scored) return;
  const int group = prompt.shape.heads / prompt.shape.kv_heads;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int half = static_cast<int>(prompt.budget.pool_width) / 2;
  const int begin = max(place - half, 0);
  const int end = min(place + half + 1, scored);
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
  scores[static_cast<std::size_t>(kv_head) * scored + place] = score;
}

template <KvType kKv, int kDim>
void sum_weights(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream) {
  const auto heads = static_cast<unsigned>(prompt.shape.heads);
  const auto pages = static_cast<unsigned>((prompt.tokens + kGrid - 1) / kGrid);
  const auto scored_pages = static_cast<unsigned>((prompt.scored + kGrid - 1) / kGrid);
  const float scale = score_scale(prompt.shape);
  for (int first = prompt.scored; first < prompt.tokens; first += kQueriesAtOnce) {
    const int queries = prompt.tokens - first < kQueriesAtOnce ? prompt.tokens - first : kQueriesAtOnce;
    look_at_pages<kKv, kDim>
        <<<dim3(pages, heads), kScoreThreads, 0, stream>>>(prompt, first, queries, scale, space.of_pages);
    check_launch("the scores of a prompt's pages");
    add_pages<<<dim3(static_cast<unsigned>(queries), heads), 32, 0, stream>>>(
        space.of_pages, static_cast<int>(pages), space.of_prompt);
    check_launch("the scores of a prompt");
    add_weights<kKv, kDim><<<dim3(scored_pages, heads), kScoreThreads, 0, stream>>>(
        prompt, first, queries, scale, space.of_prompt, space.sums);
    check_launch("the weights of a prompt's places");
  }
}

}  // namespace

void score_places(const PromptOfLayer& prompt, const CompactionSpace& space, StreamHandle stream) {
  const AttentionShape& shape = prompt.shape;
  REPRISE_CHECK(attention_supports(shape) && shape.window == 0 && prompt.scored > 0 &&
                    prompt.ring.window == static_cast<int>(prompt.budget.window) &&
                    prompt.ring.row_bytes % 16 == 0 && prompt.queries % 16 == 0,
                "KV scoring was called for a shape, window or size without a kernel");
  with_rows(shape, [&](auto kv, auto dim) {
    sum_weights<decltype(kv)::value, decltype(dim)::value>(prompt, space, stream);
  });
  const auto blocks = static_cast<unsigned>((prompt.scored + kScoreThreads - 1) / kScoreThreads);
  pool_sums<<<dim3(blocks, static_cast<unsigned>(shape.kv_heads)), kScoreThreads, 0, stream>>>(
      prompt, space.sums, space.scores);
  check_launch("the scores of a prompt's places");
}

}  // namespace reprise::gpu::cuda
