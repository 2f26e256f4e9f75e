// What experts have made of their rows, added up.
#include "base/check.h"
#include "gpu/cuda/activations.cuh"
#include "gpu/cuda/dependent_launch.cuh"
#include "gpu/cuda/error.h"
#include "gpu/cuda/experts.h"
#include "gpu/cuda/row_element.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kSumThreads = 256;

__device__ float weight_of(const SharedExpert& shared, std::size_t row) {
  return shared.gates == nullptr ? 1.0F : sigmoid_of(shared.gates[row * shared.stride]);
}

/// Blocks are (columns, row); a thread has a column.
template <class Row>
__global__ void __launch_bounds__(kSumThreads)
    sum_each_row(int per_row, ExpertPlaces places, ExpertSum<Row> sum, int size) {
  __shared__ int place_of[kMostChosen];
  __shared__ float weight_of_place[kMostChosen];
  wait_for_earlier();
  let_next_begin();
  const std::size_t row = blockIdx.y;
  const int thread = static_cast<int>(threadIdx.x);
  const int k = static_cast<int>(blockIdx.x) * kSumThreads + thread;
  if (thread < per_row) {
    place_of[thread] = places.place_of[row * per_row + thread];
    weight_of_place[thread] = places.weights[row * per_row + thread];
  }
  const float shared = weight_of(sum.shared, row);
  __syncthreads();
  if (k >= size) return;
  float total = 0;
#pragma unroll 8
  for (int i = 0; i < per_row; ++i) {
    const int place = place_of[i];
    const float made = place < 0 ? load_row(sum.zero[row * size + k])
                                 : sum.outputs[static_cast<std::size_t>(place) * size + k];
    total = fmaf(weight_of_place[i], made, total);
  }
  if (sum.shared.made != nullptr) total = fmaf(shared, sum.shared.made[row * size + k], total);
  float* y = sum.y + row * size + k;
  *y = sum.adds ? *y + total : total;
}

__global__ void __launch_bounds__(kSumThreads) add_shared_row(SharedExpert shared, int size, float* y) {
  wait_for_earlier();
  let_next_begin();
  const std::size_t row = blockIdx.x;
  const float weight = weight_of(shared, row);
  for (int k = static_cast<int>(threadIdx.x); k < size; k += kSumThreads) {
    y[row * size + k] = fmaf(weight, shared.made[row * size + k], y[row * size + k]);
  }
}

}  // namespace

template <class Row>
void sum_experts(const RouterShape& shape, const ExpertPlaces& places, const ExpertSum<Row>& sum, int rows,
                 int size, StreamHandle stream) {
  constexpr int kMost = 32768;  // rows of a launch
  REPRISE_CHECK(rows <= kMost, "more rows than one launch takes");
  launch_after(sum_each_row<Row>,
               {.blocks = dim3((size + kSumThreads - 1) / kSumThreads, rows), .threads = kSumThreads}, stream,
               shape.chosen, places, sum, size);
}
template void sum_experts(const RouterShape&, const ExpertPlaces&, const ExpertSum<Bf16>&, int, int,
                          StreamHandle);
template void sum_experts(const RouterShape&, const ExpertPlaces&, const ExpertSum<float>&, int, int,
                          StreamHandle);

void add_shared_expert(const SharedExpert& shared, int rows, int size, float* y, StreamHandle stream) {
  launch_after(add_shared_row, {.blocks = dim3(rows), .threads = kSumThreads}, stream, shared, size, y);
}

}  // namespace reprise::gpu::cuda
