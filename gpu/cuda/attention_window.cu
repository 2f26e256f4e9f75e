// What a prefill with a window leaves behind: the keys and values of its last rows, in the ring; and rings as they were
// inside its slices.
#include "gpu/cuda/attention_keys.cuh"
#include "gpu/cuda/attention_parts.h"
#include "gpu/cuda/error.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kKeepThreads = 256;

/// Grid: tiles. A place of the ring gets the last position that belongs there: rows that later ones of the slice would
/// take the place of are left out, so that no two blocks write to the same. Here as below, elements are of kElement bytes.
template <int kElement>
__global__ void __launch_bounds__(kKeepThreads)
    keep_last_rows(AttentionShape shape, Batch batch, std::byte* made) {
  const BatchTile tile = batch.tiles[blockIdx.x];
  const BatchSlice slice = batch.slices[tile.slice];
  const int page = (slice.stored + tile.first) / kGrid;
  const int first = slice.stored + slice.rows - shape.ring_pages * kGrid;  // position that stays
  const int count = min(kGrid, slice.rows - tile.first);
  const auto* from = reinterpret_cast<const uint4*>(key_page<kElement>(shape, slice, tile.slice, made, page));
  auto* to = reinterpret_cast<uint4*>(key_page<kElement>(shape, slice, tile.slice, nullptr, page));
  const int chunks = shape.head_dim * kElement / static_cast<int>(sizeof(uint4));  // of a row of one head
  const int all = 2 * shape.kv_heads * kGrid * chunks;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kKeepThreads) {
    const int row = i / chunks % kGrid;
    if (row < count && page * kGrid + row >= first) to[i] = from[i];
  }
}

/// Grid: tiles, pages of the ring. The ring behind a tile where its state is wanted: pages of the slice itself, and
/// before them what the sequence's ring holds, which keep_last_rows has not changed yet.
template <int kElement>
__global__ void __launch_bounds__(kKeepThreads)
    export_ring(AttentionShape shape, Batch batch, SlotExports exports, std::byte* made) {
  std::byte* const wanted = export_behind(exports, blockIdx.x);
  if (wanted == nullptr) return;
  const BatchTile tile = batch.tiles[blockIdx.x];
  const BatchSlice slice = batch.slices[tile.slice];
  const int page = (slice.stored + tile.first) / kGrid - static_cast<int>(blockIdx.y);
  if (page < 0) return;  // nobody has written there: zeros, as the slot began
  BatchSlice exported = slice;
  exported.slot = wanted;
  const auto* from = reinterpret_cast<const uint4*>(key_page<kElement>(shape, slice, tile.slice, made, page));
  auto* to = reinterpret_cast<uint4*>(key_page<kElement>(shape, exported, tile.slice, nullptr, page));
  const int chunks = shape.head_dim * kElement / static_cast<int>(sizeof(uint4));  // of a row of one head
  const int all = 2 * shape.kv_heads * kGrid * chunks;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kKeepThreads) to[i] = from[i];
}

template <int kElement>
void keep_rows(const AttentionShape& shape, const Batch& batch, const SlotExports& exports, std::byte* made,
               StreamHandle stream) {
  if (exports.tiles != nullptr) {
    const dim3 rings(static_cast<unsigned>(batch.tile_count), static_cast<unsigned>(shape.ring_pages));
    export_ring<kElement><<<rings, kKeepThreads, 0, stream>>>(shape, batch, exports, made);
    check_launch("the rings inside a prefill");
  }
  const auto tiles = static_cast<unsigned>(batch.tile_count);
  keep_last_rows<kElement><<<tiles, kKeepThreads, 0, stream>>>(shape, batch, made);
  check_launch("the window of a prefill");
}

}  // namespace

std::size_t made_pages_bytes(const AttentionShape& shape, int rows, int tile_count) {
  return static_cast<std::size_t>(rows + tile_count * kGrid) * shape.token_bytes();
}

void keep_window(const AttentionShape& shape, const Batch& batch, const SlotExports& exports, std::byte* made,
                 StreamHandle stream) {
  const auto keep = shape.kv == KvType::kF32 ? keep_rows<kElementInRing<KvType::kF32>>
                                             : keep_rows<kElementInRing<KvType::kBF16>>;
  keep(shape, batch, exports, made, stream);
}

}  // namespace reprise::gpu::cuda
