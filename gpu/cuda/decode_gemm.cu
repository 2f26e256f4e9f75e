// decode_bf16: a skinny product that reads each weight once for up to 64 rows of x.
//
// A block of 8 warps makes 16 * kOutputTiles outputs (rows of W) for up to 8 * kColumnTiles rows of x. The
// sum over k is cut into chunks of 64: warp w takes chunks w, w + 8, ... ascending, and the eight partial
// sums are added in the order of the warps. Within a chunk a tensor core instruction (m16n8k16: 16 rows of W
// by 8 rows of x) takes k in a permuted order that both operands share, so that each thread reads 16
// contiguous bytes:
//   thread t of four holds k = 8t ... 8t+7 and 32 + 8t ... 32 + 8t + 7 of the chunk;
//   instruction s takes the s-th four of these from each thread.
// The order does not depend on the template's numbers, hence neither do the bits. Two tiles of outputs share
// what is read of x, which is what many rows wait for.
#include "gpu/cuda/error.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kOutputs = 16;
constexpr int kChunk = 64;
constexpr int kWide = 4096;  // outputs from which blocks of two tiles are enough for all multiprocessors

__device__ __forceinline__ uint4 load_or_zero(const Bf16* row, int k, int columns) {
  if (row == nullptr || k >= columns) return make_uint4(0, 0, 0, 0);
  return __ldg(reinterpret_cast<const uint4*>(row + k));
}

template <GemmOutput kOutput>
__device__ __forceinline__ void store(void* y, size_t place, float sum) {
  if constexpr (kOutput == GemmOutput::kBf16) {
    static_cast<Bf16*>(y)[place] = narrow(sum);
  } else if constexpr (kOutput == GemmOutput::kF32) {
    static_cast<float*>(y)[place] = sum;
  } else {
    static_cast<float*>(y)[place] += sum;
  }
}

template <int kColumnTiles, int kOutputTiles, GemmOutput kOutput>
__global__ void __launch_bounds__(kWarps * 32)
    skinny_product(const Bf16* __restrict__ x, int m, const Bf16* __restrict__ w, int outputs, int columns,
                   void* __restrict__ y) {
  constexpr int kRows = 8 * kColumnTiles;  // of x
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;  // row of W, and row of x, in a tile
  const int t = lane % 4;  // share of k
  const int first_output = blockIdx.x * kOutputs * kOutputTiles;
  const int first_row = blockIdx.y * kRows;

  const auto w_row = [&](int output) { return output < outputs ? w + (size_t)output * columns : nullptr; };
  const Bf16* w_low[kOutputTiles];
  const Bf16* w_high[kOutputTiles];
#pragma unroll
  for (int o = 0; o < kOutputTiles; ++o) {
    w_low[o] = w_row(first_output + kOutputs * o + g);
    w_high[o] = w_row(first_output + kOutputs * o + g + 8);
  }
  const Bf16* x_row[kColumnTiles];
#pragma unroll
  for (int i = 0; i < kColumnTiles; ++i) {
    const int row = first_row + 8 * i + g;
    x_row[i] = row < m ? x + (size_t)row * columns : nullptr;
  }

  float sums[kOutputTiles][kColumnTiles][4] = {};
#pragma unroll 2
  for (int chunk = warp * kChunk; chunk < columns; chunk += kWarps * kChunk) {
    const int k = chunk + 8 * t;
    uint4 low[kOutputTiles][2];
    uint4 high[kOutputTiles][2];
#pragma unroll
    for (int o = 0; o < kOutputTiles; ++o) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        low[o][half] = load_or_zero(w_low[o], k + 32 * half, columns);
        high[o][half] = load_or_zero(w_high[o], k + 32 * half, columns);
      }
    }
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
      const uint4 b[2] = {load_or_zero(x_row[i], k, columns), load_or_zero(x_row[i], k + 32, columns)};
#pragma unroll
      for (int o = 0; o < kOutputTiles; ++o) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4 l = low[o][half];
          const uint4 h = high[o][half];
          const std::uint32_t first[4] = {l.x, h.x, l.y, h.y};
          const std::uint32_t second[4] = {l.z, h.z, l.w, h.w};
          multiply_add(sums[o][i], first, b[half].x, b[half].y);
          multiply_add(sums[o][i], second, b[half].z, b[half].w);
        }
      }
    }
  }

  // [warp][row of x][output], one tile of outputs after another
  __shared__ float partial[kWarps][kRows][kOutputs + 1];
#pragma unroll
  for (int o = 0; o < kOutputTiles; ++o) {
    if (o > 0) __syncthreads();  // the tile before has been read
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
      partial[warp][8 * i + 2 * t][g] = sums[o][i][0];
      partial[warp][8 * i + 2 * t + 1][g] = sums[o][i][1];
      partial[warp][8 * i + 2 * t][g + 8] = sums[o][i][2];
      partial[warp][8 * i + 2 * t + 1][g + 8] = sums[o][i][3];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kOutputs; i += kWarps * 32) {
      const int row = i / kOutputs;
      const int output = first_output + kOutputs * o + i % kOutputs;
      if (first_row + row >= m || output >= outputs) continue;
      float sum = 0;
#pragma unroll
      for (int from = 0; from < kWarps; ++from) sum += partial[from][row][i % kOutputs];
      store<kOutput>(y, (size_t)(first_row + row) * outputs + output, sum);
    }
  }
}

template <int kColumnTiles, int kOutputTiles>
void launch(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
            StreamHandle stream) {
  constexpr int kAtOnce = kOutputs * kOutputTiles;
  const dim3 grid((weight.rows + kAtOnce - 1) / kAtOnce, (m + 8 * kColumnTiles - 1) / (8 * kColumnTiles));
  const auto* w = static_cast<const Bf16*>(weight.data);
  const auto run = [&](auto kernel) {
    kernel<<<grid, kWarps * 32, 0, stream>>>(x, m, w, weight.rows, weight.columns, y);
  };
  switch (output) {
    case GemmOutput::kBf16:
      run(skinny_product<kColumnTiles, kOutputTiles, GemmOutput::kBf16>);
      break;
    case GemmOutput::kF32:
      run(skinny_product<kColumnTiles, kOutputTiles, GemmOutput::kF32>);
      break;
    case GemmOutput::kAddF32:
      run(skinny_product<kColumnTiles, kOutputTiles, GemmOutput::kAddF32>);
      break;
  }
}

}  // namespace

void decode_bf16(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream) {
  const bool wide = weight.rows >= kWide;
  if (m <= 8) {
    launch<1, 1>(x, m, weight, y, output, stream);
  } else if (m <= 16) {
    launch<2, 1>(x, m, weight, y, output, stream);
  } else if (m <= 32) {
    wide ? launch<4, 2>(x, m, weight, y, output, stream) : launch<4, 1>(x, m, weight, y, output, stream);
  } else {
    wide ? launch<8, 2>(x, m, weight, y, output, stream) : launch<8, 1>(x, m, weight, y, output, stream);
  }
  check_launch("decode_bf16");
}

}  // namespace reprise::gpu::cuda
