#pragma once
// The recurrence of Mamba-2 over prompts, in chunks of 64 tokens on the grid (tensor cores): what gpu/cuda/mamba2.h does
// for batches with tiles, where the shape allows. Not for others.
//
// B and C are rounded to bf16; what goes with them keeps 16 bits, sums are f32. The bits are not those of the scan token
// after token. Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include "gpu/cuda/mamba2.h"

namespace reprise::gpu::cuda {

/// Whether there is a kernel for the shape: state_size 16, 32, 64, 128 or 256; head_dim a multiple of 16, at most 128.
bool ssd_suits_chunks(const SsdShape& shape);

/// Bytes for so many tiles.
std::size_t ssd_chunks_workspace(const SsdShape& shape, int tiles);

/// Of a batch with tiles.
void ssd_in_chunks(const SsdShape& shape, const Batch& batch, const SsdPass<Bf16>& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
