#include "gpu/cuda/selective_scan.h"

#include "gpu/cuda/activations.cuh"
#include "gpu/cuda/scan.cuh"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda {
namespace {

struct SelectiveRule {
  int columns;  // channels
  int size;
  int state_stride;
  std::size_t state_offset;
  SelectiveScanPass pass;

  /// Of number 0 of a channel: eight channels stand together.
  __device__ std::size_t place(int column) const {
    return static_cast<std::size_t>(column / kScanColumns) * size * kScanColumns + column % kScanColumns;
  }
  __device__ float* state(std::byte* slot, int column) const {
    return reinterpret_cast<float*>(slot + state_offset) + place(column);
  }

  struct Input {
    float x;
    float step;
    float gate;
  };
  __device__ Input read(int row, int column) const {
    const auto r = static_cast<std::size_t>(row);
    return {.x = widen(__ldg(pass.x + r * columns + column)),
            .step = __ldg(pass.step + r * pass.step_stride + column),
            .gate = widen(__ldg(pass.gate + r * pass.gate_stride + column))};
  }

  template <int kNumbers>
  struct Fixed {
    float a[kNumbers];
    float skip;
  };
  template <int kNumbers>
  __device__ void prepare(Fixed<kNumbers>& fixed, int column, int part) const {
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const int n = scan_number(part, i);
      fixed.a[i] = n < size ? pass.a[place(column) + static_cast<std::size_t>(n) * kScanColumns] : 0.0F;
    }
    fixed.skip = pass.skip[column];
  }

  /// h = exp(dt A) h + (dt x) B;  y = (h C + skip x) silu(gate)
  template <int kNumbers>
  __device__ void step(const Fixed<kNumbers>& fixed, const Input& in, const ScanLane& lane,
                       float (&h)[kNumbers]) const {
    const float* b = pass.b + static_cast<std::size_t>(lane.row) * pass.bc_stride;
    const float dt = softplus_of(in.step);
    const float change = dt * in.x;
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const int n = scan_number(lane.part, i);
      const float b_n = n < size ? __ldg(b + n) : 0.0F;
      const float c_n = n < size ? __ldg(b + size + n) : 0.0F;
      h[i] = fmaf(change, b_n, exp2f(dt * fixed.a[i]) * h[i]);
      total = fmaf(h[i], c_n, total);
    }
    const float y = fmaf(fixed.skip, in.x, column_sum(total)) * silu_of(in.gate);
    if (lane.writes()) pass.out[static_cast<std::size_t>(lane.row) * columns + lane.column] = narrow(y);
  }
};

constexpr int kSeparateThreads = 96;  // a warp for each of dt, B and C

/// 1 / sqrt(mean(x^2) + eps) by one warp: each lane's elements ascending, then halves of the warp.
__device__ float warp_rms_scale(const float* x, int size, float eps, int lane) {
  float squares = 0.0F;
  for (int i = lane; i < size; i += 32) squares = fmaf(x[i], x[i], squares);
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffU, squares, step);
  return 1.0F / sqrtf(squares / static_cast<float>(size) + eps);
}

/// Grid: rows.
__global__ void __launch_bounds__(kSeparateThreads)
    separate_rows(SelectiveScanShape shape, ScanNormWeights norms, float* x, int stride, Bf16* low,
                  int low_stride) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int part = static_cast<int>(threadIdx.x) / 32;  // 0: dt, 1: B, 2: C
  const bool normed = norms.dt != nullptr;
  float* row = x + static_cast<std::size_t>(blockIdx.x) * stride;
  if (part == 0) {
    Bf16* to = low + static_cast<std::size_t>(blockIdx.x) * low_stride;
    const float scale = normed ? warp_rms_scale(row, shape.step_rank, norms.eps, lane) : 1.0F;
    for (int i = lane; i < low_stride; i += 32) {
      const float value = i < shape.step_rank ? row[i] : 0.0F;
      const bool weighted = normed && i < shape.step_rank;
      to[i] = narrow(weighted ? value * scale * (norms.offset + norms.dt[i]) : value);
    }
    return;
  }
  if (!normed) return;
  float* numbers = row + shape.step_rank + (part - 1) * shape.state_size;
  const float* weight = part == 1 ? norms.b : norms.c;
  const float scale = warp_rms_scale(numbers, shape.state_size, norms.eps, lane);
  for (int i = lane; i < shape.state_size; i += 32) {
    numbers[i] = numbers[i] * scale * (norms.offset + weight[i]);
  }
}

}  // namespace

bool selective_scan_supports(const SelectiveScanShape& shape) {
  return shape.channels > 0 && scan_supports(shape.state_size);
}

void separate_scan_inputs(const SelectiveScanShape& shape, const ScanNormWeights& norms, int rows, float* x,
                          int stride, Bf16* low, int low_stride, StreamHandle stream) {
  REPRISE_CHECK(shape.step_rank + 2 * shape.state_size <= stride && shape.step_rank <= low_stride,
                "rows that have no room for the inputs of a scan");
  separate_rows<<<static_cast<unsigned>(rows), kSeparateThreads, 0, stream>>>(shape, norms, x, stride, low,
                                                                              low_stride);
  check_launch("separate_scan_inputs");
}

void selective_scan(const SelectiveScanShape& shape, const Batch& batch, const SelectiveScanPass& pass,
                    StreamHandle stream) {
  const SelectiveRule rule{.columns = shape.channels,
                           .size = shape.state_size,
                           .state_stride = kScanColumns,
                           .state_offset = shape.state_offset,
                           .pass = pass};
  scan(rule, batch, pass.exports, stream, "selective_scan");
}

}  // namespace reprise::gpu::cuda
