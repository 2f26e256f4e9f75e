// decode_bf16 and its relatives, for few rows of x: a skinny product that reads each weight once. The order of its
// additions is that of gpu/cuda/decode_product.cuh. More rows go through gpu/cuda/decode_tiles.cu.
//
// A block of 8 warps makes some outputs for up to 8 rows of x; a warp has a chain, and a ring of chunks of weights that
// begin to come before the kernel in front has ended.
#include <type_traits>

#include "base/check.h"
#include "gpu/cuda/decode_outputs.cuh"
#include "gpu/cuda/decode_product.cuh"
#include "gpu/cuda/decode_tiles.h"
#include "gpu/cuda/dependent_launch.cuh"
#include "gpu/cuda/gemm.h"

namespace reprise::gpu::cuda {
namespace {

using product::kChains;
using product::kChunk;
using product::kOutputs;
using product::kRowBytes;
using product::kUnits;

constexpr int kThreads = kChains * 32;
constexpr int kRows = 8;       // of a block
constexpr int kWide = 6144;    // outputs from which blocks of 32 are enough for all multiprocessors
constexpr int kNarrow = 3072;  // and blocks of 16

/// Where x comes from: rows of bf16, or the norm of rows of f32.
struct PlainRows {
  const Bf16* x;
};
struct RowsToNorm : NormedRows {
  explicit RowsToNorm(const NormedRows& rows) : NormedRows(rows) {}
};

/// The norm's factor of row g of the block's, to all lanes; of a row beyond m it means nothing. All threads call it.
__device__ float scale_of_row(const RowsToNorm& rows, int m, int columns, int chain, int lane) {
  __shared__ float squares[kChains][kRows];
  const int g = lane / 4;
  const float* row = rows.x + static_cast<std::size_t>(min(g, m - 1)) * columns;
  const float own = product::squares_of_chain(row, chain, lane % 4, columns);
  if (lane % 4 == 0) squares[chain][g] = own;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int i = 0; i < kChains; ++i) total += squares[i][g];
  return product::norm_scale(total, columns, rows.norm.eps);
}

/// A warp's own ring of chunks of weights, on their way from memory without a register: as many blocks as possible have
/// theirs under way, those of the next kernel among them.
template <int kBlockOutputs>
class WeightRing {
 public:
  static constexpr int kWarpBytes = 8192;
  static constexpr int kChunkBytes = kBlockOutputs * kRowBytes;
  static constexpr int kDepth = kWarpBytes / kChunkBytes;

  __device__ explicit WeightRing(std::byte* memory) : memory_(memory + threadIdx.x / 32 * kWarpBytes) {}
  __device__ const std::byte* chunk(int index) const { return memory_ + index % kDepth * kChunkBytes; }
  /// Begins to load the index-th chunk of the warp, `chunk` of all; nothing beyond the last. A group in any case.
  template <class WeightsOf>
  __device__ void begin_load(int index, int chunk, int chunks, int columns,
                             const WeightsOf& weights_of) const {
    if (chunk < chunks) {
      const std::uint32_t to = shared_address(memory_ + index % kDepth * kChunkBytes);
#pragma unroll
      for (int i = 0; i < kBlockOutputs * kUnits / 32; ++i) {
        const int item = i * 32 + static_cast<int>(threadIdx.x) % 32;
        const int unit = item % kUnits;
        const int k = chunk * kChunk + unit * 8;
        const Bf16* from = weights_of(item / kUnits);
        copy_chunk(to + product::place_of(item / kUnits, unit), from + (k < columns ? k : 0), k < columns);
      }
    }
    end_copy_group();
  }

 private:
  std::byte* memory_;
};

/// A block has kBlockOutputs: 8, half a tile, or 16, or 32. Of RowsToNorm there are 8 at most.
template <int kBlockOutputs, class Rows, class Output>
__global__ void __launch_bounds__(kThreads, 3)
    skinny_product(Rows rows, int m, const Bf16* w, int columns, Output output) {
  using Weights = WeightRing<kBlockOutputs>;
  constexpr bool kNormed = std::is_same_v<Rows, RowsToNorm>;
  constexpr int kOutputTiles = (kBlockOutputs + kOutputs - 1) / kOutputs;
  constexpr int kPitch = kOutputTiles * kOutputs + 1;
  extern __shared__ __align__(128) std::byte memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;  // row of W, and row of x, in a tile
  const int t = lane % 4;  // share of k
  const int block = static_cast<int>(blockIdx.x);
  const int first_row = static_cast<int>(blockIdx.y) * kRows;
  const int chunks = (columns + kChunk - 1) / kChunk;

  // Outputs that there are not are computed as the last one, and go nowhere.
  const auto weights_of = [&](int index) {
    const int row = min(output.template row_of<kBlockOutputs>(block, index), output.weight_rows() - 1);
    return w + static_cast<std::size_t>(row) * columns;
  };
  const Weights ring(memory);
#pragma unroll
  for (int i = 0; i < Weights::kDepth; ++i) {
    ring.begin_load(i, warp + i * kChains, chunks, columns, weights_of);
  }
  if constexpr (kNormed) {
    for (int i = static_cast<int>(threadIdx.x) * 32; i < columns; i += kThreads * 32) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(rows.norm.weight + i));
    }
  }

  wait_for_earlier();
  let_next_begin();
  const int row = first_row + g;
  float scale = 0;
  if constexpr (kNormed) scale = scale_of_row(rows, m, columns, warp, lane);
  const auto row_part = [&](int k) {
    const std::size_t place = static_cast<std::size_t>(row) * columns;
    if constexpr (kNormed) {
      product::RowPart part;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = k + 32 * half;
        part.of[half] = row < m && at < columns
                            ? product::normed_eight(rows.x + place, rows.norm, scale, rows.factor, at)
                            : make_uint4(0, 0, 0, 0);
      }
      return part;
    } else {
      return product::load_row(row < m ? rows.x + place : nullptr, k, columns);
    }
  };

  float sums[kOutputTiles][4] = {};
  int index = 0;
  for (int chunk = warp; chunk < chunks; chunk += kChains, ++index) {
    const product::RowPart x = row_part(chunk * kChunk + 8 * t);
    wait_for_copies<Weights::kDepth - 1>();
    __syncwarp();
#pragma unroll
    for (int o = 0; o < kOutputTiles; ++o) {
      product::WeightPart part;
      if constexpr (kBlockOutputs < kOutputs) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          part.low[half] = product::read_unit(ring.chunk(index), g, half, t);
          part.high[half] = make_uint4(0, 0, 0, 0);
        }
      } else {
        part = product::read_weights(ring.chunk(index), kOutputs * o, lane);
      }
      product::multiply_chunk(sums[o], part, x);
    }
    __syncwarp();
    ring.begin_load(index, chunk + Weights::kDepth * kChains, chunks, columns, weights_of);
  }

  __shared__ float partial[kChains][kRows * kPitch];
#pragma unroll
  for (int o = 0; o < kOutputTiles; ++o)
    product::put_sums<kPitch>(sums[o], partial[warp] + kOutputs * o, lane);
  __syncthreads();
  output.template put_block<kBlockOutputs, kThreads>(block, first_row, min(kRows, m - first_row),
                                                     [&](int of_row, int column) {
                                                       float sum = 0;
#pragma unroll
                                                       for (int chain = 0; chain < kChains; ++chain)
                                                         sum += partial[chain][of_row * kPitch + column];
                                                       return sum;
                                                     });
}

template <int kBlockOutputs, class Rows, class Output>
void launch(const Rows& rows, int m, const DeviceWeight& weight, const Output& output, StreamHandle stream) {
  constexpr int kBytes = kChains * WeightRing<kBlockOutputs>::kWarpBytes;
  const auto kernel = skinny_product<kBlockOutputs, Rows, Output>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "shared memory of a product");
  const LaunchShape shape{
      .blocks = dim3((weight.rows + kBlockOutputs - 1) / kBlockOutputs, (m + kRows - 1) / kRows),
      .threads = kThreads,
      .shared_bytes = kBytes};
  launch_after(kernel, shape, stream, rows, m, static_cast<const Bf16*>(weight.data), weight.columns, output);
}

/// By how many outputs there are, so that all multiprocessors have some: the bits are the same.
template <class Rows, class Output>
void launch_for(const Rows& rows, int m, const DeviceWeight& weight, const Output& output,
                StreamHandle stream) {
  if (weight.rows >= kWide) {
    launch<32>(rows, m, weight, output, stream);
  } else if (weight.rows >= kNarrow) {
    launch<16>(rows, m, weight, output, stream);
  } else {
    launch<8>(rows, m, weight, output, stream);
  }
}

void check_few(int m) {
  REPRISE_CHECK(m <= kMostNormedRows, "more rows than a product takes the norm of");
}

}  // namespace

void decode_bf16(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                 StreamHandle stream) {
  if (m > kRows && tiles_suit(weight)) return decode_in_tiles(x, m, weight, y, kind, stream);
  product::with_output(y, weight.rows, kind,
                       [&](const auto& output) { launch_for(PlainRows{x}, m, weight, output, stream); });
}

void decode_bf16_normed(const NormedRows& rows, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                        StreamHandle stream) {
  check_few(m);
  product::with_output(y, weight.rows, kind,
                       [&](const auto& output) { launch_for(RowsToNorm(rows), m, weight, output, stream); });
}

void decode_bf16_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                       StreamHandle stream) {
  if (m > kRows && tiles_suit(weight)) return decode_in_tiles_gated(x, m, weight, to, stream);
  launch<32>(PlainRows{x}, m, weight, product::GatedOutput(to, weight), stream);
}

void decode_bf16_normed_gated(const NormedRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                              StreamHandle stream) {
  check_few(m);
  launch<32>(RowsToNorm(rows), m, weight, product::GatedOutput(to, weight), stream);
}

}  // namespace reprise::gpu::cuda
