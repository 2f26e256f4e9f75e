#pragma once
// Tiles of rows that go through experts, as products ask for them (gpu/cuda/decode_product.cuh). Included by CUDA sources
// alone.

#include "gpu/cuda/decode_product.cuh"
#include "gpu/cuda/experts.h"

namespace reprise::gpu::cuda::product {

struct ExpertTiles {
  static constexpr bool kKnownLate = true;  // the router is in front
  const std::byte* w;
  std::size_t bytes;  // of an expert
  const ExpertTile* tile_at;
  const std::int32_t* tile_count;
  const std::int32_t* list;
  const std::byte* shared;  // null: no such
  int shared_tile;          // behind all others
  int shared_first;         // place
  int shared_end;

  ExpertTiles(const ExpertWeights& weights, const ExpertPlaces& places, bool x_is_by_place)
      : w(static_cast<const std::byte*>(weights.one.data)),
        bytes(weights.bytes),
        tile_at(places.tile_at),
        tile_count(places.tile_count),
        list(x_is_by_place ? nullptr : places.row_at),
        shared(static_cast<const std::byte*>(weights.shared)),
        shared_tile(places.tiles),
        shared_first(places.places),
        shared_end(places.places + places.rows) {}

  int tiles() const { return shared_tile + (shared == nullptr ? 0 : 1); }

  __device__ RowTile at(int tile, int /*rows*/) const {
    if (tile == shared_tile) return {shared, shared_first, shared_end, list};
    // Both at once: neither waits for the other.
    const int4 known = *reinterpret_cast<const int4*>(tile_at + tile);
    if (tile >= *tile_count) return {w, 0, 0, nullptr};
    return {w + known.x * bytes, known.y, known.z, list};
  }
};

}  // namespace reprise::gpu::cuda::product
