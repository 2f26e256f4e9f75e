#pragma once
// Grouped GEMMs of experts (MoE) for a format with the loaders `Ring` (gemm/small_m.cuh) and `Tiles`
// (gemm/tiled.cuh).
//
// Computes: for each tile of routed rows y = x W_e^T with the weights of the tile's expert e. Chosen when:
// tiles of 8 rows use the small-m kernel, tiles of 64 the tiled one. Mapping: blockIdx.y is the tile; tiles
// past the device-side count exit. Bits: those of gemm/decode_product.cuh.

#include "gpu/cuda/experts/experts.h"
#include "gpu/cuda/gemm/decode_product.cuh"
#include "gpu/cuda/gemm/small_m.cuh"
#include "gpu/cuda/gemm/tiled.cuh"

namespace reprise::gpu::cuda::product {

struct ExpertTiles {
  static constexpr bool kKnownLate = true;  // the previous kernel is the router
  const std::byte* w;
  std::size_t bytes;  // per expert
  const ExpertTile* tile_at;
  const std::int32_t* tile_count;
  const std::int32_t* list;
  const std::byte* shared;  // null: no shared expert
  int shared_tile;          // after all others
  int shared_first;         // its first routed row
  int shared_end;

  ExpertTiles(const ExpertWeights& weights, const RoutedRows& tables, bool x_is_routed)
      : w(static_cast<const std::byte*>(weights.one.data)),
        bytes(weights.bytes),
        tile_at(tables.tile_at),
        tile_count(tables.tile_count),
        list(x_is_routed ? nullptr : tables.row_at),
        shared(static_cast<const std::byte*>(weights.shared)),
        shared_tile(tables.tiles),
        shared_first(tables.entries),
        shared_end(tables.entries + tables.rows) {}

  int tiles() const { return shared_tile + (shared == nullptr ? 0 : 1); }

  __device__ RowTile at(int tile, int /*rows*/) const {
    if (tile == shared_tile) return {shared, shared_first, shared_end, list};
    // Both loads are issued before either is awaited.
    const int4 known = *reinterpret_cast<const int4*>(tile_at + tile);
    if (tile >= *tile_count) return {w, 0, 0, nullptr};
    return {w + known.x * bytes, known.y, known.z, list};
  }
};

template <template <int, class> class Ring, template <class> class Tiles>
struct GroupedProducts {
  /// Small-m blocks have kBlockOutputs outputs; with more columns fewer outputs keep a block busy.
  template <int kBlockOutputs, class Output>
  static void launch(const Bf16* x, bool x_is_routed, const ExpertWeights& weights, const RoutedRows& tables,
                     const Output& output, StreamHandle stream) {
    const ExpertTiles tiles(weights, tables, x_is_routed);
    if (tables.tile_rows == kSmallMRows) {
      launch_small_m_at<Ring<kBlockOutputs, Output>>(PlainRows{x}, tiles, tiles.tiles(), weights.one, output,
                                                     stream);
    } else {
      launch_tiled_at<Tiles, 8, 1>(x, tiles, tiles.tiles(), weights.one, output, stream);
    }
  }
  static void gated(const Bf16* x, const ExpertWeights& weights, const RoutedRows& tables,
                    const GatedRows& to, StreamHandle stream) {
    launch<16>(x, false, weights, tables, GatedOutput(to, weights.one), stream);
  }
  static void product(const Bf16* x, bool x_is_routed, const ExpertWeights& weights, const RoutedRows& tables,
                      void* y, GemmOutput kind, StreamHandle stream) {
    launch<32>(x, x_is_routed, weights, tables, AnyOutput{y, weights.one.rows, weights.one.stride(), kind},
               stream);
  }
  static constexpr ExpertProducts kProducts{.gated = gated, .product = product};
};

}  // namespace reprise::gpu::cuda::product
