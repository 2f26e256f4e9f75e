#pragma once
// Kernels that process one row of the activations at a time. gpu/kernels.h (rms_norm, layer_norm, swiglu,
// gate_gelu) is the specification. The residual is f32. GEMM inputs are bf16, or f32 for a model computed
// precisely; such a GEMM takes them as the sum of two bf16.

#include "gpu/cuda/gemm/formats.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

/// A norm over rows of `size` elements. Without bias RMSNorm: x / sqrt(mean(x^2) + eps) * (offset + weight).
/// With bias LayerNorm, which ignores `offset`: (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias.
struct RowNorm {
  const float* weight;  // [size]
  float offset;
  float eps;
  const float* bias = nullptr;  // [size]; null: RMSNorm
};

/// y [rows, size] = factor * norm(x) for x f32 [.., size]. Row i of y comes from row picked[i] of x; null
/// `picked`: row i.
void rms_norm(const float* x, const std::int32_t* picked, int rows, int size, const RowNorm& norm,
              float factor, Bf16* y, StreamHandle stream);
void rms_norm(const float* x, const std::int32_t* picked, int rows, int size, const RowNorm& norm,
              float factor, float* y, StreamHandle stream);

/// bf16 RMSNorm that sums in the order of a decode GEMM with a fused norm (gemm/decode_product.cuh), bitwise
/// identical to it. Requires: size is a multiple of 8, no bias.
void norm_for_decode(const float* x, int rows, int size, const RowNorm& norm, float factor, Bf16* y,
                     StreamHandle stream);

/// x [rows, size] = norm(x).
void norm_in_place(float* x, int rows, int size, const RowNorm& norm, StreamHandle stream);

/// y [rows, size] = factor * x.
void scale_rows(const float* x, int rows, int size, float factor, Bf16* y, StreamHandle stream);
void scale_rows(const float* x, int rows, int size, float factor, float* y, StreamHandle stream);

/// x split into two bf16: high + low equals x except for the last of its 24 bits.
struct TwoTerms {
  Bf16* high;  // [rows, size], both
  Bf16* low;
};
void split_rows(const float* x, int rows, int size, const TwoTerms& to, StreamHandle stream);

/// y [rows, size] += factor * x.
void add_rows(const float* x, int rows, int size, float factor, float* y, StreamHandle stream);
/// y [rows, size] += factor * norm(x).
void add_normed_rows(const float* x, int rows, int size, const RowNorm& norm, float factor, float* y,
                     StreamHandle stream);

/// Copies rows picked[0], picked[1], ..., picked[rows - 1] of `from` [.., size] with their sums of squares.
/// Requires: size is a multiple of 32.
void pick_rows(const DeferredNormRows& from, const std::int32_t* picked, int rows, int size,
               const DeferredNormRows& to, StreamHandle stream);

/// y bf16 [rows, size]: column k of y is column order[k] of x.
void order_columns(const Bf16* x, int rows, int size, const std::int32_t* order, Bf16* y,
                   StreamHandle stream);

enum class GateFunction { kSilu, kGelu };

/// y bf16 [rows, size] = act(gate_factor * gate) * up, where x is [rows, 2, size]: gate, then up. Requires:
/// size is a multiple of 8.
void gate_rows(const Bf16* x, int rows, int size, GateFunction act, float gate_factor, Bf16* y,
               StreamHandle stream);
/// In f32, for any size.
void gate_rows(const float* x, int rows, int size, GateFunction act, float gate_factor, float* y,
               StreamHandle stream);

/// x [rows, size] = relu(x)^2. bf16 requires: size is a multiple of 8.
void relu_squared(Bf16* x, int rows, int size, StreamHandle stream);
void relu_squared(float* x, int rows, int size, StreamHandle stream);

/// y [rows, size] += bias [size].
void add_bias(Bf16* y, int rows, int size, const float* bias, StreamHandle stream);
void add_bias(float* y, int rows, int size, const float* bias, StreamHandle stream);

/// x [rows, size] = cap tanh(factor * x / cap); with cap 0, factor * x.
void scale(float* x, int rows, int size, float factor, float cap, StreamHandle stream);

}  // namespace reprise::gpu::cuda
