#pragma once
// Products of 9 to 32 decoded rows with a weight of bf16 of very many outputs, the head's: the same bits as those of
// gpu/cuda/decode_gemm.cu.
//
// Threading: launches into `stream`; no other state.

#include "gpu/cuda/formats.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

/// Whether they are the way to multiply m rows on the current GPU.
bool blocks_that_stay_suit(const DeviceWeight& weight, int m, GemmOutput output);

/// y f32 [m, rows of the weight].
void decode_by_staying_blocks(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                              StreamHandle stream);
/// The same of rows whose norm the product ends.
void decode_by_staying_blocks(const UnscaledRows& rows, int m, const DeviceWeight& weight, float* y,
                              StreamHandle stream);

}  // namespace reprise::gpu::cuda
