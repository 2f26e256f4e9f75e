#pragma once
// A step as the kernels see it: slices of sequences whose rows are concatenated into one activation matrix,
// and the slots that receive states from inside the slices. All arrays are in GPU memory and belong to the
// step; kernels take a Batch by value.
//
// Bits, for all kernels of gpu/cuda: the result of a row depends only on that row's sequence, and the order
// of its additions is fixed by the model's shape and the row's position. There are no float atomics, and no
// choice depends on the number of rows, slices or SMs unless all alternatives are bitwise identical. Prefill
// slices begin on the grid of kGrid positions.
//
// Functions that take a StreamHandle only enqueue work on that stream, on the current GPU, and keep no state
// unless their header says otherwise. A template parameter `Row` is the element type of activations, Bf16 or
// float.

#include <cstddef>
#include <cstdint>

namespace reprise::gpu::cuda {

using Bf16 = std::uint16_t;  // raw bits; __nv_bfloat16 in kernels

inline constexpr int kGrid = 64;  // tokens of a page, and rows of a tile

struct BatchSlice {
  std::int32_t first_row;
  std::int32_t rows;        // 1: decode
  std::int32_t stored;      // KV entries already in the pages; index of the first row's entry
  std::byte* slot;          // recurrent state of the sequence
  std::byte* const* pages;  // [ceil((stored + rows) / 64)]
};

/// Slice of a row that only pads a prefill; its results are discarded.
inline constexpr std::int32_t kNoSlice = -1;

/// Up to 64 rows of one slice that share a KV page.
struct BatchTile {
  std::int32_t slice;
  std::int32_t first;  // row within the slice, a multiple of 64
};

struct Batch {
  const BatchSlice* slices;       // [slice_count]
  const BatchTile* tiles;         // [tile_count]: tiles of the prefill slices, slice by slice, ascending
  const std::int32_t* row_slice;  // [rows]: index of the row's slice, or kNoSlice
  const std::int32_t* tokens;     // [rows]
  const std::int32_t* positions;  // [rows], for RoPE
  int slice_count;
  int tile_count;
  int rows;
  int longest;  // most tokens of any slice after the step; sizes launch grids
};

/// Slots that also receive the state at the end of a tile inside a prefill slice; for prefills only. A kernel
/// that updates a part of the slice's slot writes that part to these slots too, bitwise identical to a slice
/// that ends there.
struct SlotExports {
  /// [tile_count]: the slot that receives the state after that tile, which has all 64 rows; null entry: none.
  /// Null: no exports in this batch.
  std::byte* const* tiles = nullptr;
  /// [slice_count]: index of the first tile of a slice; valid if the batch has tiles.
  const std::int32_t* first_tiles = nullptr;
};

#ifdef __CUDACC__
__device__ __forceinline__ std::byte* export_after_tile(const SlotExports& exports, std::size_t tile) {
  return exports.tiles == nullptr ? nullptr : exports.tiles[tile];
}
/// Returns the slot for the state after the tile of row `row` of a slice, or null.
__device__ __forceinline__ std::byte* export_after_row(const SlotExports& exports, int slice, int row) {
  return exports.tiles == nullptr ? nullptr : exports.tiles[exports.first_tiles[slice] + row / kGrid];
}

/// A point in a slice at which the state is written: after its first `rows` rows.
struct WritePoint {
  BatchSlice slice;
  std::byte* slot;  // destination; null: nothing is written
  int rows;
};
/// Returns write point `index`: the ends of all slices, then the ends of all tiles.
__device__ __forceinline__ WritePoint write_point(const Batch& batch, const SlotExports& exports, int index) {
  if (index < batch.slice_count) {
    const BatchSlice slice = batch.slices[index];
    return {slice, slice.slot, slice.rows};
  }
  const int tile_index = index - batch.slice_count;
  const BatchTile tile = batch.tiles[tile_index];
  return {batch.slices[tile.slice], export_after_tile(exports, tile_index), tile.first + kGrid};
}
#endif

}  // namespace reprise::gpu::cuda
