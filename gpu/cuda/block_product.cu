#include "gpu/cuda/block_product.h"

#include "base/check.h"
#include "gpu/cuda/error.h"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kRowsAtOnce = 16;    // of a block of threads: a weight is read once for all of them
constexpr int kInputsAtOnce = 64;  // of these rows, in shared memory
constexpr int kBlockThreads = 128;

__device__ __forceinline__ float as_float(float x) {
  return x;
}
__device__ __forceinline__ float as_float(Bf16 x) {
  return widen(x);
}
__device__ __forceinline__ void put(float* to, float x) {
  *to = x;
}
__device__ __forceinline__ void put(Bf16* to, float x) {
  *to = narrow(x);
}

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
    __syncthreads();  // the inputs before are used up
    for (int i = static_cast<int>(threadIdx.x); i < kInputsAtOnce * kRowsAtOnce; i += kBlockThreads) {
      const int input = i % kInputsAtOnce;
      const int row = i / kInputsAtOnce;
      const bool there = input < count && first_row + row < rows;
      inputs[input][row] =
          there ? as_float(x.first[(first_row + row) * x.row + block * x.block + begin + input]) : 0.0F;
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
    if (first_row + row < rows)
      put(y.first + (first_row + row) * y.row + block * y.block + output, sums[row]);
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

}  // namespace reprise::gpu::cuda
