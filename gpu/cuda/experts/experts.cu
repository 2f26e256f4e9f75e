// MoE routing and the weighted sum of expert outputs.
//
// Computes: route_row() (softmax or sigmoid scores, optional groups, top-k), the sort of (row, expert) pairs
// by expert, the cut into tiles, and sum_each_row().
//
// Chosen when: up to 2 rows, route_few_rows() does routing, sorting and tiling in one block; else
// route_each_row() (a warp per row), sort_each_expert() (a block per expert) and cut_tiles() (one block).
//
// Bits: a row's routing and its sum, in ascending order of experts, depend on that row only.

#include "gpu/cuda/experts/experts.h"

#include <algorithm>

#include "base/check.h"
#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kRouteWarps = 4;
constexpr int kFewRows = RoutedRows::kFewRows;
constexpr int kSortThreads = 256;

__device__ float sum_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0U, value, step);
  return value;
}
__device__ float max_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(~0U, value, step));
  return value;
}

/// Removes the experts of all but the best groups; `ranks` is in shared memory. Called by one warp.
__device__ void keep_best_groups(const RouterShape& shape, float* ranks, float* group_scores, int lane) {
  const int size = shape.routed / shape.groups;
  for (int group = lane; group < shape.groups; group += 32) {
    float first = -INFINITY;
    float second = -INFINITY;
    for (int i = 0; i < size; ++i) {
      const float rank = ranks[group * size + i];
      second = rank > first ? first : fmaxf(second, rank);
      first = fmaxf(first, rank);
    }
    group_scores[group] = first + second;
  }
  __syncwarp();
  for (int group = lane; group < shape.groups; group += 32) {
    int better = 0;
    for (int other = 0; other < shape.groups; ++other) {
      const bool before = other < group ? group_scores[other] >= group_scores[group]
                                        : group_scores[other] > group_scores[group];
      better += before ? 1 : 0;
    }
    if (better < shape.chosen_groups) continue;
    for (int i = 0; i < size; ++i) ranks[group * size + i] = -INFINITY;
  }
  __syncwarp();
}

struct RouterInput {
  const float* logits;
  int stride;
  const float* bias;
};

/// Floats of shared memory per row: scores, ranks, group scores, chosen.
__host__ __device__ int route_floats(const RouterShape& shape) {
  return 2 * shape.routed + shape.groups + kMaxChosen;
}

/// Maps floats to unsigned keys in the same order; no key is 0.
__device__ unsigned key_of(float value) {
  const unsigned bits = __float_as_uint(value + 0.0F);  // -0 equals 0
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

/// Writes the experts with the best ranks to `found`, best first, the lower index on ties. Called by a warp;
/// a lane has experts lane, lane + 32, ..., and rescans them only after its best was taken.
__device__ void find_best(const RouterShape& shape, const float* ranks, std::int32_t* found, int lane) {
  unsigned taken = 0;  // bit j: expert lane + 32 j
  unsigned best = 0;   // 0: all are taken
  int at = kMaxExperts;
  const auto find_own_best = [&] {
    best = 0;
    at = kMaxExperts;
#pragma unroll 8
    for (int j = 0; j < (shape.routed + 31) / 32; ++j) {
      const int e = lane + 32 * j;
      const unsigned key = e < shape.routed && (taken >> j & 1U) == 0 ? key_of(ranks[e]) : 0;
      at = key > best ? e : at;
      best = key > best ? key : best;
    }
  };
  find_own_best();
  for (int i = 0; i < shape.chosen; ++i) {
    const unsigned highest = __reduce_max_sync(~0U, best);
    const unsigned lowest =
        __reduce_min_sync(~0U, best == highest ? static_cast<unsigned>(at) : unsigned{kMaxExperts});
    if (lane == 0) found[i] = static_cast<std::int32_t>(lowest);
    if (static_cast<unsigned>(at) == lowest && best != 0) {
      taken |= 1U << (lowest / 32);
      find_own_best();
    }
  }
  __syncwarp();
}

/// Destination of a row's choice.
struct RoutedRow {
  std::int32_t* chosen;  // [chosen]
  float* weights;        // [chosen]
  std::int32_t* known;   // [chosen] in shared memory: a copy of `chosen`; null: not needed
};

/// Called by a warp; a lane has experts lane, lane + 32, ...
__device__ void route_row(const RouterShape& shape, const RouterInput& input, int row, float* scores,
                          const RoutedRow& to) {
  const auto [logits, stride, bias] = input;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* ranks = scores + shape.routed;
  float* group_scores = ranks + shape.routed;
  auto* found = reinterpret_cast<std::int32_t*>(group_scores + shape.groups);
  const float* own = logits + static_cast<std::size_t>(row) * stride;

  float top = -INFINITY;
#pragma unroll 8
  for (int e = lane; e < shape.routed; e += 32) {
    ranks[e] = own[e];
    top = fmaxf(top, ranks[e]);
  }
  top = max_of_warp(top);
  const bool softmax = shape.scores == RouterScores::kSoftmax;
  float sum = 0;
#pragma unroll 8
  for (int e = lane; e < shape.routed; e += 32) {
    scores[e] = softmax ? expf(ranks[e] - top) : sigmoid_of(ranks[e]);
    sum += scores[e];
  }
  sum = sum_of_warp(sum);
  // If only the softmax is applied, the logits have the order of the scores.
  const bool by_logits = softmax && bias == nullptr && shape.chosen_groups >= shape.groups;
#pragma unroll 8
  for (int e = lane; e < shape.routed; e += 32) {
    if (softmax) scores[e] = scores[e] / sum;
    const float rank = by_logits ? ranks[e] : scores[e] + (bias == nullptr ? 0.0F : bias[e]);
    ranks[e] = isnan(rank) ? -INFINITY : rank;
  }
  __syncwarp();
  if (shape.chosen_groups < shape.groups) keep_best_groups(shape, ranks, group_scores, lane);
  find_best(shape, ranks, found, lane);

  if (lane < shape.chosen) {
    const int expert = found[lane];
    int index = 0;
    for (int i = 0; i < shape.chosen; ++i) index += found[i] < expert ? 1 : 0;
    ranks[index] = scores[expert];  // the ranks are no longer needed
    to.chosen[index] = expert;
    if (to.known != nullptr) to.known[index] = expert;
  }
  __syncwarp();
  if (lane >= shape.chosen) return;
  float weight = ranks[lane];
  if (shape.normalized) {
    float total = 0;
    for (int i = 0; i < shape.chosen; ++i) total += ranks[i];
    weight /= total + shape.epsilon;
  }
  to.weights[lane] = weight * shape.scale;
}

__device__ RoutedRow row_of(const RoutedRows& tables, int row, int per_row, std::int32_t* known) {
  const std::size_t first = static_cast<std::size_t>(row) * per_row;
  return {tables.chosen + first, tables.weights + first, known};
}

/// One warp per row.
__global__ void __launch_bounds__(kRouteWarps * 32)
    route_each_row(RouterShape shape, RouterInput input, int rows, RoutedRows to) {
  extern __shared__ float memory[];
  pdl_wait();
  pdl_launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = static_cast<int>(blockIdx.x) * kRouteWarps + warp;
  if (row >= rows) return;
  route_row(shape, input, row, memory + warp * route_floats(shape), row_of(to, row, shape.chosen, nullptr));
}

/// All rows in one block: a warp routes a row, then each thread has a choice and compares it with all others.
__global__ void __launch_bounds__(kFewRows * 32)
    route_few_rows(RouterShape shape, RouterInput input, int rows, RoutedRows to) {
  extern __shared__ float memory[];
  __shared__ std::int32_t chosen[kFewRows * kMaxChosen];
  __shared__ bool is_first[kFewRows * kMaxChosen];  // first choice of its expert
  pdl_wait();
  pdl_launch_dependents();
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  if (warp < rows) {
    route_row(shape, input, warp, memory + warp * route_floats(shape),
              row_of(to, warp, shape.chosen, chosen + warp * shape.chosen));
  }
  __syncthreads();
  const int choices = rows * shape.chosen;
  static_assert(kMaxChosen <= 32, "a row may choose more experts than a warp has lanes");
  const bool has_choice = thread < choices;
  const int expert = has_choice ? chosen[thread] : 0;
  int lower = 0;    // choices of lower experts
  int earlier = 0;  // earlier choices of this expert
  int same = 0;     // choices of this expert
  for (int j = 0; has_choice && j < choices; ++j) {
    const int other = chosen[j];
    lower += other < expert ? 1 : 0;
    same += other == expert ? 1 : 0;
    earlier += other == expert && j < thread ? 1 : 0;
  }
  const bool is_zero = expert >= shape.experts;
  if (has_choice) is_first[thread] = earlier == 0 && !is_zero;
  __syncthreads();
  int tile = 0;  // chosen lower experts, one tile each
  int tiles = 0;
  for (int j = 0; j < choices; ++j) {
    tiles += is_first[j] ? 1 : 0;
    tile += is_first[j] && chosen[j] < expert ? 1 : 0;
  }
  if (has_choice) to.routed_row[thread] = is_zero ? -1 : lower + earlier;
  if (has_choice && !is_zero) {
    to.row_at[lower + earlier] = thread / shape.chosen;
    if (earlier == 0) to.tile_at[tile] = {expert, lower, lower + same, 0};
  }
  if (thread < rows) to.row_at[choices + thread] = thread;
  if (thread == 0) *to.tile_count = tiles;
}

/// Exclusive prefix sum over kSortThreads threads, which must all call it; `all` becomes the total.
__device__ int sum_before(int value, int* all) {
  __shared__ int of_warp[kSortThreads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int inclusive = value;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0U, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  if (lane == 31) of_warp[warp] = inclusive;
  __syncthreads();
  int before = inclusive - value;
  int total = 0;
  for (int i = 0; i < kSortThreads / 32; ++i) {
    if (i < warp) before += of_warp[i];
    total += of_warp[i];
  }
  __syncthreads();  // of_warp may be reused
  *all = total;
  return before;
}

/// One block per expert, the last one for all zero experts; a thread has consecutive choices.
__global__ void __launch_bounds__(kSortThreads)
    sort_each_expert(int choices, int per_row, int experts, RoutedRows to) {
  pdl_wait();
  pdl_launch_dependents();
  const int expert = static_cast<int>(blockIdx.x);
  const bool is_zero = expert == experts;
  const int share = (choices + kSortThreads - 1) / kSortThreads;
  const int begin = min(choices, static_cast<int>(threadIdx.x) * share);
  const int end = min(choices, begin + share);
  int lower = 0;
  int own = 0;
  for (int i = begin; i < end; ++i) {
    const int chosen = to.chosen[i];
    lower += chosen < expert ? 1 : 0;
    own += chosen == expert ? 1 : 0;
    if (is_zero && chosen >= experts) to.routed_row[i] = -1;
  }
  int first = 0;
  sum_before(lower, &first);
  int count = 0;
  int index = sum_before(own, &count) + first;
  if (threadIdx.x == 0) to.first[expert] = first;
  if (is_zero) return;
  for (int i = begin; i < end; ++i) {
    if (to.chosen[i] != expert) continue;
    to.routed_row[i] = index;
    to.row_at[index++] = i / per_row;
  }
}

/// One block; a thread has consecutive experts.
__global__ void __launch_bounds__(kSortThreads) cut_tiles(int experts, RoutedRows to) {
  pdl_wait();
  pdl_launch_dependents();
  const int share = (experts + kSortThreads - 1) / kSortThreads;
  const int begin = min(experts, static_cast<int>(threadIdx.x) * share);
  const int end = min(experts, begin + share);
  const auto tiles_of = [&](int expert) {
    return (to.first[expert + 1] - to.first[expert] + to.tile_rows - 1) / to.tile_rows;
  };
  int own = 0;
  for (int expert = begin; expert < end; ++expert) own += tiles_of(expert);
  int all = 0;
  int tile = sum_before(own, &all);
  for (int expert = begin; expert < end; ++expert) {
    for (int i = 0, count = tiles_of(expert); i < count; ++i, ++tile) {
      to.tile_at[tile] = {expert, to.first[expert] + i * to.tile_rows, to.first[expert + 1], 0};
    }
  }
  if (threadIdx.x == 0) *to.tile_count = all;
}

void check_bounds(const RouterShape& shape) {
  REPRISE_CHECK(shape.routed <= kMaxExperts && shape.chosen <= kMaxChosen,
                "more experts than the router's kernel takes");
}
std::size_t route_bytes(const RouterShape& shape, int warps) {
  return static_cast<std::size_t>(warps) * static_cast<std::size_t>(route_floats(shape)) * sizeof(float);
}

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace

int RoutedRows::max_tiles(int rows, const RouterShape& shape) {
  const int entries = rows * shape.chosen;
  const int of_tile = tile_rows_for(rows, shape);
  const int used = entries < shape.experts ? entries : shape.experts;
  return entries / of_tile + used;
}

std::size_t RoutedRows::bytes(int rows, const RouterShape& shape) {
  const auto choices = static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.chosen);
  // Upper bound for few rows too, which may use the smallest tiles.
  const std::size_t tiles = choices / 8 + std::min(choices, static_cast<std::size_t>(shape.experts));
  return 3 * rounded_up(choices * 4) + rounded_up((choices + static_cast<std::size_t>(rows)) * 4) +
         rounded_up((static_cast<std::size_t>(shape.experts) + 1) * 4) +
         rounded_up(tiles * sizeof(ExpertTile)) + rounded_up(4);
}

RoutedRows RoutedRows::in(std::byte* memory, int rows, const RouterShape& shape) {
  const auto choices = static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.chosen);
  const auto take = [&](std::size_t count, std::size_t each = 4) {
    std::byte* data = memory;
    memory += rounded_up(count * each);
    return data;
  };
  const auto integers = [&](std::size_t count) { return reinterpret_cast<std::int32_t*>(take(count)); };
  RoutedRows out{};
  out.rows = rows;
  out.entries = static_cast<int>(choices);
  out.tiles = max_tiles(rows, shape);
  out.tile_rows = tile_rows_for(rows, shape);
  out.chosen = integers(choices);
  out.weights = reinterpret_cast<float*>(take(choices));
  out.routed_row = integers(choices);
  out.row_at = integers(choices + static_cast<std::size_t>(rows));
  out.first = integers(static_cast<std::size_t>(shape.experts) + 1);
  out.tile_at = reinterpret_cast<ExpertTile*>(take(static_cast<std::size_t>(out.tiles), sizeof(ExpertTile)));
  out.tile_count = integers(1);
  return out;
}

void route_rows(const RouterShape& shape, const float* logits, int stride, const float* bias, int rows,
                const RoutedRows& to, StreamHandle stream) {
  check_bounds(shape);
  const LaunchShape grid{.blocks = dim3((rows + kRouteWarps - 1) / kRouteWarps),
                         .threads = kRouteWarps * 32,
                         .shared_bytes = route_bytes(shape, kRouteWarps)};
  launch_after(route_each_row, grid, stream, shape, RouterInput{logits, stride, bias}, rows, to);
}

void route_and_sort(const RouterShape& shape, const float* logits, int stride, const float* bias, int rows,
                    const RoutedRows& to, StreamHandle stream) {
  if (!to.are_few()) {
    route_rows(shape, logits, stride, bias, rows, to, stream);
    return sort_rows(shape, rows, to, stream);
  }
  check_bounds(shape);
  const LaunchShape grid{
      .blocks = dim3(1), .threads = kFewRows * 32, .shared_bytes = route_bytes(shape, kFewRows)};
  launch_after(route_few_rows, grid, stream, shape, RouterInput{logits, stride, bias}, rows, to);
}

void sort_rows(const RouterShape& shape, int rows, const RoutedRows& tables, StreamHandle stream) {
  const LaunchShape grid{.blocks = dim3(shape.experts + 1), .threads = kSortThreads};
  launch_after(sort_each_expert, grid, stream, rows * shape.chosen, shape.chosen, shape.experts, tables);
  launch_after(cut_tiles, {.blocks = dim3(1), .threads = kSortThreads}, stream, shape.experts, tables);
}

void experts_gated(const Bf16* x, const ExpertWeights& weights, const RoutedRows& tables, const GatedRows& to,
                   StreamHandle stream) {
  weights.one.format->experts->gated(x, weights, tables, to, stream);
}

void experts_product(const Bf16* x, bool x_is_routed, const ExpertWeights& weights, const RoutedRows& tables,
                     void* y, GemmOutput output, StreamHandle stream) {
  weights.one.format->experts->product(x, x_is_routed, weights, tables, y, output, stream);
}

namespace {

constexpr int kSumThreads = 256;

__device__ float weight_of(const SharedExpert& shared, std::size_t row) {
  return shared.gates == nullptr ? 1.0F : sigmoid_of(shared.gates[row * shared.stride]);
}

/// Grid: columns, rows; one column per thread.
template <class Row>
__global__ void __launch_bounds__(kSumThreads)
    sum_each_row(int per_row, RoutedRows tables, ExpertSum<Row> sum, int size) {
  __shared__ int routed_row[kMaxChosen];
  __shared__ float mixing_weights[kMaxChosen];
  pdl_wait();
  pdl_launch_dependents();
  const std::size_t row = blockIdx.y;
  const int thread = static_cast<int>(threadIdx.x);
  const int k = static_cast<int>(blockIdx.x) * kSumThreads + thread;
  if (thread < per_row) {
    routed_row[thread] = tables.routed_row[row * per_row + thread];
    mixing_weights[thread] = tables.weights[row * per_row + thread];
  }
  const float shared = weight_of(sum.shared, row);
  __syncthreads();
  if (k >= size) return;
  float total = 0;
#pragma unroll 8
  for (int i = 0; i < per_row; ++i) {
    const int index = routed_row[i];
    const float made = index < 0 ? load_row(sum.zero[row * size + k])
                                 : sum.outputs[static_cast<std::size_t>(index) * size + k];
    total = fmaf(mixing_weights[i], made, total);
  }
  if (sum.shared.made != nullptr) total = fmaf(shared, sum.shared.made[row * size + k], total);
  float* y = sum.y + row * size + k;
  *y = sum.adds ? *y + total : total;
}

__global__ void __launch_bounds__(kSumThreads) add_shared_row(SharedExpert shared, int size, float* y) {
  pdl_wait();
  pdl_launch_dependents();
  const std::size_t row = blockIdx.x;
  const float weight = weight_of(shared, row);
  for (int k = static_cast<int>(threadIdx.x); k < size; k += kSumThreads) {
    y[row * size + k] = fmaf(weight, shared.made[row * size + k], y[row * size + k]);
  }
}

}  // namespace

template <class Row>
void sum_experts(const RouterShape& shape, const RoutedRows& tables, const ExpertSum<Row>& sum, int rows,
                 int size, StreamHandle stream) {
  constexpr int kMax = 32768;  // rows per launch
  REPRISE_CHECK(rows <= kMax, "more rows than one launch takes");
  launch_after(sum_each_row<Row>,
               {.blocks = dim3((size + kSumThreads - 1) / kSumThreads, rows), .threads = kSumThreads}, stream,
               shape.chosen, tables, sum, size);
}
template void sum_experts(const RouterShape&, const RoutedRows&, const ExpertSum<Bf16>&, int, int,
                          StreamHandle);
template void sum_experts(const RouterShape&, const RoutedRows&, const ExpertSum<float>&, int, int,
                          StreamHandle);

void add_shared_expert(const SharedExpert& shared, int rows, int size, float* y, StreamHandle stream) {
  launch_after(add_shared_row, {.blocks = dim3(rows), .threads = kSumThreads}, stream, shared, size, y);
}

}  // namespace reprise::gpu::cuda
