#include "gpu/cuda/rows.h"

#include "gpu/cuda/error.h"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void embed_rows(const std::int32_t* tokens, const Bf16* table, int size, float* y) {
  const Bf16* from = table + (size_t)tokens[blockIdx.x] * size;
  float* to = y + (size_t)blockIdx.x * size;
  for (int i = threadIdx.x; i < size; i += kThreads) to[i] = widen(from[i]);
}

// The order of the sum is fixed by `size`: each thread's elements upwards, then halves within a warp, then
// the warps in order.
__global__ void __launch_bounds__(kThreads)
    rms_norm_rows(const float* x, const std::int32_t* picked, int size, const float* weight, float offset,
                  float eps, Bf16* y) {
  const size_t row = picked == nullptr ? blockIdx.x : picked[blockIdx.x];
  const float* from = x + row * size;
  float sum = 0;
  for (int i = threadIdx.x; i < size; i += kThreads) sum = fmaf(from[i], from[i], sum);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
  __shared__ float of_warp[kThreads / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0;
  for (int i = 0; i < kThreads / 32; ++i) total += of_warp[i];
  const float scale = 1.0F / sqrtf(total / static_cast<float>(size) + eps);
  Bf16* to = y + (size_t)blockIdx.x * size;
  for (int i = threadIdx.x; i < size; i += kThreads) to[i] = narrow(from[i] * scale * (offset + weight[i]));
}

__global__ void swiglu_rows(const Bf16* x, int size, Bf16* y) {
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
    const float value = widen(gate[j]);
    out[j] = narrow(value / (1.0F + expf(-value)) * widen(up[j]));
  }
  *reinterpret_cast<uint4*>(y + row * size + i) = result;
}

template <class T>
__global__ void add_bias_rows(T* y, int size, const float* bias) {
  T* row = y + (size_t)blockIdx.x * size;
  for (int i = threadIdx.x; i < size; i += kThreads) {
    if constexpr (sizeof(T) == sizeof(Bf16)) {
      row[i] = narrow(widen(row[i]) + bias[i]);
    } else {
      row[i] += bias[i];
    }
  }
}

__global__ void scale_rows(float* x, int size, float factor, float cap) {
  float* row = x + (size_t)blockIdx.x * size;
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const float value = factor * row[i];
    row[i] = cap > 0 && isfinite(value) ? cap * tanhf(value / cap) : value;
  }
}

}  // namespace

void embed_bf16(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y,
                StreamHandle stream) {
  embed_rows<<<rows, kThreads, 0, stream>>>(tokens, static_cast<const Bf16*>(table.data), table.columns, y);
  check_launch("embed_bf16");
}

void rms_norm(const float* x, const std::int32_t* picked, int rows, int size, const float* weight,
              float offset, float eps, Bf16* y, StreamHandle stream) {
  rms_norm_rows<<<rows, kThreads, 0, stream>>>(x, picked, size, weight, offset, eps, y);
  check_launch("rms_norm");
}

void swiglu(const Bf16* x, int rows, int size, Bf16* y, StreamHandle stream) {
  constexpr int kAtOnce = 8;  // elements of a thread; sizes are multiples of it
  const int threads = size / kAtOnce < kThreads ? 32 : kThreads;
  const dim3 grid((size / kAtOnce + threads - 1) / threads, rows);
  swiglu_rows<<<grid, threads, 0, stream>>>(x, size, y);
  check_launch("swiglu");
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
  scale_rows<<<rows, kThreads, 0, stream>>>(x, size, factor, cap);
  check_launch("scale");
}

}  // namespace reprise::gpu::cuda
