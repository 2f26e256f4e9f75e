#pragma once
// A step as kernels see it: slices of sequences, one after another as rows of the activations, and where states are left
// inside of slices.
//
// Everything here lies in the GPU's memory and belongs to the step. Kernels take a Batch by value.
//
// Exactness: what a kernel writes for a row may depend on that row's sequence alone, in an order of additions
// that is fixed by the model's sizes and the row's position. No atomics on floats, no choice by the number of
// rows, slices or multiprocessors. Prefill slices begin on the grid of kPageTokens positions.

#include <cstddef>
#include <cstdint>

namespace reprise::gpu::cuda {

using Bf16 = std::uint16_t;  // bits; __nv_bfloat16 in kernels

inline constexpr int kGrid = 64;  // positions; also tokens of a page and rows of a tile

struct BatchSlice {
  std::int32_t first_row;
  std::int32_t rows;        // 1 for a decoded token
  std::int32_t stored;      // tokens before this slice: the position in pages of its first row
  std::byte* slot;          // state of the sequence
  std::byte* const* pages;  // [ceil((stored + rows) / 64)]
};

/// Whose a row is that only fills up a prefill: what is made of it goes nowhere.
inline constexpr std::int32_t kNoSlice = -1;

/// Up to 64 rows of one slice that stand in one page.
struct BatchTile {
  std::int32_t slice;
  std::int32_t first;  // row in the slice, a multiple of 64
};

struct Batch {
  const BatchSlice* slices;       // [slice_count]
  const BatchTile* tiles;         // [tile_count]: slice by slice, ascending; of prefills alone
  const std::int32_t* row_slice;  // [rows]: whose row it is, or kNoSlice
  const std::int32_t* tokens;     // [rows]
  const std::int32_t* positions;  // [rows], for rope
  int slice_count;
  int tile_count;
  int rows;
  int longest;  // most tokens that a slice has after the step: for sizes of launches
};

/// States that a prefill leaves inside its slices, beside those at their ends: a kernel that updates a part of a slot writes
/// that part to the slots named here too, with the bits that a slice which ended there would leave.
struct SlotExports {
  /// [tile_count] of the batch: the slot that gets the state as it is behind that tile, whose 64 rows are all there; null:
  /// none. Null itself where no place is wanted.
  std::byte* const* tiles = nullptr;
  /// [slice_count]: with which tile a slice begins; where there are tiles.
  const std::int32_t* first_tiles = nullptr;
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
