// What a prefill with a window leaves behind: the keys and values of its last rows, in the ring.
#include "gpu/cuda/attention_keys.cuh"
#include "gpu/cuda/attention_parts.h"
#include "gpu/cuda/error.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kKeepThreads = 256;

/// Grid: tiles. A place of the ring gets the last position that belongs there: rows that later ones of the slice would
/// take the place of are left out, so that no two blocks write to the same.
__global__ void __launch_bounds__(kKeepThreads)
    keep_last_rows(AttentionShape shape, Batch batch, std::byte* made) {
  const BatchTile tile = batch.tiles[blockIdx.x];
  const BatchSlice slice = batch.slices[tile.slice];
  const int page = (slice.stored + tile.first) / kGrid;
  const int first = slice.stored + slice.rows - shape.ring_pages * kGrid;  // position that stays
  const int count = min(kGrid, slice.rows - tile.first);
  const auto* from = reinterpret_cast<const uint4*>(key_page(shape, slice, tile.slice, made, page));
  auto* to = reinterpret_cast<uint4*>(key_page(shape, slice, tile.slice, nullptr, page));
  const int chunks = shape.head_dim / 8;  // of a row of one head
  const int all = 2 * shape.kv_heads * kGrid * chunks;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kKeepThreads) {
    const int row = i / chunks % kGrid;
    if (row < count && page * kGrid + row >= first) to[i] = from[i];
  }
}

}  // namespace

std::size_t made_pages_bytes(const AttentionShape& shape, int rows, int tile_count) {
  return static_cast<std::size_t>(rows + tile_count * kGrid) * shape.token_bytes();
}

void keep_window(const AttentionShape& shape, const Batch& batch, std::byte* made, StreamHandle stream) {
  keep_last_rows<<<static_cast<unsigned>(batch.tile_count), kKeepThreads, 0, stream>>>(shape, batch, made);
  check_launch("the window of a prefill");
}

}  // namespace reprise::gpu::cuda
