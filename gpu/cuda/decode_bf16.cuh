#pragma once
// How weights of bf16 come to products of decoded rows (gpu/cuda/decode_skinny.cuh, gpu/cuda/decode_tiled.cuh). Included by
// CUDA sources alone.

#include "gpu/cuda/decode_skinny.cuh"
#include "gpu/cuda/decode_tiled.cuh"

namespace reprise::gpu::cuda::product {

/// A warp's own ring of chunks of weights, on their way from memory without a register: as many blocks as possible have
/// theirs under way, those of the next kernel among them.
template <int kBlockOutputs, class Output>
class Bf16Ring {
 public:
  static constexpr int kOutputs = kBlockOutputs;
  static constexpr int kWarpBytes = 8192;
  static constexpr int kTogether = 3;
  static constexpr int kChunkBytes = kBlockOutputs * kRowBytes;
  static constexpr int kDepth = kWarpBytes / kChunkBytes;
  static constexpr int kRun = 8;

  __device__ Bf16Ring(std::byte* memory, const std::byte* w, int columns, int block, const Output& output)
      : memory_(memory),
        w_(reinterpret_cast<const Bf16*>(w)),
        columns_(columns),
        block_(block),
        output_(output) {}

  __device__ void begin_load(int index, int chunk, int chunks) const {
    if (chunk < chunks) {
      const std::uint32_t to = shared_address(memory_ + index % kDepth * kChunkBytes);
#pragma unroll
      for (int i = 0; i < kBlockOutputs * kUnits / 32; ++i) {
        const int item = i * 32 + static_cast<int>(threadIdx.x) % 32;
        const int unit = item % kUnits;
        const int k = chunk * kChunk + unit * 8;
        // Outputs that there are not are computed as the last one, and go nowhere.
        const int row =
            min(output_.template row_of<kBlockOutputs>(block_, item / kUnits), output_.weight_rows() - 1);
        const Bf16* from = w_ + static_cast<std::size_t>(row) * columns_;
        copy_chunk(to + place_of(item / kUnits, unit), from + (k < columns_ ? k : 0), k < columns_);
      }
    }
    end_copy_group();
  }
  __device__ static const RowPart& prepare(const RowPart& x) {
    return x;
  }
  __device__ void multiply(float (&sums)[4], int index, int /*chunk*/, int tile, int lane,
                           const RowPart& x) const {
    multiply_chunk(sums, part(index, tile, lane), x);
  }

 private:
  __device__ WeightPart part(int index, int tile, int lane) const {
    const std::byte* chunk = memory_ + index % kDepth * kChunkBytes;
    if constexpr (kBlockOutputs >= product::kOutputs) {
      return read_weights(chunk, product::kOutputs * tile, lane);
    } else {  // half a tile
      WeightPart part;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        part.low[half] = read_unit(chunk, lane / 4, half, lane % 4);
        part.high[half] = make_uint4(0, 0, 0, 0);
      }
      return part;
    }
  }

  std::byte* memory_;
  const Bf16* w_;
  int columns_;
  int block_;
  const Output& output_;
};

template <class Output>
class Bf16Tiles {
 public:
  static constexpr int kChunkBytes = kTiledOutputs * kRowBytes;
  static constexpr int kWarpBytes = 0;
  static constexpr int kRun = 8;
  static constexpr bool kNeedsRowSums = false;

  __device__ Bf16Tiles(const std::byte* w, int columns, int block, const Output& output)
      : rows_(
            [&](int row) -> const Bf16* {
              const int place = output.template row_of<kTiledOutputs>(block, row);
              return place < output.weight_rows()
                         ? reinterpret_cast<const Bf16*>(w) + static_cast<std::size_t>(place) * columns
                         : nullptr;
            },
            reinterpret_cast<const Bf16*>(w), columns) {}

  __device__ void copy(std::uint32_t to, int chunk) const { rows_.copy(to, chunk); }
  __device__ WeightPart part(const std::byte* at, std::byte* /*own*/, int /*chunk*/, int tile,
                             int lane) const {
    return read_weights(at, kOutputs * tile, lane);
  }
  __device__ static void multiply(float (&sums)[4], const WeightPart& w, const RowPart& x) {
    multiply_chunk(sums, w, x);
  }

 private:
  RowCopies<kTiledOutputs> rows_;
};

}  // namespace reprise::gpu::cuda::product
