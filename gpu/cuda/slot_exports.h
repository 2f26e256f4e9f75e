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
#endif

}  // namespace reprise::gpu::cuda
