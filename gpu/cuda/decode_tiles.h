#pragma once
// The products of decode_gemm() with weights of bf16 for more than a few rows of x, through shared memory: the same bits
// as those of gpu/cuda/decode_gemm.cu.
//
// Threading: launches into `stream`; no other state.

#include "gpu/cuda/formats.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

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

}  // namespace reprise::gpu::cuda
