#pragma once
// Kimi Delta Attention over prompts, in chunks of 64 tokens on the grid (tensor cores): what gpu/cuda/channel_delta.h does
// for batches with tiles, where the shape allows. Not for others.
//
// What the tensor cores multiply keeps 16 bits, sums are f32. The bits are not those of the scan token after token.
// Exactness: as gpu/cuda/batch.h. Threading: launches into `stream`; no other state.

#include "gpu/cuda/channel_delta.h"

namespace reprise::gpu::cuda {

/// Whether there is a kernel for the shape: head_dim 16, 32, 64 or 128.
bool kda_suits_chunks(const ChannelDeltaShape& shape);

/// Bytes for so many tiles.
std::size_t kda_chunks_workspace(const ChannelDeltaShape& shape, int tiles);

/// Of a batch with tiles. pass.q, pass.k and pass.beta as the rule takes them (gpu/channel_delta.h), pass.decay the
/// logarithms of the decays; these are used up.
void kda_in_chunks(const ChannelDeltaShape& shape, const Batch& batch, const ChannelDeltaPass& pass,
                   StreamHandle stream);

}  // namespace reprise::gpu::cuda
