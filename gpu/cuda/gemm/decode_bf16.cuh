#pragma once
// Loads bf16 weights for the small-m and tiled decode GEMMs (small_m.cuh, tiled.cuh).

#include "gpu/cuda/gemm/small_m.cuh"
#include "gpu/cuda/gemm/tiled.cuh"

namespace reprise::gpu::cuda::product {

/// A warp's cp.async ring of weight chunks. Loads in flight need no registers, so many blocks, also those of
/// the next kernel, can have loads outstanding.
template <int kBlockOutputs, class Output, int kBytes>
class Bf16RingOf {
 public:
  static constexpr int kOutputs = kBlockOutputs;
  static constexpr int kWarpBytes = kBytes;
  static constexpr int kTogether = 3;
  static constexpr int kPartsAhead = 32 / kBlockOutputs;
  static constexpr int kChunkBytes = kBlockOutputs * kRowBytes;
  static constexpr int kDepth = kWarpBytes / kChunkBytes;
  static constexpr int kRun = 8;

  __device__ Bf16RingOf(std::byte* memory, const std::byte* w, int columns, int block, const Output& output)
      : memory_(memory), left_(columns - unit() * 8) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      // Outputs past the end read the last row; their results are dropped.
      const int row = min(output.template row_of<kBlockOutputs>(block, first_row() + i * kRowsAtOnce),
                          output.weight_rows() - 1);
      from_[i] = reinterpret_cast<const Bf16*>(w) + static_cast<std::size_t>(row) * columns + unit() * 8 +
                 static_cast<int>(threadIdx.x) / 32 * kChunk;
    }
  }

  /// Called for the warp's chunks in ascending order.
  __device__ void begin_load(int index, int chunk, int chunks) {
    if (chunk < chunks) {
      const std::uint32_t to =
          shared_address(memory_ + index % kDepth * kChunkBytes) + unit_offset(first_row(), unit());
      const int bytes = chunk * kChunk < left_ ? 16 : 0;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        copy_some(to + i * kRowsAtOnce * kRowBytes, from_[i], bytes);
        from_[i] += kChains * kChunk;
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
  __device__ WeightPart part(int index, int tile, int lane) const {
    const std::byte* chunk = memory_ + index % kDepth * kChunkBytes;
    if constexpr (kBlockOutputs >= product::kOutputs) {
      return read_weights(chunk, product::kOutputs * tile, lane);
    } else {  // half an MMA tile
      WeightPart part;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        part.low[half] = read_unit(chunk, lane / 4, half, lane % 4);
        part.high[half] = make_uint4(0, 0, 0, 0);
      }
      return part;
    }
  }

 private:
  static constexpr int kRowsAtOnce = 32 / kUnits;
  static constexpr int kOwn = kBlockOutputs / kRowsAtOnce;
  static_assert(kRowsAtOnce % 2 == 0, "unit_offset() is linear in steps of an even number of rows");
  __device__ static int unit() {
    return static_cast<int>(threadIdx.x) % kUnits;
  }
  __device__ static int first_row() {
    return static_cast<int>(threadIdx.x) % 32 / kUnits;
  }

  std::byte* memory_;
  int left_;                // columns from the lane's first one to the end
  const Bf16* from_[kOwn];  // address of the next chunk of each of the lane's rows
};

template <int kBlockOutputs, class Output>
class Bf16Ring : public Bf16RingOf<kBlockOutputs, Output, 8192> {
 public:
  using Bf16RingOf<kBlockOutputs, Output, 8192>::Bf16RingOf;
};

template <class Output>
class Bf16Tiles {
  struct RowsOfWeight {
    const Bf16* w;
    int columns;
    int block;
    const Output& output;
    __device__ const Bf16* operator()(int row) const {
      const int output_row = output.template row_of<kTiledOutputs>(block, row);
      return output_row < output.weight_rows() ? w + static_cast<std::size_t>(output_row) * columns : nullptr;
    }
  };

 public:
  static constexpr int kChunkBytes = kTiledOutputs * kRowBytes;
  static constexpr int kWarpBytes = 0;
  static constexpr int kRun = 8;
  static constexpr bool kNeedsRowSums = false;

  __device__ Bf16Tiles(const std::byte* w, int columns, int block, const Output& output)
      : rows_(RowsOfWeight{reinterpret_cast<const Bf16*>(w), columns, block, output},
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
