#pragma once
// Rows of the embedding for tokens, where the residual stream begins. gpu/products.h (widen_row) is the specification.
//
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include "gpu/cuda/attention.h"
#include "gpu/cuda/batch.h"
#include "gpu/cuda/formats.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

/// Rows of `table` for tokens [rows]: y f32 [rows, table.columns].
void embed(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y, StreamHandle stream);
/// The same for a table of bf16.
void embed_bf16(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y,
                StreamHandle stream);
/// The same, times `factor`; and what the first product reads of them, in the bits of decode_bf16_to_stream(); and rope's table
/// of these rows, as rope_table() makes it. Columns are a multiple of 32.
void embed_bf16_to_stream(const std::int32_t* tokens, int rows, const DeviceWeight& table, float factor,
                          float* y, const NextRows& next, const RopeRows& rope, StreamHandle stream);

}  // namespace reprise::gpu::cuda
