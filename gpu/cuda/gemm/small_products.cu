// Block-diagonal: a block of threads has 128 outputs of 16 rows and reads inputs through shared memory, 64 at
// a time. LoRA: x A^T with a warp per row and rank, then B with a thread per output.

#include "gpu/cuda/gemm/small_products.h"

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kRowsAtOnce = 16;    // per block; a weight is read once for them
constexpr int kInputsAtOnce = 64;  // per step, in shared memory
constexpr int kBlockThreads = 128;

/// Grid: outputs, blocks of a row, rows. A thread has one output of kRowsAtOnce rows.
template <class X, class Y>
__global__ void __launch_bounds__(kBlockThreads)
    multiply_blocks(BlockWeights weights, int rows, BlockRows<const X> x, BlockRows<Y> y) {
  __shared__ __align__(16) float inputs[kInputsAtOnce][kRowsAtOnce];
  const int output = static_cast<int>(blockIdx.x * kBlockThreads + threadIdx.x);
  const bool has_output = output < weights.outputs;
  const auto block = static_cast<std::size_t>(blockIdx.y);
  const int first_row = static_cast<int>(blockIdx.z) * kRowsAtOnce;
  const float* weight = weights.weight + block * weights.inputs * weights.outputs + (has_output ? output : 0);
  float sums[kRowsAtOnce];
  const float bias =
      weights.bias != nullptr && has_output ? weights.bias[block * weights.outputs + output] : 0.0F;
#pragma unroll
  for (float& sum : sums) sum = bias;
  for (int begin = 0; begin < weights.inputs; begin += kInputsAtOnce) {
    const int count = min(kInputsAtOnce, weights.inputs - begin);
    __syncthreads();  // the previous inputs have been read
    for (int i = static_cast<int>(threadIdx.x); i < kInputsAtOnce * kRowsAtOnce; i += kBlockThreads) {
      const int input = i % kInputsAtOnce;
      const int row = i / kInputsAtOnce;
      const bool present = input < count && first_row + row < rows;
      inputs[input][row] =
          present ? load_row(x.first[(first_row + row) * x.row + block * x.block + begin + input]) : 0.0F;
    }
    __syncthreads();
    if (!has_output) continue;
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
      const float w = __ldg(weight + static_cast<std::size_t>(begin + i) * weights.outputs);
      const auto* own = reinterpret_cast<const float4*>(inputs[i]);
#pragma unroll
      for (int four = 0; four < kRowsAtOnce / 4; ++four) {
        const float4 values = own[four];
        sums[4 * four] = fmaf(values.x, w, sums[4 * four]);
        sums[4 * four + 1] = fmaf(values.y, w, sums[4 * four + 1]);
        sums[4 * four + 2] = fmaf(values.z, w, sums[4 * four + 2]);
        sums[4 * four + 3] = fmaf(values.w, w, sums[4 * four + 3]);
      }
    }
  }
  if (!has_output) return;
#pragma unroll
  for (int row = 0; row < kRowsAtOnce; ++row) {
    if (first_row + row < rows) {
      store_row(y.first[(first_row + row) * y.row + block * y.block + output], sums[row]);
    }
  }
}

template <class X, class Y>
void launch_blocks(const BlockWeights& weights, int rows, const BlockRows<const X>& x, const BlockRows<Y>& y,
                   StreamHandle stream) {
  REPRISE_CHECK(weights.blocks > 0 && weights.inputs > 0 && weights.outputs > 0,
                "a block-diagonal GEMM has no blocks, inputs or outputs");
  if (rows == 0) return;
  const dim3 grid(static_cast<unsigned>((weights.outputs + kBlockThreads - 1) / kBlockThreads),
                  static_cast<unsigned>(weights.blocks),
                  static_cast<unsigned>((rows + kRowsAtOnce - 1) / kRowsAtOnce));
  multiply_blocks<X, Y><<<grid, kBlockThreads, 0, stream>>>(weights, rows, x, y);
  check_launch("block_product");
}

}  // namespace

void block_product(const BlockWeights& weights, int rows, const BlockRows<const float>& x,
                   const BlockRows<float>& y, StreamHandle stream) {
  launch_blocks(weights, rows, x, y, stream);
}

void block_product(const BlockWeights& weights, int rows, const BlockRows<const Bf16>& x,
                   const BlockRows<Bf16>& y, StreamHandle stream) {
  launch_blocks(weights, rows, x, y, stream);
}

void block_product(const BlockWeights& weights, int rows, const BlockRows<const float>& x,
                   const BlockRows<Bf16>& y, StreamHandle stream) {
  launch_blocks(weights, rows, x, y, stream);
}

namespace {

constexpr int kWarps = 8;  // per block: one output of A each
constexpr int kOutputs = 256;

// A lane's elements ascending, then a butterfly over the warp.
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
