#include "gpu/cuda/low_rank.h"

#include "gpu/cuda/error.h"
#include "gpu/cuda/row_element.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kWarps = 8;  // of a block: one output of A each
constexpr int kOutputs = 256;

// One warp for each row and output of A: a lane's elements upwards, then halves of the warp.
template <class Row>
__global__ void __launch_bounds__(32 * kWarps)
    low_rank_down(const Row* x, const float* a, int inputs, int rank, float* inner) {
  const int j = blockIdx.x * kWarps + threadIdx.x / 32;
  if (j >= rank) return;
  const size_t row = blockIdx.y;
  const Row* from = x + row * inputs;
  const float* weight = a + (size_t)j * inputs;
  float sum = 0;
  for (int k = threadIdx.x % 32; k < inputs; k += 32) sum = fmaf(load_row(from[k]), weight[k], sum);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
  if (threadIdx.x % 32 == 0) inner[row * rank + j] = sum;
}

template <class Row>
__global__ void __launch_bounds__(kOutputs)
    low_rank_up(const float* inner, const float* b, int outputs, int rank, float scale, Row* y, int stride) {
  const int n = blockIdx.x * kOutputs + threadIdx.x;
  if (n >= outputs) return;
  const size_t row = blockIdx.y;
  float sum = 0;
  for (int j = 0; j < rank; ++j) sum = fmaf(inner[row * rank + j], b[(size_t)j * outputs + n], sum);
  Row& to = y[row * stride + n];
  store_row(to, fmaf(scale, sum, load_row(to)));
}

}  // namespace

template <class Row>
void add_low_rank(const LowRank& change, const LowRankRows<Row>& rows, StreamHandle stream) {
  if (rows.rows == 0) return;
  const auto count = static_cast<unsigned>(rows.rows);
  const dim3 down(static_cast<unsigned>((change.rank + kWarps - 1) / kWarps), count);
  low_rank_down<<<down, 32 * kWarps, 0, stream>>>(rows.x, change.a, change.inputs, change.rank, rows.inner);
  const dim3 up(static_cast<unsigned>((change.outputs + kOutputs - 1) / kOutputs), count);
  if (rows.y_is_bf16) {
    low_rank_up<<<up, kOutputs, 0, stream>>>(rows.inner, change.b, change.outputs, change.rank, change.scale,
                                             static_cast<Bf16*>(rows.y), rows.stride);
  } else {
    low_rank_up<<<up, kOutputs, 0, stream>>>(rows.inner, change.b, change.outputs, change.rank, change.scale,
                                             static_cast<float*>(rows.y), rows.stride);
  }
  check_launch("low_rank");
}
template void add_low_rank(const LowRank&, const LowRankRows<Bf16>&, StreamHandle);
template void add_low_rank(const LowRank&, const LowRankRows<float>&, StreamHandle);

}  // namespace reprise::gpu::cuda
