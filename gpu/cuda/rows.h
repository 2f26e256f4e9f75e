#pragma once
// Kernels that look at one row of the activations at a time. gpu/kernels.h (rms_norm, layer_norm,
// swiglu, gate_gelu) is the specification. The residual stream is f32; what enters a product is bf16, or f32 where a model
// is computed precisely, which then becomes a sum of two bf16.
//
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include "gpu/cuda/batch.h"
#include "gpu/cuda/formats.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

/// A norm over rows [size]: x / sqrt(mean(x^2) + eps) * (offset + weight); with a bias LayerNorm, which has no offset:
/// (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias.
struct RowNorm {
  const float* weight;  // [size]
  float offset;
  float eps;
  const float* bias = nullptr;  // [size]; null: not centred
};

/// y bf16 [rows, size] = factor * norm(x), x f32 [.., size]; row i of y is of row picked[i] of x, or of row i where
/// `picked` is null.
void rms_norm(const float* x, const std::int32_t* picked, int rows, int size, const RowNorm& norm,
              float factor, Bf16* y, StreamHandle stream);
void rms_norm(const float* x, const std::int32_t* picked, int rows, int size, const RowNorm& norm,
              float factor, float* y, StreamHandle stream);

/// The same of all rows, added up in the order in which a decoded row's products take the norm on their way
/// (gpu/cuda/decode_product.cuh). size is a multiple of 8; the norm is not centred.
void norm_for_decode(const float* x, int rows, int size, const RowNorm& norm, float factor, Bf16* y,
                     StreamHandle stream);

/// x [rows, size] = norm(x).
void norm_in_place(float* x, int rows, int size, const RowNorm& norm, StreamHandle stream);

/// y [rows, size] = factor * x.
void scale_rows(const float* x, int rows, int size, float factor, Bf16* y, StreamHandle stream);
void scale_rows(const float* x, int rows, int size, float factor, float* y, StreamHandle stream);

/// x as a sum of two bf16, but for the last ones of its 24 bits.
struct TwoTerms {
  Bf16* high;  // [rows, size], as is the other
  Bf16* low;
};
void split_rows(const float* x, int rows, int size, const TwoTerms& to, StreamHandle stream);

/// y [rows, size] += factor * x.
void add_rows(const float* x, int rows, int size, float factor, float* y, StreamHandle stream);
/// y [rows, size] += factor * norm(x).
void add_normed_rows(const float* x, int rows, int size, const RowNorm& norm, float factor, float* y,
                     StreamHandle stream);

/// Rows picked[0], picked[1], ... of `from` [.., size]: `rows` of them. size is a multiple of 32.
void pick_rows(const UnscaledRows& from, const std::int32_t* picked, int rows, int size,
               const UnscaledRows& to, StreamHandle stream);

/// y [rows, size] = x [rows, size] with column order[k] at place k, bf16.
void order_columns(const Bf16* x, int rows, int size, const std::int32_t* order, Bf16* y,
                   StreamHandle stream);

enum class GateFunction { kSilu, kGelu };

/// y [rows, size] = act(gate_factor * gate) * up of x [rows, 2, size]: gate, then up. bf16; size is a multiple of 8.
void gate_rows(const Bf16* x, int rows, int size, GateFunction act, float gate_factor, Bf16* y,
               StreamHandle stream);
/// The same of f32, of any size.
void gate_rows(const float* x, int rows, int size, GateFunction act, float gate_factor, float* y,
               StreamHandle stream);

/// x [rows, size] = relu(x)^2, bf16; size is a multiple of 8.
void relu_squared(Bf16* x, int rows, int size, StreamHandle stream);
void relu_squared(float* x, int rows, int size, StreamHandle stream);

/// y [rows, size] += bias [size].
void add_bias(Bf16* y, int rows, int size, const float* bias, StreamHandle stream);
void add_bias(float* y, int rows, int size, const float* bias, StreamHandle stream);

/// x [rows, size] = soft_cap(factor * x), soft_cap(l) = cap tanh(l / cap); cap 0: none.
void scale(float* x, int rows, int size, float factor, float cap, StreamHandle stream);

}  // namespace reprise::gpu::cuda
