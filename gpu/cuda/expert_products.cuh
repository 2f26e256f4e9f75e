#pragma once
// The products of experts with their rows, for a format whose weights come by `Ring` and `Tiles` (gpu/cuda/decode_skinny.cuh,
// gpu/cuda/decode_tiled.cuh). Included by CUDA sources alone.

#include "gpu/cuda/decode_skinny.cuh"
#include "gpu/cuda/decode_tiled.cuh"
#include "gpu/cuda/expert_tiles.cuh"

namespace reprise::gpu::cuda::product {

template <template <int, class> class Ring, template <class> class Tiles>
struct GroupedProducts {
  /// Blocks of kBlockOutputs where rows are few: more where columns are, so that a block has something to do.
  template <int kBlockOutputs, class Output>
  static void launch(const Bf16* x, bool x_is_by_place, const ExpertWeights& weights,
                     const ExpertPlaces& places, const Output& output, StreamHandle stream) {
    const ExpertTiles tiles(weights, places, x_is_by_place);
    if (places.tile_rows == kSkinnyRows) {
      launch_skinny_at<Ring<kBlockOutputs, Output>>(PlainRows{x}, tiles, tiles.tiles(), weights.one, output,
                                                    stream);
    } else {
      launch_tiled_at<Tiles, 8, 1>(x, tiles, tiles.tiles(), weights.one, output, stream);
    }
  }
  static void gated(const Bf16* x, const ExpertWeights& weights, const ExpertPlaces& places,
                    const GatedRows& to, StreamHandle stream) {
    launch<16>(x, false, weights, places, GatedOutput(to, weights.one), stream);
  }
  static void product(const Bf16* x, bool x_is_by_place, const ExpertWeights& weights,
                      const ExpertPlaces& places, void* y, GemmOutput kind, StreamHandle stream) {
    launch<32>(x, x_is_by_place, weights, places, AnyOutput{y, weights.one.rows, weights.one.stride(), kind},
               stream);
  }
  static constexpr ExpertProducts kProducts{.gated = gated, .product = product};
};

}  // namespace reprise::gpu::cuda::product
