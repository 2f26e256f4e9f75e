#pragma once
// Alternatives of decode_gemm() for bf16 weights and more than a few rows of x, bitwise identical to the
// small-m kernel. gpu/cuda/decode_gemm.cu chooses among them.

#include "gpu/cuda/formats.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

// Tiled GEMM through shared memory (gpu/cuda/decode_tiles.cu).

/// Returns whether the tiled GEMM should be used for m rows.
bool tiles_suit(const DeviceWeight& weight, int m, bool gated);

void decode_in_tiles(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                     StreamHandle stream);
/// Tiled GEMMs with the weights of experts.
extern const ExpertProducts kBf16Experts;
/// With the gate fused into the epilogue.
void decode_in_tiles_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                           StreamHandle stream);
/// Variants that write or read a deferred norm, as decode_bf16_to_stream(), decode_bf16_unscaled() and
/// decode_bf16_unscaled_gated().
void decode_in_tiles_to_stream(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                               const NextRows& next, StreamHandle stream);
void decode_in_tiles_unscaled(const UnscaledRows& rows, int m, const DeviceWeight& weight, void* y,
                              GemmOutput output, StreamHandle stream);
void decode_in_tiles_unscaled_gated(const UnscaledRows& rows, int m, const DeviceWeight& weight,
                                    const GatedRows& to, StreamHandle stream);

// Persistent GEMM for the LM head with 9 to 32 rows (gpu/cuda/decode_staying.cu).

/// Returns whether the persistent GEMM should be used for m rows on the current GPU.
bool blocks_that_stay_suit(const DeviceWeight& weight, int m, GemmOutput output);

/// Writes y f32 [m, rows of the weight].
void decode_by_staying_blocks(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                              StreamHandle stream);
/// The same for input with a deferred norm.
void decode_by_staying_blocks(const UnscaledRows& rows, int m, const DeviceWeight& weight, float* y,
                              StreamHandle stream);

// wgmma GEMM for the LM head (compute capability 9.0, gpu/cuda/decode_warpgroup.cu), for more than 32 rows,
// where the other kernels read x from the L2 cache as often as weights from memory.

/// Returns whether the current GPU has a wgmma kernel for m rows and it should be used.
bool warpgroups_suit(const DeviceWeight& weight, int m, GemmOutput output);

/// Writes y f32 [m, rows of the weight].
void decode_by_warpgroups(const Bf16* x, int m, const DeviceWeight& weight, float* y, StreamHandle stream);
/// The same for input with a deferred norm.
void decode_by_warpgroups(const UnscaledRows& rows, int m, const DeviceWeight& weight, float* y,
                          StreamHandle stream);

}  // namespace reprise::gpu::cuda
