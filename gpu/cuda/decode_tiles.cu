// Products of more than a few decoded rows with weights of bf16 (gpu/cuda/decode_tiled.cuh).
#include "gpu/cuda/decode_tiles.h"

#include "gpu/cuda/decode_tiled.cuh"

namespace reprise::gpu::cuda {
namespace {

using product::kTiledOutputs;

template <class Output>
class Bf16Tiles {
 public:
  static constexpr int kChunkBytes = kTiledOutputs * product::kRowBytes;
  static constexpr int kWarpBytes = 0;

  __device__ Bf16Tiles(const std::byte* w, int columns, int block, const Output& output)
      : rows_{reinterpret_cast<const Bf16*>(w), block, columns, output} {}

  __device__ void copy(std::uint32_t to, int chunk) const {
    product::copy_rows_of_chunk<kTiledOutputs>(to, chunk, rows_.columns, rows_);
  }
  __device__ product::WeightPart part(const std::byte* at, std::byte* /*own*/, int /*chunk*/, int tile,
                                      int lane) const {
    return product::read_weights(at, product::kOutputs * tile, lane);
  }

 private:
  struct Rows {
    const Bf16* w;
    int block;
    int columns;
    Output output;
    __device__ const Bf16* operator()(int row) const {
      const int place = output.template row_of<kTiledOutputs>(block, row);
      return place < output.weight_rows() ? w + static_cast<std::size_t>(place) * columns : nullptr;
    }
    __device__ const Bf16* any() const { return w; }
  };
  Rows rows_;
};

template <int kRanks, class Output>
void launch_for(const Bf16* x, int m, const DeviceWeight& weight, const Output& output, StreamHandle stream) {
  if (m <= 16) {
    product::launch_tiled<Bf16Tiles, 2, kRanks>(x, m, weight, output, stream);
  } else if (m <= 32) {
    product::launch_tiled<Bf16Tiles, 4, kRanks>(x, m, weight, output, stream);
  } else {
    product::launch_tiled<Bf16Tiles, 8, kRanks>(x, m, weight, output, stream);
  }
}

}  // namespace

bool tiles_suit(const DeviceWeight& weight) {
  return product::tiles_suit_to(weight);
}

void decode_in_tiles(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                     StreamHandle stream) {
  product::with_output(y, weight, kind, [&](const auto& output) {
    if (product::has_enough_outputs(weight)) {
      launch_for<1>(x, m, weight, output, stream);
    } else {
      launch_for<product::kChains>(x, m, weight, output, stream);
    }
  });
}

void decode_in_tiles_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                           StreamHandle stream) {
  launch_for<1>(x, m, weight, product::GatedOutput(to, weight), stream);
}

}  // namespace reprise::gpu::cuda
