#pragma once
// Epilogues of the decode GEMMs (decode_product.cuh): store, add, gate, deferred norm.
//
// An Output maps a block's outputs to rows of W (row_of) and stores the sums (put_block). All threads call
// prefetch_constants() before the PDL wait, then begin_rows(), and put_block() after a barrier.

#include "base/check.h"
#include "gpu/cuda/gemm/decode_product.cuh"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/rows/activations.cuh"

namespace reprise::gpu::cuda::product {

template <GemmOutput kKind>
struct PlainOutput {
  void* y;
  int outputs;
  int stride;  // elements between rows of y

  __device__ int weight_rows() const { return outputs; }
  /// Returns the row of W of output `index` of a block.
  template <int kCount>
  __device__ int row_of(int block, int index) const {
    return block * kCount + index;
  }
  /// Stores sum_at(row, index) for `rows` rows from first_row; called by all threads.
  template <int kCount, int kThreads, class SumAt>
  __device__ void put_block(int block, int first_row, int rows, const SumAt& sum_at) const {
    for (int i = static_cast<int>(threadIdx.x); i < rows * kCount; i += kThreads) {
      const int output = block * kCount + i % kCount;
      if (output >= outputs) continue;
      const std::size_t element = static_cast<std::size_t>(first_row + i / kCount) * stride + output;
      const float sum = sum_at(i / kCount, i % kCount);
      if constexpr (kKind == GemmOutput::kBf16) {
        static_cast<Bf16*>(y)[element] = narrow(sum);
      } else if constexpr (kKind == GemmOutput::kF32) {
        static_cast<float*>(y)[element] = sum;
      } else {
        static_cast<float*>(y)[element] += sum;
      }
    }
  }
};

/// PlainOutput with a run-time kind: one kernel instance instead of three.
struct AnyOutput {
  void* y;
  int outputs;
  int stride;
  GemmOutput kind;

  __device__ int weight_rows() const { return outputs; }
  template <int kCount>
  __device__ int row_of(int block, int index) const {
    return block * kCount + index;
  }
  template <int kCount, int kThreads, class SumAt>
  __device__ void put_block(int block, int first_row, int rows, const SumAt& sum_at) const {
    const auto put = [&](auto plain) {
      plain.template put_block<kCount, kThreads>(block, first_row, rows, sum_at);
    };
    if (kind == GemmOutput::kBf16) {
      put(PlainOutput<GemmOutput::kBf16>{y, outputs, stride});
    } else if (kind == GemmOutput::kF32) {
      put(PlainOutput<GemmOutput::kF32>{y, outputs, stride});
    } else {
      put(PlainOutput<GemmOutput::kAddF32>{y, outputs, stride});
    }
  }
};

/// y = act(factor * gate) * up. The first half of W's rows are gates; a block has kCount / 2 gates and their
/// up rows.
struct GatedOutput {
  Bf16* y;
  int outputs;  // half of W's rows
  GateFunction act;
  float factor;

  GatedOutput(const GatedRows& to, const DeviceWeight& weight)
      : y(to.y), outputs(weight.rows / 2), act(to.act), factor(to.gate_factor) {}

  __device__ int weight_rows() const { return 2 * outputs; }
  template <int kCount>
  __device__ int row_of(int block, int index) const {
    const int output = block * (kCount / 2) + index % (kCount / 2);
    return output >= outputs ? 2 * outputs : output + index / (kCount / 2) * outputs;
  }
  /// Bitwise as gate_rows(): the sums are rounded to bf16 first.
  template <int kCount, int kThreads, class SumAt>
  __device__ void put_block(int block, int first_row, int rows, const SumAt& sum_at) const {
    constexpr int kHalf = kCount / 2;
    for (int i = static_cast<int>(threadIdx.x); i < rows * kHalf; i += kThreads) {
      const int output = block * kHalf + i % kHalf;
      if (output >= outputs) continue;
      const float gate = factor * widen(narrow(sum_at(i / kHalf, i % kHalf)));
      const float other = widen(narrow(sum_at(i / kHalf, i % kHalf + kHalf)));
      y[static_cast<std::size_t>(first_row + i / kHalf) * outputs + output] =
          narrow(gated_bf16(act, gate, other));
    }
  }
};

/// Writes the deferred-norm input of one residual element. The eight lanes of an aligned group of columns add
/// their squares by butterfly shuffles.
__device__ __forceinline__ void put_deferred_norm(const DeferredNormOutput& next, std::size_t element,
                                                  int column, float value) {
  next.to.x[element] = narrow(value * (next.norm.offset + __ldg(next.norm.weight + column)) * next.factor);
  const unsigned eight = 0xffU << (threadIdx.x % 32 / 8 * 8);
  float squares = value * value;
#pragma unroll
  for (int step = 1; step < 8; step *= 2) squares += __shfl_xor_sync(eight, squares, step);
  if (column % 8 == 0) next.to.squares[element / 8] = squares;
}

/// Adds to the residual and writes the deferred-norm input of the next GEMM. Eight adjacent outputs belong to
/// eight adjacent lanes.
struct ResidualOutput {
  float* y;
  int outputs;  // a multiple of 8
  DeferredNormOutput next;

  __device__ int weight_rows() const { return outputs; }
  template <int kCount>
  __device__ int row_of(int block, int index) const {
    return block * kCount + index;
  }
  template <int kCount, int kThreads, class SumAt>
  __device__ void put_block(int block, int first_row, int rows, const SumAt& sum_at) const {
    static_assert(kCount % 8 == 0 && kThreads % 32 == 0);
    for (int i = static_cast<int>(threadIdx.x); i < rows * kCount; i += kThreads) {
      const int output = block * kCount + i % kCount;
      if (output >= outputs) continue;
      const std::size_t element = static_cast<std::size_t>(first_row + i / kCount) * outputs + output;
      const float sum = y[element] + sum_at(i / kCount, i % kCount);
      y[element] = sum;
      put_deferred_norm(next, element, output, sum);
    }
  }
};

/// Completes a deferred norm: multiplies each row's sums by 1 / RMS, then applies `to`.
template <class Output>
struct ScaledOutput {
  static constexpr int kMaxRows = 64;  // per block
  Output to;
  const float* squares;
  int groups;  // groups of eight elements per row; a multiple of 4
  float eps;

  ScaledOutput(const Output& output, const DeferredNormRows& rows, int columns)
      : to(output), squares(rows.squares), groups(columns / 8), eps(rows.eps) {}

  __device__ int weight_rows() const { return to.weight_rows(); }
  template <int kCount>
  __device__ int row_of(int block, int index) const {
    return to.template row_of<kCount>(block, index);
  }
  __device__ static float* scales() {
    __shared__ float of_rows[kMaxRows];
    return of_rows;
  }
  template <int kCount, int kThreads, class SumAt>
  __device__ void put_block(int block, int first_row, int rows, const SumAt& sum_at) const {
    const float* of_rows = scales();
    to.template put_block<kCount, kThreads>(
        block, first_row, rows, [&](int row, int index) { return sum_at(row, index) * of_rows[row]; });
  }
  /// Computes the factors of the rows; four lanes share a row, lane t adds groups 4 t ... 4 t + 3, 4 t + 16,
  /// ...
  template <int kThreads>
  __device__ void begin(int first_row, int rows) const {
    static_assert(kThreads >= 4 * kMaxRows);
    const int row = static_cast<int>(threadIdx.x) / 4;
    const int t = static_cast<int>(threadIdx.x) % 4;
    if (row / 8 * 8 >= rows) return;  // uniform per warp
    const auto* own = reinterpret_cast<const float4*>(
        squares + static_cast<std::size_t>(first_row + min(row, rows - 1)) * groups);
    float sum = 0;
#pragma unroll 8
    for (int i = t; i < groups / 4; i += 4) {
      const float4 four = own[i];
      sum += (four.x + four.y) + (four.z + four.w);
    }
    sum += __shfl_xor_sync(~0U, sum, 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    if (t == 0 && row < rows) scales()[row] = norm_scale(sum, 8 * groups, eps);
  }
};

/// Factor of a row's sums: 1 without a deferred norm.
template <class Output>
__device__ __forceinline__ float scale_of(const Output& /*output*/, int /*row*/) {
  return 1;
}
template <class Output>
__device__ __forceinline__ float scale_of(const ScaledOutput<Output>& /*output*/, int row) {
  return ScaledOutput<Output>::scales()[row];
}

/// Prefetches constants of block `block`.
template <int kCount, class Output>
__device__ __forceinline__ void prefetch_constants(const Output& output, int block) {
  if constexpr (std::is_same_v<Output, ResidualOutput>) {
    const int at = static_cast<int>(threadIdx.x) * 8;
    if (at < kCount && block * kCount + at < output.outputs) {
      prefetch_line(output.next.norm.weight + block * kCount + at);
    }
  }
}
/// Loads per-row data of put_block().
template <int kThreads, class Output>
__device__ __forceinline__ void begin_rows(const Output& /*output*/, int /*first_row*/, int /*rows*/) {}
template <int kThreads, class Output>
__device__ __forceinline__ void begin_rows(const ScaledOutput<Output>& output, int first_row, int rows) {
  output.template begin<kThreads>(first_row, rows);
}

template <class Launch>
void with_output(void* y, const DeviceWeight& weight, GemmOutput kind, const Launch& launch) {
  switch (kind) {
    case GemmOutput::kBf16:
      return launch(PlainOutput<GemmOutput::kBf16>{y, weight.rows, weight.stride()});
    case GemmOutput::kF32:
      return launch(PlainOutput<GemmOutput::kF32>{y, weight.rows, weight.stride()});
    case GemmOutput::kAddF32:
      return launch(PlainOutput<GemmOutput::kAddF32>{y, weight.rows, weight.stride()});
  }
}

/// As with_output(), for input with a deferred norm; kAddF32 is not supported.
template <class Launch>
void with_scaled_output(const DeferredNormRows& rows, void* y, const DeviceWeight& weight, GemmOutput kind,
                        const Launch& launch) {
  const auto scaled = [&](const auto& to) { launch(ScaledOutput(to, rows, weight.columns)); };
  if (kind == GemmOutput::kBf16) {
    return scaled(PlainOutput<GemmOutput::kBf16>{y, weight.rows, weight.stride()});
  }
  REPRISE_CHECK(kind == GemmOutput::kF32, "a GEMM with a deferred norm has an output other than bf16 or f32");
  scaled(PlainOutput<GemmOutput::kF32>{y, weight.rows, weight.stride()});
}

}  // namespace reprise::gpu::cuda::product
