#pragma once
// Gated DeltaNet for one token of few sequences: a key head by a cluster of blocks instead of one, so that all
// multiprocessors have a share. The bits are those of the other kernel (gpu/cuda/delta_net_decode.cu). Not for others.

#include "gpu/cuda/delta_net.h"

namespace reprise::gpu::cuda {

/// Whether there is such a kernel for the shape, on this thread's GPU, and it pays for so many sequences.
bool suits_clusters(const DeltaNetShape& shape, int slices);

void delta_net_decode_in_clusters(const DeltaNetShape& shape, const DeltaNetWeights& weights,
                                  const Batch& batch, const DeltaNetPass<Bf16>& pass, StreamHandle stream);

}  // namespace reprise::gpu::cuda
