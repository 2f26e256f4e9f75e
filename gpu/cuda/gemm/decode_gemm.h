#pragma once
// Alternatives of decode_gemm() for bf16 weights and more than a few rows of x, bitwise identical to the
// small-m kernel. decode_gemm.cu chooses among them.

#include "gpu/cuda/gemm/formats.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/stream.h"

namespace reprise::gpu::cuda {

// Tiled GEMM through shared memory (tiled.cu).

/// Returns whether the tiled GEMM should be used for m rows.
bool can_use_tiled(const DeviceWeight& weight, int m, bool gated);

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
                               const DeferredNormOutput& next, StreamHandle stream);
void decode_in_tiles_unscaled(const DeferredNormRows& rows, int m, const DeviceWeight& weight, void* y,
                              GemmOutput output, StreamHandle stream);
void decode_in_tiles_unscaled_gated(const DeferredNormRows& rows, int m, const DeviceWeight& weight,
                                    const GatedRows& to, StreamHandle stream);

// Persistent GEMM for the LM head with 9 to 32 rows (persistent.cu).

/// Returns whether the persistent GEMM should be used for m rows on the current GPU.
bool can_use_persistent(const DeviceWeight& weight, int m, GemmOutput output);

/// Writes y f32 [m, rows of the weight].
void decode_persistent(const Bf16* x, int m, const DeviceWeight& weight, float* y, StreamHandle stream);
/// The same for input with a deferred norm.
void decode_persistent(const DeferredNormRows& rows, int m, const DeviceWeight& weight, float* y,
                       StreamHandle stream);

// wgmma GEMM for the LM head (compute capability 9.0, decode_wgmma.cu), for more than 32 rows, where the
// other kernels read x from the L2 cache as often as weights from memory.

/// Returns whether the current GPU has a wgmma kernel for m rows and it should be used.
bool can_use_decode_wgmma(const DeviceWeight& weight, int m, GemmOutput output);

/// Writes y f32 [m, rows of the weight].
void decode_by_warpgroups(const Bf16* x, int m, const DeviceWeight& weight, float* y, StreamHandle stream);
/// The same for input with a deferred norm.
void decode_by_warpgroups(const DeferredNormRows& rows, int m, const DeviceWeight& weight, float* y,
                          StreamHandle stream);

}  // namespace reprise::gpu::cuda
