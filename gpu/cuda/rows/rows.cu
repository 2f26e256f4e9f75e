// Row-wise kernels (rows.h). Mapping: a block per row or per part of a row; bf16 RMSNorms of a multiple of
// 128 elements have a warp per row. Bits: the order of every sum depends only on the row size.

#include "gpu/cuda/rows/rows.h"

#include "base/check.h"
#include "gpu/cuda/gemm/decode_product.cuh"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kNormWarps = 2;
constexpr int kWarpNormThreads = 64;

/// Sum over a block: a butterfly in each warp, then the warps in order.
__device__ float sum_of_block(float sum) {
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
  __shared__ float of_warp[kThreads / 32];
  __syncthreads();  // the previous sum has been read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0;
  for (int i = 0; i < kThreads / 32; ++i) total += of_warp[i];
  return total;
}

/// A row's norm: (x - mean) * scale, then the weights.
struct NormOfRow {
  float mean;  // 0 for RMSNorm
  float scale;

  __device__ float of(float x, const RowNorm& norm, int i) const {
    if (norm.bias != nullptr) return fmaf((x - mean) * scale, norm.weight[i], norm.bias[i]);
    return x * scale * (norm.offset + norm.weight[i]);
  }
};

/// Called by a block. Each thread's elements ascending, then sum_of_block().
__device__ NormOfRow norm_of_row(const float* x, int size, const RowNorm& norm) {
  float mean = 0;
  if (norm.bias != nullptr) {
    float sum = 0;
    for (int i = threadIdx.x; i < size; i += kThreads) sum += x[i];
    mean = sum_of_block(sum) / static_cast<float>(size);
  }
  float squares = 0;
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const float value = norm.bias == nullptr ? x[i] : x[i] - mean;
    squares = fmaf(value, value, squares);
  }
  const float total = sum_of_block(squares);
  return {.mean = mean, .scale = 1.0F / sqrtf(total / static_cast<float>(size) + norm.eps)};
}

/// RMSNorm with a warp per row, size a multiple of 128. A lane adds its float4 from left to right, then a
/// butterfly over the warp. kMaxFours: float4 that a lane keeps in registers; 1: the row is read twice.
template <int kMaxFours>
__global__ void __launch_bounds__(kWarpNormThreads)
    rms_norm_by_warps(const float* x, const std::int32_t* picked, int rows, int size, RowNorm norm,
                      float factor, Bf16* y) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int fours = size / 128;  // per lane
  const auto* weights = reinterpret_cast<const float4*>(norm.weight);
  float4 weight[kMaxFours];
  // constant, so loaded before the PDL wait
  if constexpr (kMaxFours > 1) {
#pragma unroll
    for (int i = 0; i < kMaxFours; ++i) {
      if (i < fours) weight[i] = __ldg(weights + lane + 32 * i);
    }
  }
  pdl_wait();
  pdl_launch_dependents();
  const int index = static_cast<int>((blockIdx.x * kWarpNormThreads + threadIdx.x) / 32);
  if (index >= rows) return;
  const size_t row = picked == nullptr ? index : picked[index];
  const auto* from = reinterpret_cast<const float4*>(x + row * size);
  float squares = 0;
  const auto add_squares = [&](const float4& four) {
    squares = fmaf(four.x, four.x, squares);
    squares = fmaf(four.y, four.y, squares);
    squares = fmaf(four.z, four.z, squares);
    squares = fmaf(four.w, four.w, squares);
  };
  float4 kept[kMaxFours];
  if constexpr (kMaxFours > 1) {
#pragma unroll
    for (int i = 0; i < kMaxFours; ++i) {
      if (i < fours) kept[i] = from[lane + 32 * i];
    }
#pragma unroll
    for (int i = 0; i < kMaxFours; ++i) {
      if (i < fours) add_squares(kept[i]);
    }
  } else {
#pragma unroll 8
    for (int i = lane; i < size / 4; i += 32) add_squares(from[i]);
  }
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0U, squares, step);
  const float scale = 1.0F / sqrtf(squares / static_cast<float>(size) + norm.eps);
  auto* to = reinterpret_cast<uint2*>(y + static_cast<size_t>(index) * size);
  const auto put = [&](int i, const float4& four, const float4& by_four) {
    const auto one = [&](float value, float by) { return value * scale * (norm.offset + by) * factor; };
    to[i] = make_uint2(narrow(one(four.x, by_four.x), one(four.y, by_four.y)),
                       narrow(one(four.z, by_four.z), one(four.w, by_four.w)));
  };
  if constexpr (kMaxFours > 1) {
#pragma unroll
    for (int i = 0; i < kMaxFours; ++i) {
      if (i < fours) put(lane + 32 * i, kept[i], weight[i]);
    }
  } else {
#pragma unroll 8
    for (int i = lane; i < size / 4; i += 32) put(i, from[i], __ldg(weights + i));
  }
}

template <class Row>
__global__ void __launch_bounds__(kThreads)
    rms_norm_rows(const float* x, const std::int32_t* picked, int size, RowNorm norm, float factor, Row* y) {
  pdl_wait();
  pdl_launch_dependents();
  const size_t row = picked == nullptr ? blockIdx.x : picked[blockIdx.x];
  const float* from = x + row * size;
  const NormOfRow made = norm_of_row(from, size, norm);
  Row* to = y + (size_t)blockIdx.x * size;
  for (int i = threadIdx.x; i < size; i += kThreads) {
    store_row(to[i], made.of(from[i], norm, i) * factor);
  }
}

/// A warp per row, four lanes per chain (gemm/decode_product.cuh).
__global__ void __launch_bounds__(kNormWarps * 32)
    norm_rows_by_chains(const float* x, int rows, int size, RowNorm norm, float factor, Bf16* y) {
  pdl_wait();
  pdl_launch_dependents();
  const int row = static_cast<int>(blockIdx.x * kNormWarps + threadIdx.x / 32);
  if (row >= rows) return;
  const int chain = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const float* from = x + (size_t)row * size;
  const float own = product::squares_of_chain(from, chain, t, size);
  float total = 0;
#pragma unroll
  for (int i = 0; i < product::kChains; ++i) total += __shfl_sync(~0U, own, 4 * i);
  const float scale = product::norm_scale(total, size, norm.eps);
  for (int i = 8 * (static_cast<int>(threadIdx.x) % 32); i < size; i += 8 * 32) {
    *reinterpret_cast<uint4*>(y + (size_t)row * size + i) =
        product::normed_eight(from, norm, scale, factor, i);
  }
}

template <class Row>
__global__ void scale_each_row(const float* x, int size, float factor, Row* y) {
  const size_t first = (size_t)blockIdx.x * size;
  for (int i = threadIdx.x; i < size; i += kThreads) store_row(y[first + i], factor * x[first + i]);
}

__global__ void split_elements(const float* x, size_t count, Bf16* high, Bf16* low) {
  const size_t i = (size_t)blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const float value = x[i];
  const Bf16 first = narrow(value);
  high[i] = first;
  // NaN, infinity and values beyond bf16 go to the first term only.
  low[i] = isfinite(widen(first)) ? narrow(value - widen(first)) : Bf16{0};
}

__global__ void add_each_row(const float* x, int size, float factor, float* y) {
  const size_t first = (size_t)blockIdx.x * size;
  for (int i = threadIdx.x; i < size; i += kThreads) y[first + i] = fmaf(factor, x[first + i], y[first + i]);
}

__global__ void __launch_bounds__(kThreads)
    add_each_normed_row(const float* x, int size, RowNorm norm, float factor, float* y) {
  const size_t first = (size_t)blockIdx.x * size;
  const NormOfRow made = norm_of_row(x + first, size, norm);
  for (int i = threadIdx.x; i < size; i += kThreads) {
    y[first + i] = fmaf(factor, made.of(x[first + i], norm, i), y[first + i]);
  }
}

__global__ void __launch_bounds__(kThreads) norm_each_row(float* x, int size, RowNorm norm) {
  float* row = x + (size_t)blockIdx.x * size;
  const NormOfRow made = norm_of_row(row, size, norm);
  for (int i = threadIdx.x; i < size; i += kThreads) row[i] = made.of(row[i], norm, i);
}

/// Grid: rows, columns.
__global__ void gate_wide_row(const float* x, int size, GateFunction act, float factor, float* y) {
  const size_t row = blockIdx.x;
  const int i = blockIdx.y * kThreads + threadIdx.x;
  if (i < size) {
    const float gate = factor * x[row * 2 * size + i];
    y[row * size + i] =
        (act == GateFunction::kSilu ? silu_of(gate) : gelu_of(gate)) * x[row * 2 * size + size + i];
  }
}

template <GateFunction kAct>
__global__ void gate_each_row(const Bf16* x, int size, float factor, Bf16* y) {
  pdl_wait();
  pdl_launch_dependents();
  const size_t row = blockIdx.y;
  const int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= size) return;
  const uint4 gates = *reinterpret_cast<const uint4*>(x + row * 2 * size + i);
  const uint4 ups = *reinterpret_cast<const uint4*>(x + row * 2 * size + size + i);
  uint4 result;
  const auto* gate = reinterpret_cast<const Bf16*>(&gates);
  const auto* up = reinterpret_cast<const Bf16*>(&ups);
  auto* out = reinterpret_cast<Bf16*>(&result);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    out[j] = narrow(gated_bf16(kAct, factor * widen(gate[j]), widen(up[j])));
  }
  *reinterpret_cast<uint4*>(y + row * size + i) = result;
}

__device__ float squared_above_zero(float x) {
  return x < 0.0F ? 0.0F : x * x;  // a NaN stays NaN
}

__global__ void square_each_wide_row(float* x, int size) {
  float* row = x + (size_t)blockIdx.x * size;
  for (int i = threadIdx.x; i < size; i += kThreads) row[i] = squared_above_zero(row[i]);
}

__global__ void square_each_row(Bf16* x, int size) {
  const int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= size) return;
  auto* eight = reinterpret_cast<uint4*>(x + (size_t)blockIdx.y * size + i);
  uint4 values = *eight;
  auto* value = reinterpret_cast<Bf16*>(&values);
#pragma unroll
  for (int j = 0; j < 8; ++j) value[j] = narrow(squared_above_zero(widen(value[j])));
  *eight = values;
}

/// Grid: columns, rows.
__global__ void __launch_bounds__(kThreads)
    order_each_row(const Bf16* x, int size, const std::int32_t* order, Bf16* y) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int from = i < size ? order[i] : 0;
  pdl_wait();
  pdl_launch_dependents();
  const size_t first = (size_t)blockIdx.y * size;
  if (i < size) y[first + i] = x[first + from];
}

/// Grid: rows.
__global__ void __launch_bounds__(kThreads)
    pick_each_row(DeferredNormRows from, const std::int32_t* picked, int size, DeferredNormRows to) {
  pdl_wait();
  pdl_launch_dependents();
  const size_t source = (size_t)picked[blockIdx.x] * (size / 8);  // index in groups of eight
  const size_t destination = (size_t)blockIdx.x * (size / 8);
  for (int i = threadIdx.x; i < size / 8; i += kThreads) {
    reinterpret_cast<uint4*>(to.x)[destination + i] = reinterpret_cast<const uint4*>(from.x)[source + i];
    to.squares[destination + i] = from.squares[source + i];
  }
}

/// Launch grid with eight elements per thread, for rows that are a multiple of eight.
struct EightsGrid {
  dim3 blocks;
  int threads;

  EightsGrid(int rows, int size) : threads(size / 8 < kThreads ? 32 : kThreads) {
    blocks = dim3((size / 8 + threads - 1) / threads, rows);
  }
};

template <class Row>
__global__ void add_bias_rows(Row* y, int size, const float* bias) {
  Row* row = y + (size_t)blockIdx.x * size;
  for (int i = threadIdx.x; i < size; i += kThreads) store_row(row[i], load_row(row[i]) + bias[i]);
}

__global__ void cap_rows(float* x, int size, float factor, float cap) {
  float* row = x + (size_t)blockIdx.x * size;
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const float value = factor * row[i];
    row[i] = cap > 0 && isfinite(value) ? cap * tanhf(value / cap) : value;
  }
}

}  // namespace

void rms_norm(const float* x, const std::int32_t* picked, int rows, int size, const RowNorm& norm,
              float factor, Bf16* y, StreamHandle stream) {
  if (norm.bias == nullptr && size % 128 == 0) {
    constexpr int kRows = kWarpNormThreads / 32;  // per block
    constexpr int kFoursInRegisters = 8;          // per lane
    const auto kernel =
        size <= kFoursInRegisters * 128 ? rms_norm_by_warps<kFoursInRegisters> : rms_norm_by_warps<1>;
    launch_after(kernel, {.blocks = dim3((rows + kRows - 1) / kRows), .threads = kWarpNormThreads}, stream, x,
                 picked, rows, size, norm, factor, y);
    return;
  }
  launch_after(rms_norm_rows<Bf16>, {.blocks = dim3(rows), .threads = kThreads}, stream, x, picked, size,
               norm, factor, y);
}

void rms_norm(const float* x, const std::int32_t* picked, int rows, int size, const RowNorm& norm,
              float factor, float* y, StreamHandle stream) {
  launch_after(rms_norm_rows<float>, {.blocks = dim3(rows), .threads = kThreads}, stream, x, picked, size,
               norm, factor, y);
}

void norm_for_decode(const float* x, int rows, int size, const RowNorm& norm, float factor, Bf16* y,
                     StreamHandle stream) {
  const LaunchShape shape{.blocks = dim3((rows + kNormWarps - 1) / kNormWarps), .threads = kNormWarps * 32};
  launch_after(norm_rows_by_chains, shape, stream, x, rows, size, norm, factor, y);
}

void norm_in_place(float* x, int rows, int size, const RowNorm& norm, StreamHandle stream) {
  norm_each_row<<<rows, kThreads, 0, stream>>>(x, size, norm);
  check_launch("norm_in_place");
}

void scale_rows(const float* x, int rows, int size, float factor, Bf16* y, StreamHandle stream) {
  scale_each_row<<<rows, kThreads, 0, stream>>>(x, size, factor, y);
  check_launch("scale_rows");
}

void scale_rows(const float* x, int rows, int size, float factor, float* y, StreamHandle stream) {
  scale_each_row<<<rows, kThreads, 0, stream>>>(x, size, factor, y);
  check_launch("scale_rows");
}

void split_rows(const float* x, int rows, int size, const TwoTerms& to, StreamHandle stream) {
  const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(size);
  split_elements<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      x, count, to.high, to.low);
  check_launch("split_rows");
}

void add_rows(const float* x, int rows, int size, float factor, float* y, StreamHandle stream) {
  add_each_row<<<rows, kThreads, 0, stream>>>(x, size, factor, y);
  check_launch("add_rows");
}

void add_normed_rows(const float* x, int rows, int size, const RowNorm& norm, float factor, float* y,
                     StreamHandle stream) {
  add_each_normed_row<<<rows, kThreads, 0, stream>>>(x, size, norm, factor, y);
  check_launch("add_normed_rows");
}

void gate_rows(const Bf16* x, int rows, int size, GateFunction act, float gate_factor, Bf16* y,
               StreamHandle stream) {
  const EightsGrid grid(rows, size);
  const auto kernel =
      act == GateFunction::kSilu ? gate_each_row<GateFunction::kSilu> : gate_each_row<GateFunction::kGelu>;
  launch_after(kernel, {.blocks = grid.blocks, .threads = grid.threads}, stream, x, size, gate_factor, y);
}

void gate_rows(const float* x, int rows, int size, GateFunction act, float gate_factor, float* y,
               StreamHandle stream) {
  const dim3 blocks(rows, (size + kThreads - 1) / kThreads);
  gate_wide_row<<<blocks, kThreads, 0, stream>>>(x, size, act, gate_factor, y);
  check_launch("gate_rows of f32");
}

void order_columns(const Bf16* x, int rows, int size, const std::int32_t* order, Bf16* y,
                   StreamHandle stream) {
  constexpr int kMax = 32768;  // rows per launch
  REPRISE_CHECK(rows <= kMax, "more rows than one launch takes");
  launch_after(order_each_row, {.blocks = dim3((size + kThreads - 1) / kThreads, rows), .threads = kThreads},
               stream, x, size, order, y);
}

void pick_rows(const DeferredNormRows& from, const std::int32_t* picked, int rows, int size,
               const DeferredNormRows& to, StreamHandle stream) {
  launch_after(pick_each_row, {.blocks = dim3(rows), .threads = kThreads}, stream, from, picked, size, to);
}

void relu_squared(Bf16* x, int rows, int size, StreamHandle stream) {
  const EightsGrid grid(rows, size);
  square_each_row<<<grid.blocks, grid.threads, 0, stream>>>(x, size);
  check_launch("relu_squared");
}

void relu_squared(float* x, int rows, int size, StreamHandle stream) {
  square_each_wide_row<<<rows, kThreads, 0, stream>>>(x, size);
  check_launch("relu_squared of f32");
}

void add_bias(Bf16* y, int rows, int size, const float* bias, StreamHandle stream) {
  add_bias_rows<<<rows, kThreads, 0, stream>>>(y, size, bias);
  check_launch("add_bias");
}

void add_bias(float* y, int rows, int size, const float* bias, StreamHandle stream) {
  add_bias_rows<<<rows, kThreads, 0, stream>>>(y, size, bias);
  check_launch("add_bias");
}

void scale(float* x, int rows, int size, float factor, float cap, StreamHandle stream) {
  cap_rows<<<rows, kThreads, 0, stream>>>(x, size, factor, cap);
  check_launch("scale");
}

}  // namespace reprise::gpu::cuda
