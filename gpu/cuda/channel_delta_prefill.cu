// Kimi Delta Attention over prompts: what every chunk has by itself, then the state chunk after chunk.
#include "gpu/cuda/channel_delta_prefill.h"

#include <type_traits>

#include "base/check.h"
#include "gpu/cuda/channel_delta_chunks.cuh"
#include "gpu/cuda/channel_delta_scan.cuh"
#include "gpu/cuda/error.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kFewKdaStrips = 66;  // blocks of the scan: half of a large GPU's multiprocessors

/// Calls run with head_dim as a constant.
template <class Run>
auto with_head_dim(int head_dim, const Run& run) {
  switch (head_dim) {
    case 16:
      return run(std::integral_constant<int, 16>());
    case 32:
      return run(std::integral_constant<int, 32>());
    case 64:
      return run(std::integral_constant<int, 64>());
    default:
      return run(std::integral_constant<int, 128>());
  }
}

template <int kDim, int kColumns>
void launch_kda_strips(const KdaSpace& space, const ChannelDeltaShape& shape, const Batch& batch,
                       const ChannelDeltaPass& pass, StreamHandle stream) {
  constexpr int kBytes = KdaScanMemory<kDim, kColumns>::kBytes;
  static_assert(kBytes <= 48 * 1024, "more has to be asked for");
  const dim3 grid(kDim / kColumns * shape.heads, batch.slice_count);
  scan_kda_chunks<kDim, kColumns>
      <<<grid, kKdaScanThreads, kBytes, stream>>>(space, shape.state_offset, batch, pass);
  check_launch("scan_kda_chunks");
}

template <int kDim>
void launch_kda_chunks(const ChannelDeltaShape& shape, const Batch& batch, const ChannelDeltaPass& pass,
                       StreamHandle stream) {
  const KdaSpace space{.heads = shape.heads, .chunks = pass.workspace};
  const dim3 grid(shape.heads, batch.tile_count);
  prepare_kda_chunks<kDim><<<grid, kKdaThreads, 0, stream>>>(space, batch, pass);
  check_launch("prepare_kda_chunks");
  if constexpr (kDim >= 32) {
    // Narrow strips have the same bits, and more blocks.
    if (kDim / 32 * shape.heads * batch.slice_count > kFewKdaStrips) {
      launch_kda_strips<kDim, 32>(space, shape, batch, pass, stream);
      return;
    }
  }
  launch_kda_strips<kDim, 16>(space, shape, batch, pass, stream);
}

}  // namespace

bool kda_suits_chunks(const ChannelDeltaShape& shape) {
  const int dim = shape.head_dim;
  return (dim == 16 || dim == 32 || dim == 64 || dim == 128) && shape.state_offset % 16 == 0;
}

std::size_t kda_chunks_workspace(const ChannelDeltaShape& shape, int tiles) {
  const std::size_t chunks = static_cast<std::size_t>(tiles) * static_cast<std::size_t>(shape.heads);
  return chunks * with_head_dim(shape.head_dim,
                                [](auto dim) { return std::size_t{KdaChunk<decltype(dim)::value>::kBytes}; });
}

void kda_in_chunks(const ChannelDeltaShape& shape, const Batch& batch, const ChannelDeltaPass& pass,
                   StreamHandle stream) {
  REPRISE_CHECK(kda_suits_chunks(shape), "the chunked delta rule has no kernel for this shape");
  with_head_dim(shape.head_dim,
                [&](auto dim) { launch_kda_chunks<decltype(dim)::value>(shape, batch, pass, stream); });
}

}  // namespace reprise::gpu::cuda
