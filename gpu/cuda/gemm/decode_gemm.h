#pragma once
// Alternatives to the small-m GEMM for bf16 weights and more rows of x, bitwise identical to it;
// decode_gemm.cu chooses.

#include "gpu/cuda/gemm/formats.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/stream.h"

namespace reprise::gpu::cuda {

// Tiled GEMM (tiled.cu).

/// Returns whether the tiled GEMM should be used for m rows.
bool can_use_tiled(const DeviceWeight& weight, int m, bool gated);

void decode_in_tiles(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                     StreamHandle stream);
/// Grouped GEMMs of experts.
extern const ExpertProducts kBf16Experts;
void decode_in_tiles_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                           StreamHandle stream);
/// Variants that write or read a deferred norm, as decode_bf16_to_residual() and decode_bf16_unscaled().
void decode_in_tiles_to_residual(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                                 const DeferredNormOutput& next, StreamHandle stream);
void decode_in_tiles_unscaled(const DeferredNormRows& rows, int m, const DeviceWeight& weight, void* y,
                              GemmOutput output, StreamHandle stream);
void decode_in_tiles_unscaled_gated(const DeferredNormRows& rows, int m, const DeviceWeight& weight,
                                    const GatedRows& to, StreamHandle stream);

// Persistent GEMM for the LM head with 9 to 32 rows (persistent.cu).

/// Returns whether the persistent GEMM should be used for m rows on the current GPU.
bool can_use_persistent(const DeviceWeight& weight, int m, GemmOutput output);

/// Writes y f32 [m, weight.rows].
void decode_persistent(const Bf16* x, int m, const DeviceWeight& weight, float* y, StreamHandle stream);
void decode_persistent(const DeferredNormRows& rows, int m, const DeviceWeight& weight, float* y,
                       StreamHandle stream);

// wgmma GEMM for the LM head (compute capability 9.0, decode_wgmma.cu), for more than 32 rows, where the
// other kernels read x from L2 as often as weights from memory.

/// Returns whether the wgmma GEMM should be used for m rows on the current GPU.
bool can_use_decode_wgmma(const DeviceWeight& weight, int m, GemmOutput output);

/// Writes y f32 [m, weight.rows].
void decode_by_warpgroups(const Bf16* x, int m, const DeviceWeight& weight, float* y, StreamHandle stream);
void decode_by_warpgroups(const DeferredNormRows& rows, int m, const DeviceWeight& weight, float* y,
                          StreamHandle stream);

}  // namespace reprise::gpu::cuda
