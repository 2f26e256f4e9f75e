#pragma once
// States that a prefill leaves inside its slices, beside those at their ends: a kernel that updates a part of a slot writes
// that part to the slots named here too, with the bits that a slice which ended there would leave.
//
// Lies in the GPU's memory and belongs to the step, as gpu/cuda/batch.h. Kernels take it by value.

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/batch.h"

namespace reprise::gpu::cuda {

struct SlotExports {
  /// [tile_count] of the batch: the slot that gets the state as it is behind that tile, whose 64 rows are all there; null:
  /// none. Null itself where no place is wanted.
  std::byte* const* tiles = nullptr;
  const std::int32_t* first_tiles =
      nullptr;  // [slice_count]: with which tile a slice begins; where there are tiles
};

#ifdef __CUDACC__
__device__ __forceinline__ std::byte* export_behind(const SlotExports& exports, std::size_t tile) {
  return exports.tiles == nullptr ? nullptr : exports.tiles[tile];
}
/// The same behind the tile with row `row` of a slice.
__device__ __forceinline__ std::byte* export_behind_row(const SlotExports& exports, int slice, int row) {
  return exports.tiles == nullptr ? nullptr : exports.tiles[exports.first_tiles[slice] + row / kGrid];
}

/// A place where a state is left: `rows` of its slice are behind it.
struct StatePlace {
  BatchSlice slice;
  std::byte* slot;  // null: none is wanted here
  int rows;
};
/// Of the ends of all slices, and then of all tiles.
__device__ __forceinline__ StatePlace state_place(const Batch& batch, const SlotExports& exports, int index) {
  if (index < batch.slice_count) {
    const BatchSlice slice = batch.slices[index];
    return {slice, slice.slot, slice.rows};
  }
  const int tile_index = index - batch.slice_count;
  const BatchTile tile = batch.tiles[tile_index];
  return {batch.slices[tile.slice], export_behind(exports, tile_index), tile.first + kGrid};
}
#endif

}  // namespace reprise::gpu::cuda
