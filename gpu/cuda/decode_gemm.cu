// decode_gemm: a skinny product that reads each weight once for up to 64 rows of x.
//
// A block of 8 warps makes 16 outputs (rows of W) for up to 8 * kColumnTiles rows of x. The sum over k is cut
// into chunks of 64: warp w takes chunks w, w + 8, ... ascending, and the eight partial sums are added in the
// order of the warps. Within a chunk a tensor core instruction (m16n8k16: 16 rows of W by 8 rows of x) takes
// k in a permuted order that both operands share, so that each thread reads 16 contiguous bytes:
//   thread t of four holds k = 8t ... 8t+7 and 32 + 8t ... 32 + 8t + 7 of the chunk;
//   instruction s takes the s-th four of these from each thread.
// The order does not depend on kColumnTiles, hence neither do the bits.
#include <cuda_bf16.h>

#include "gpu/cuda/error.h"
#include "gpu/cuda/gemm.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kOutputs = 16;
constexpr int kChunk = 64;

__device__ __forceinline__ uint4 load_or_zero(const Bf16* row, int k, int columns) {
  if (row == nullptr || k >= columns) return make_uint4(0, 0, 0, 0);
  return __ldg(reinterpret_cast<const uint4*>(row + k));
}

__device__ __forceinline__ void mma(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                    unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

template <int kColumnTiles, GemmOutput kOutput>
__global__ void __launch_bounds__(kWarps * 32)
    skinny_product(const Bf16* __restrict__ x, int m, const Bf16* __restrict__ w, int outputs, int columns,
                   void* __restrict__ y) {
  constexpr int kRows = 8 * kColumnTiles;  // of x
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;  // row of W, and row of x, in a tile
  const int t = lane % 4;  // share of k
  const int first_output = blockIdx.x * kOutputs;
  const int first_row = blockIdx.y * kRows;

  const Bf16* w_low = first_output + g < outputs ? w + (size_t)(first_output + g) * columns : nullptr;
  const Bf16* w_high =
      first_output + g + 8 < outputs ? w + (size_t)(first_output + g + 8) * columns : nullptr;
  const Bf16* x_row[kColumnTiles];
#pragma unroll
  for (int i = 0; i < kColumnTiles; ++i) {
    const int row = first_row + 8 * i + g;
    x_row[i] = row < m ? x + (size_t)row * columns : nullptr;
  }

  float sums[kColumnTiles][4] = {};
#pragma unroll 2
  for (int chunk = warp * kChunk; chunk < columns; chunk += kWarps * kChunk) {
    const int k = chunk + 8 * t;
    const uint4 low[2] = {load_or_zero(w_low, k, columns), load_or_zero(w_low, k + 32, columns)};
    const uint4 high[2] = {load_or_zero(w_high, k, columns), load_or_zero(w_high, k + 32, columns)};
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
      const uint4 b[2] = {load_or_zero(x_row[i], k, columns), load_or_zero(x_row[i], k + 32, columns)};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        mma(sums[i], low[half].x, high[half].x, low[half].y, high[half].y, b[half].x, b[half].y);
        mma(sums[i], low[half].z, high[half].z, low[half].w, high[half].w, b[half].z, b[half].w);
      }
    }
  }

  // [warp][row of x][output]
  __shared__ float partial[kWarps][kRows][kOutputs + 1];
#pragma unroll
  for (int i = 0; i < kColumnTiles; ++i) {
    partial[warp][8 * i + 2 * t][g] = sums[i][0];
    partial[warp][8 * i + 2 * t + 1][g] = sums[i][1];
    partial[warp][8 * i + 2 * t][g + 8] = sums[i][2];
    partial[warp][8 * i + 2 * t + 1][g + 8] = sums[i][3];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kOutputs; i += kWarps * 32) {
    const int row = i / kOutputs;
    const int output = i % kOutputs;
    if (first_row + row >= m || first_output + output >= outputs) continue;
    float sum = 0;
#pragma unroll
    for (int from = 0; from < kWarps; ++from) sum += partial[from][row][output];
    const size_t place = (size_t)(first_row + row) * outputs + first_output + output;
    if constexpr (kOutput == GemmOutput::kBf16) {
      static_cast<__nv_bfloat16*>(y)[place] = __float2bfloat16_rn(sum);
    } else if constexpr (kOutput == GemmOutput::kF32) {
      static_cast<float*>(y)[place] = sum;
    } else {
      static_cast<float*>(y)[place] += sum;
    }
  }
}

template <int kColumnTiles>
void launch(const Bf16* x, int m, const DeviceMatrix& weight, void* y, GemmOutput output,
            StreamHandle stream) {
  const dim3 grid((weight.rows + kOutputs - 1) / kOutputs, (m + 8 * kColumnTiles - 1) / (8 * kColumnTiles));
  const auto run = [&](auto kernel) {
    kernel<<<grid, kWarps * 32, 0, stream>>>(x, m, weight.data, weight.rows, weight.columns, y);
  };
  switch (output) {
    case GemmOutput::kBf16:
      run(skinny_product<kColumnTiles, GemmOutput::kBf16>);
      break;
    case GemmOutput::kF32:
      run(skinny_product<kColumnTiles, GemmOutput::kF32>);
      break;
    case GemmOutput::kAddF32:
      run(skinny_product<kColumnTiles, GemmOutput::kAddF32>);
      break;
  }
}

}  // namespace

void decode_gemm(const Bf16* x, int m, const DeviceMatrix& weight, void* y, GemmOutput output,
                 StreamHandle stream) {
  if (m <= 8) {
    launch<1>(x, m, weight, y, output, stream);
  } else if (m <= 16) {
    launch<2>(x, m, weight, y, output, stream);
  } else if (m <= 32) {
    launch<4>(x, m, weight, y, output, stream);
  } else {
    launch<8>(x, m, weight, y, output, stream);
  }
  check_launch("decode_gemm");
}

}  // namespace reprise::gpu::cuda
