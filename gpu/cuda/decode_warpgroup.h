#pragma once
// Products of decoded rows with a weight of very many outputs, the head's, by the instructions of compute capability 9.0: the same
// bits as those of gpu/cuda/decode_gemm.cu. Of more than 32 rows the others read x from the cache as often as weights from memory.
//
// Threading: launches into `stream`; no other state.

#include "gpu/cuda/formats.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

/// Whether there is such a kernel for m rows on the current GPU, and it is the way to multiply them.
bool warpgroups_suit(const DeviceWeight& weight, int m, GemmOutput output);

/// y f32 [m, rows of the weight].
void decode_by_warpgroups(const Bf16* x, int m, const DeviceWeight& weight, float* y, StreamHandle stream);
/// The same of rows whose norm the product ends.
void decode_by_warpgroups(const UnscaledRows& rows, int m, const DeviceWeight& weight, float* y,
                          StreamHandle stream);

}  // namespace reprise::gpu::cuda
