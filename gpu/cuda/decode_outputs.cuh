#pragma once
// Where the sums of a product go (gpu/cuda/decode_product.cuh): into rows of y as they are, or through a gate. Included by
// CUDA sources alone.
//
// A block of a kernel makes some outputs; an Output says which rows of W those are (row_of) and puts their sums where they
// belong (put_block).

#include "gpu/cuda/activations.cuh"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda::product {

template <GemmOutput kKind>
struct PlainOutput {
  void* y;
  int outputs;
  int stride;  // from a row of y to the next

  __device__ int weight_rows() const { return outputs; }
  /// The row of W that output `index` of a block of kCount is of.
  template <int kCount>
  __device__ int row_of(int block, int index) const {
    return block * kCount + index;
  }
  /// By all threads: `sum_at(row, index)` of `rows` rows from first_row on.
  template <int kCount, int kThreads, class SumAt>
  __device__ void put_block(int block, int first_row, int rows, const SumAt& sum_at) const {
    for (int i = static_cast<int>(threadIdx.x); i < rows * kCount; i += kThreads) {
      const int output = block * kCount + i % kCount;
      if (output >= outputs) continue;
      const std::size_t place = static_cast<std::size_t>(first_row + i / kCount) * stride + output;
      const float sum = sum_at(i / kCount, i % kCount);
      if constexpr (kKind == GemmOutput::kBf16) {
        static_cast<Bf16*>(y)[place] = narrow(sum);
      } else if constexpr (kKind == GemmOutput::kF32) {
        static_cast<float*>(y)[place] = sum;
      } else {
        static_cast<float*>(y)[place] += sum;
      }
    }
  }
};

/// The same, of a kind that is known when it runs: one kernel instead of three.
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

/// W has gates, then as many others: y = act(factor * gate) * other. A block has as many of each, gates first.
struct GatedOutput {
  Bf16* y;
  int outputs;  // half of W's
  GateFunction act;
  float factor;

  GatedOutput(const GatedRows& to, const DeviceWeight& weight)
      : y(to.y), outputs(weight.rows / 2), act(to.act), factor(to.gate_factor) {}

  __device__ int weight_rows() const { return 2 * outputs; }
  template <int kCount>
  __device__ int row_of(int block, int index) const {
    const int place = block * (kCount / 2) + index % (kCount / 2);
    return place >= outputs ? 2 * outputs : place + index / (kCount / 2) * outputs;
  }
  /// As gate_rows() has it, of sums that are rounded first.
  template <int kCount, int kThreads, class SumAt>
  __device__ void put_block(int block, int first_row, int rows, const SumAt& sum_at) const {
    constexpr int kHalf = kCount / 2;
    for (int i = static_cast<int>(threadIdx.x); i < rows * kHalf; i += kThreads) {
      const int output = block * kHalf + i % kHalf;
      if (output >= outputs) continue;
      const float gate = factor * widen(narrow(sum_at(i / kHalf, i % kHalf)));
      const float other = widen(narrow(sum_at(i / kHalf, i % kHalf + kHalf)));
      const float activated = act == GateFunction::kSilu ? silu_of(gate) : gelu_of(gate);
      y[static_cast<std::size_t>(first_row + i / kHalf) * outputs + output] = narrow(activated * other);
    }
  }
};

/// Calls `launch` with the PlainOutput of a kind.
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

}  // namespace reprise::gpu::cuda::product
