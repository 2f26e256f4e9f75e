#pragma once
// Forms of decode_gemm() with weights of bf16 for more than a few rows of x: the same bits as those of
// gpu/cuda/decode_gemm.cu, which chooses among them.
//
// Threading: launches into `stream`; no other state.

#include "gpu/cuda/formats.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

// Tiles, through shared memory (gpu/cuda/decode_tiles.cu).

/// Whether they are to be used for m rows.
bool tiles_suit(const DeviceWeight& weight, int m, bool gated);

void decode_in_tiles(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                     StreamHandle stream);
/// With the weights of experts.
extern const ExpertProducts kBf16Experts;
/// With the gate behind it.
void decode_in_tiles_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                           StreamHandle stream);
/// As decode_bf16_to_stream() and those that read what it leaves.
void decode_in_tiles_to_stream(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                               const NextRows& next, StreamHandle stream);
void decode_in_tiles_unscaled(const UnscaledRows& rows, int m, const DeviceWeight& weight, void* y,
                              GemmOutput output, StreamHandle stream);
void decode_in_tiles_unscaled_gated(const UnscaledRows& rows, int m, const DeviceWeight& weight,
                                    const GatedRows& to, StreamHandle stream);

// Blocks that stay: 9 to 32 rows with very many outputs, the head's (gpu/cuda/decode_staying.cu).

/// Whether they are the way to multiply m rows on the current GPU.
bool blocks_that_stay_suit(const DeviceWeight& weight, int m, GemmOutput output);

/// y f32 [m, rows of the weight].
void decode_by_staying_blocks(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                              StreamHandle stream);
/// The same of rows whose norm the product ends.
void decode_by_staying_blocks(const UnscaledRows& rows, int m, const DeviceWeight& weight, float* y,
                              StreamHandle stream);

// Warpgroups: rows with very many outputs, the head's, by the instructions of compute capability 9.0
// (gpu/cuda/decode_warpgroup.cu). Of more than 32 rows the others read x from the cache as often as weights from memory.

/// Whether there is such a kernel for m rows on the current GPU, and it is the way to multiply them.
bool warpgroups_suit(const DeviceWeight& weight, int m, GemmOutput output);

/// y f32 [m, rows of the weight].
void decode_by_warpgroups(const Bf16* x, int m, const DeviceWeight& weight, float* y, StreamHandle stream);
/// The same of rows whose norm the product ends.
void decode_by_warpgroups(const UnscaledRows& rows, int m, const DeviceWeight& weight, float* y,
                          StreamHandle stream);

}  // namespace reprise::gpu::cuda
