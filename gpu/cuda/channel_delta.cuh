#pragma once
// The workspace of Kimi Delta Attention's prefill in chunks of 64 tokens. Included by CUDA sources alone, with internal
// linkage.
//
// Everything that meets the state or V' lies there as split A fragments (chunk_triangles.cuh), so that the scan takes its
// operands from there as they are, without a way through shared memory.

#include <cstddef>

#include "gpu/cuda/channel_delta.h"
#include "gpu/cuda/chunk_triangles.cuh"

namespace reprise::gpu::cuda {
namespace {

/// What a chunk of a head has there. With G the sums of the logarithms of decays from the chunk's start to a token, itself
/// included. Rows beyond the end of a slice have no key and query, and add nothing to G.
template <int kDim>
struct KdaChunk {
  // k e^G and q e^G [64, head_dim]: blocks by rows, then by columns; k high, k low, q high, q low of a block.
  static constexpr int kRecall = 0;
  // (k e^{G_63 - G})^T [head_dim, 64]: blocks by rows, then by columns; high, low of a block.
  static constexpr int kFade = kRecall + 4 * (kDim / 16) * 4 * kBlockBytes;
  // T high, T low, P high, P low.
  static constexpr int kMatrices = kFade + kDim / 16 * 4 * 2 * kBlockBytes;
  static constexpr int kWhole = kMatrices + 4 * kBlocks * kBlockBytes;  // e^{G_63} [head_dim], f32
  static constexpr int kBytes = kWhole + kDim * 4;

  __device__ static constexpr int recall_at(int row_block, int step) {
    return kRecall + (row_block * (kDim / 16) + step) * 4 * kBlockBytes;
  }
  __device__ static constexpr int fade_at(int channel_block, int step) {
    return kFade + (channel_block * 4 + step) * 2 * kBlockBytes;
  }
};

/// Of a prefill.
struct KdaSpace {
  int heads;
  std::byte* chunks;  // [tiles, heads] of KdaChunk
};

}  // namespace
}  // namespace reprise::gpu::cuda
