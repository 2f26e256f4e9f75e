#pragma once
// Tiled scan for prefill: a diagonal recurrence h = decay h + input over all tiles of 64 rows in parallel.
// The effect of a tile on the state is a decay and an addend, which do not depend on the state:
//   sum_tiles    each tile from zero: its end state and its total decay
//   carry_tiles  per slice, tile after tile: h = total decay * h + end state; stores each initial state
//   emit_tiles   each tile again from its initial state: the outputs
//
// Bits: the state after a tile, whole or partial, is always the one of carry_tiles, never that of emit_tiles.
// So it is the same in a slice that continues, in one that ends there, and in an export. Decode uses other
// kernels, whose bits differ.
//
// Mapping: a thread has a column of the state, all elements in registers. The decays of a column over a tile
// are summarized in one float, the total: a sum of exponents, or a product. The workspace is a state and a
// row of totals per tile: 45 MB for 8,192 tokens of 5,120 channels with 16 elements.
//
// A Rule is a plain struct passed by value:
//   static constexpr int kElements          max elements of a column; missing ones are and stay zero
//   static constexpr float kNoRows          the total over no rows
//   int columns, size                       size: elements of a column
//   std::size_t elements                    elements of a state, with padding
//   float* state(std::byte* slot) const     [numbers]
//   std::size_t index_of(int column, int n) const             index in a state
//   int column_of(std::size_t element) const                 >= columns: padding
//   float rate(std::size_t element) const, decay(float rate, float total) const       of one element, over rows
//   struct Shared; void share(Shared&, int first_row, int rows) const       loads data of all columns
//   struct Column; Column column(int column) const            a thread's weights
//   struct Input; Input read(const TileToken&) const          of a token; may be repeated, or unused
//   void sum(const Column&, const Shared&, const Input&, const TileToken&, float (&h)[kElements],
//            float& total) const
//   struct Again; Again read_again(const TileToken&) const    as read(), after sum() of the same token
//   void emit(const Column&, const Shared&, const Again&, const TileToken&, float (&h)[kElements]) const
// share() is called by all threads of a block.

#include <cstddef>

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kTileThreads = 128;   // columns of a block
constexpr int kTileRowsAhead = 4;   // loaded together
constexpr int kCarryThreads = 128;  // elements of a block
constexpr int kCarryTiles = 8;      // loaded together

/// Blocks per SM that have registers for their elements.
template <class Rule>
constexpr int kTileBlocks = Rule::kElements <= 16 ? 7 : 4;

struct TileToken {
  int first_row;  // first row of its tile in the batch
  int row;        // row in the tile
  int column;
  bool begins;  // first token of a sequence

  /// Returns the token's element in rows of `stride`. Offsets within a tile fit 32 bits, which is cheaper.
  template <class T>
  __device__ T* in(T* rows, int stride) const {
    return rows + static_cast<std::size_t>(first_row) * stride + (row * stride + column);
  }
};

struct TileStates {
  float* states;  // [tiles, numbers]: end state of each tile from zero; after carry_tiles its initial state
  float* totals;  // [tiles, columns]
};

std::size_t tile_states_bytes(std::size_t elements, int columns, int tiles) {
  return (elements + static_cast<std::size_t>(columns)) * static_cast<std::size_t>(tiles) * sizeof(float);
}

struct TileRows {
  int first;  // row in the batch
  int rows;   // 1 to 64
  bool begins;
};

__device__ __forceinline__ TileRows rows_of_tile(const Batch& batch, std::size_t index) {
  const BatchTile tile = batch.tiles[index];
  const BatchSlice& slice = batch.slices[tile.slice];
  return {.first = slice.first_row + tile.first,
          .rows = min(kGrid, slice.rows - tile.first),
          .begins = slice.stored == 0 && tile.first == 0};
}

__device__ __forceinline__ int first_tile_of(const Batch& batch, int slice) {
  int low = 0;
  int high = batch.tile_count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (batch.tiles[middle].slice < slice) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Calls step(token, read(token)) for the rows of a tile in order.
template <class Read, class Step>
__device__ __forceinline__ void walk_tile(const TileRows& tile, int column, const Read& read,
                                          const Step& step) {
  const auto token = [&](int row) {
    return TileToken{
        .first_row = tile.first, .row = row, .column = column, .begins = tile.begins && row == 0};
  };
  for (int first = 0; first < tile.rows; first += kTileRowsAhead) {
    decltype(read(token(0))) inputs[kTileRowsAhead];
#pragma unroll
    for (int i = 0; i < kTileRowsAhead; ++i) inputs[i] = read(token(min(first + i, tile.rows - 1)));
#pragma unroll
    for (int i = 0; i < kTileRowsAhead; ++i) {
      if (first + i < tile.rows) step(token(first + i), inputs[i]);
    }
  }
}

/// Grid: groups of columns, tiles.
template <class Rule>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks<Rule>)
    sum_tiles(Rule rule, Batch batch, TileStates space) {
  __shared__ typename Rule::Shared shared;
  const std::size_t index = blockIdx.y;
  const TileRows tile = rows_of_tile(batch, index);
  rule.share(shared, tile.first, tile.rows);
  __syncthreads();
  const int column = static_cast<int>(blockIdx.x * kTileThreads + threadIdx.x);
  if (column >= rule.columns) return;
  const typename Rule::Column own = rule.column(column);
  float h[Rule::kElements] = {};
  float total = Rule::kNoRows;
  walk_tile(
      tile, column, [&](const TileToken& token) { return rule.read(token); },
      [&](const TileToken& token, const typename Rule::Input& input) {
        rule.sum(own, shared, input, token, h, total);
      });
  float* end = space.states + index * rule.elements;
#pragma unroll
  for (int n = 0; n < Rule::kElements; ++n) {
    if (n < rule.size) end[rule.index_of(column, n)] = h[n];
  }
  space.totals[index * rule.columns + column] = total;
}

/// Grid: groups of elements, slices.
template <class Rule>
__global__ void __launch_bounds__(kCarryThreads)
    carry_tiles(Rule rule, Batch batch, SlotExports exports, TileStates space) {
  const std::size_t element = static_cast<std::size_t>(blockIdx.x) * kCarryThreads + threadIdx.x;
  if (element >= rule.elements) return;
  const int column = rule.column_of(element);
  if (column >= rule.columns) return;
  const BatchSlice slice = batch.slices[blockIdx.y];
  const auto first = static_cast<std::size_t>(first_tile_of(batch, static_cast<int>(blockIdx.y)));
  const int tiles = (slice.rows + kGrid - 1) / kGrid;
  const float rate = rule.rate(element);
  float h = rule.state(slice.slot)[element];
  for (int begin = 0; begin < tiles; begin += kCarryTiles) {
    float end[kCarryTiles];
    float total[kCarryTiles];
    std::byte* exported[kCarryTiles];
#pragma unroll
    for (int i = 0; i < kCarryTiles; ++i) {
      const std::size_t tile = first + min(begin + i, tiles - 1);
      end[i] = space.states[tile * rule.elements + element];
      total[i] = space.totals[tile * rule.columns + column];
      exported[i] = export_after_tile(exports, tile);
    }
#pragma unroll
    for (int i = 0; i < kCarryTiles; ++i) {
      if (begin + i >= tiles) break;
      space.states[(first + begin + i) * rule.elements + element] = h;
      h = fmaf(rule.decay(rate, total[i]), h, end[i]);
      if (exported[i] != nullptr) rule.state(exported[i])[element] = h;
    }
  }
  rule.state(slice.slot)[element] = h;
}

/// Grid: groups of columns, tiles.
template <class Rule>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks<Rule>)
    emit_tiles(Rule rule, Batch batch, TileStates space) {
  __shared__ typename Rule::Shared shared;
  const std::size_t index = blockIdx.y;
  const TileRows tile = rows_of_tile(batch, index);
  rule.share(shared, tile.first, tile.rows);
  __syncthreads();
  const int column = static_cast<int>(blockIdx.x * kTileThreads + threadIdx.x);
  if (column >= rule.columns) return;
  const typename Rule::Column own = rule.column(column);
  const float* begin = space.states + index * rule.elements;
  float h[Rule::kElements];
#pragma unroll
  for (int n = 0; n < Rule::kElements; ++n) h[n] = n < rule.size ? begin[rule.index_of(column, n)] : 0.0F;
  walk_tile(
      tile, column, [&](const TileToken& token) { return rule.read_again(token); },
      [&](const TileToken& token, const typename Rule::Again& input) {
        rule.emit(own, shared, input, token, h);
      });
}

/// Requires: the batch has tiles; workspace has tile_states_bytes(), aligned to floats.
template <class Rule>
void scan_tiles(const Rule& rule, const Batch& batch, const SlotExports& exports, std::byte* workspace,
                StreamHandle stream, const char* what) {
  REPRISE_CHECK(rule.columns > 0 && rule.size >= 1 && rule.size <= Rule::kElements,
                "the tiled scan has no kernel for this state size");
  REPRISE_CHECK(batch.tile_count > 0 && workspace != nullptr, "the tiled scan has no tiles or no workspace");
  auto* states = reinterpret_cast<float*>(workspace);
  const TileStates space{.states = states,
                         .totals = states + rule.elements * static_cast<std::size_t>(batch.tile_count)};
  const auto groups = static_cast<unsigned>((rule.columns + kTileThreads - 1) / kTileThreads);
  const auto carries = static_cast<unsigned>((rule.elements + kCarryThreads - 1) / kCarryThreads);
  const dim3 tiles(groups, static_cast<unsigned>(batch.tile_count));
  const dim3 slices(carries, static_cast<unsigned>(batch.slice_count));
  sum_tiles<Rule><<<tiles, kTileThreads, 0, stream>>>(rule, batch, space);
  check_launch(what);
  carry_tiles<Rule><<<slices, kCarryThreads, 0, stream>>>(rule, batch, exports, space);
  check_launch(what);
  emit_tiles<Rule><<<tiles, kTileThreads, 0, stream>>>(rule, batch, space);
  check_launch(what);
}

}  // namespace
}  // namespace reprise::gpu::cuda
