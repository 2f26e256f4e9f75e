#pragma once
// Embedding lookup, which begins the residual. gpu/weights/products.h (widen_row) is the specification.

#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/gemm/formats.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

/// Writes y f32 [rows, table.columns]: the rows of `table` for tokens [rows].
void embed(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y, StreamHandle stream);
void embed_bf16(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y,
                StreamHandle stream);
/// Writes y times `factor`, the deferred-norm input of the first GEMM (bitwise as decode_bf16_to_residual()
/// writes it) and the RoPE tables of these rows, as rope_table() does. Requires: columns are a multiple of
/// 32.
void embed_bf16_to_residual(const std::int32_t* tokens, int rows, const DeviceWeight& table, float factor,
                            float* y, const DeferredNormOutput& next, const RopeRows& rope,
                            StreamHandle stream);

}  // namespace reprise::gpu::cuda
