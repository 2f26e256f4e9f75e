// Persistent GEMM for the LM head.
//
// Computes: y f32 = x W^T for bf16 x and W, plain or with a deferred norm.
//
// Chosen when: 9 to 32 rows, at least 65,536 outputs, and x and the sums fit into shared memory.
//
// Mapping: 1 or 2 blocks per SM keep all of x in shared memory and walk tiles of 32 outputs with a stride of
// the grid. Each of 8 warps computes one chain.
//
// Pipeline: each warp's cp.async ring of weights, 2 or 4 chunks deep, runs ahead across tiles; the block
// synchronizes only twice per tile, to reduce the chains.
//
// Bits: those of decode_product.cuh.

#include "gpu/cuda/gemm/decode_gemm.h"

#include "gpu/cuda/gemm/decode_bf16.cuh"

namespace reprise::gpu::cuda {
namespace {

using product::kChains;
using product::kChunk;
using product::kRowBytes;
using product::kSmallMThreads;

using Logits = product::PlainOutput<GemmOutput::kF32>;

static_assert(kSmallMThreads == product::kTiledThreads,
              "x is copied with the threads of a tiled block, so their number must be equal");
constexpr int kTileOutputs = 32;
constexpr int kOutputTiles = kTileOutputs / product::kOutputs;
constexpr int kPitch = kTileOutputs + 1;
constexpr int kChunkBytes = kTileOutputs * kRowBytes;  // weights of a warp's chunk

/// Shared memory of a block: rings of the warps, x [chunks][rows], sums [chains][rows][kPitch].
template <int kRowTiles, int kDepth>
struct PersistentMemory {
  static constexpr int kRows = 8 * kRowTiles;
  static constexpr int kRowsBytes = kRows * kRowBytes;  // a chunk of x
  static constexpr int kRings = kChains * kDepth * kChunkBytes;
  static constexpr int kSumsOfChain = kRows * kPitch;

  __host__ __device__ static int chunks(int columns) { return (columns + kChunk - 1) / kChunk; }
  __host__ __device__ static int sums_at(int columns) { return kRings + chunks(columns) * kRowsBytes; }
  static int bytes(int columns) {
    return sums_at(columns) + kChains * kSumsOfChain * static_cast<int>(sizeof(float));
  }
};

/// A warp's weight ring across all tiles of its block.
template <class Ring, class Output>
class TilesAhead {
 public:
  __device__ TilesAhead(std::byte* memory, const std::byte* w, int columns, int chunks, int chain,
                        const Output& output)
      : memory_(memory),
        w_(w),
        columns_(columns),
        chunks_(chunks),
        chain_(chain),
        output_(output),
        tile_(static_cast<int>(blockIdx.x)),
        chunk_(chain),
        ring_(memory, w, columns, tile_, output) {}

  __device__ void begin_next() {
    const bool present = tile_ * kTileOutputs < output_.weight_rows();
    ring_.begin_load(index_++, present ? chunk_ : chunks_, chunks_);
    chunk_ += kChains;
    if (chunk_ < chunks_) return;
    chunk_ = chain_;
    tile_ += static_cast<int>(gridDim.x);
    ring_ = Ring(memory_, w_, columns_, tile_, output_);
  }
  __device__ product::WeightPart part(int index, int tile, int lane) const {
    return ring_.part(index, tile, lane);
  }

 private:
  std::byte* memory_;
  const std::byte* w_;
  int columns_;
  int chunks_;
  int chain_;
  const Output& output_;
  int tile_;
  int chunk_;
  int index_ = 0;
  Ring ring_;
};

/// Grid: kBlocks per SM. Requires: m <= 8 * kRowTiles.
template <int kRowTiles, int kDepth, int kBlocks, class Output>
__global__ void __launch_bounds__(kSmallMThreads, kBlocks)
    persistent_gemm(const Bf16* x, int m, const std::byte* w, int columns, Output output) {
  using Memory = PersistentMemory<kRowTiles, kDepth>;
  using Ring = product::Bf16RingOf<kTileOutputs, Output, kDepth * kChunkBytes>;
  extern __shared__ __align__(128) std::byte memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int chunks = Memory::chunks(columns);
  TilesAhead<Ring, Output> ahead(memory + warp * Ring::kWarpBytes, w, columns, chunks, warp, output);
#pragma unroll
  for (int i = 0; i < kDepth; ++i) ahead.begin_next();

  pdl_wait();
  pdl_launch_dependents();
  std::byte* all_rows = memory + Memory::kRings;
  {
    const product::RowTile rows{.w = w, .first = 0, .end = m, .list = nullptr};
    const product::RowCopies<Memory::kRows> copies(product::RowsOfX{x, rows, columns}, x, columns);
    for (int i = 0; i < chunks; ++i) copies.copy(shared_address(all_rows) + i * Memory::kRowsBytes, i);
    end_copy_group();
  }
  product::begin_rows<kSmallMThreads>(output, 0, m);
  wait_for_copies<0>();
  __syncthreads();

  auto* sums_of_chains = reinterpret_cast<float*>(memory + Memory::sums_at(columns));
  int index = 0;
  for (int tile = static_cast<int>(blockIdx.x); tile * kTileOutputs < output.weight_rows();
       tile += static_cast<int>(gridDim.x)) {
    float sums[kOutputTiles][kRowTiles][4] = {};
    for (int chunk = warp; chunk < chunks; chunk += kChains, ++index) {
      wait_for_copies<kDepth - 1>();
      __syncwarp();
      product::WeightPart weights[kOutputTiles];
#pragma unroll
      for (int o = 0; o < kOutputTiles; ++o) weights[o] = ahead.part(index, o, lane);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        const product::RowPart rows =
            product::read_rows<Ring::kRun>(all_rows + chunk * Memory::kRowsBytes, i, lane);
#pragma unroll
        for (int o = 0; o < kOutputTiles; ++o) product::multiply_chunk(sums[o][i], weights[o], rows);
      }
      __syncwarp();
      ahead.begin_next();
    }
    __syncthreads();  // the previous tile's sums have been read
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int o = 0; o < kOutputTiles; ++o) {
        float* to = sums_of_chains + warp * Memory::kSumsOfChain + 8 * i * kPitch + product::kOutputs * o;
        product::put_sums<kPitch>(sums[o][i], to, lane);
      }
    }
    __syncthreads();
    output.template put_block<kTileOutputs, kSmallMThreads>(tile, 0, m, [&](int row, int column) {
      float sum = 0;
#pragma unroll
      for (int chain = 0; chain < kChains; ++chain) {
        sum += sums_of_chains[chain * Memory::kSumsOfChain + row * kPitch + column];
      }
      return sum;
    });
  }
  wait_for_copies<0>();
}

/// Shared memory not in PersistentMemory, bytes: the driver's, and the row factors.
constexpr int kReserved = 1024 + product::ScaledOutput<Logits>::kMaxRows * static_cast<int>(sizeof(float));

/// Returns whether kBlocks blocks fit into an SM.
template <int kRowTiles, int kDepth, int kBlocks>
bool fits(int columns) {
  const int bytes = PersistentMemory<kRowTiles, kDepth>::bytes(columns);
  return bytes + kReserved <= max_shared() &&
         kBlocks * (bytes + kReserved) <= gpu_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
}

template <int kRowTiles, int kDepth, int kBlocks, class Output>
void launch(const Bf16* x, int m, const DeviceWeight& weight, const Output& output, StreamHandle stream) {
  const auto kernel = persistent_gemm<kRowTiles, kDepth, kBlocks, Output>;
  const int bytes = PersistentMemory<kRowTiles, kDepth>::bytes(weight.columns);
  allow_shared(kernel, bytes);
  const int blocks = kBlocks * multiprocessor_count();
  launch_after(kernel,
               {.blocks = dim3(static_cast<unsigned>(blocks)),
                .threads = kSmallMThreads,
                .shared_bytes = static_cast<std::size_t>(bytes)},
               stream, x, m, static_cast<const std::byte*>(weight.data), weight.columns, output);
}

/// Up to 16 rows: two blocks per SM, whose stalls overlap, if they fit; else one with a ring twice as deep.
constexpr int kFewRows = 16;
constexpr int kMaxRows = 32;
bool is_for_two(int m, int columns) {
  return m <= kFewRows && fits<2, 2, 2>(columns);
}

template <class Output>
void launch_for(const Bf16* x, int m, const DeviceWeight& weight, const Output& output, StreamHandle stream) {
  if (is_for_two(m, weight.columns)) return launch<2, 2, 2>(x, m, weight, output, stream);
  if (m <= kFewRows) return launch<2, 4, 1>(x, m, weight, output, stream);
  launch<4, 4, 1>(x, m, weight, output, stream);
}

}  // namespace

bool can_use_persistent(const DeviceWeight& weight, int m, GemmOutput output) {
  constexpr int kManyOutputs = 65536;  // several tiles per block
  if (output != GemmOutput::kF32 || m <= product::kSmallMRows || m > kMaxRows || weight.rows < kManyOutputs) {
    return false;
  }
  if (m > kFewRows) return fits<4, 4, 1>(weight.columns);
  return is_for_two(m, weight.columns) || fits<2, 4, 1>(weight.columns);
}

void decode_persistent(const Bf16* x, int m, const DeviceWeight& weight, float* y, StreamHandle stream) {
  launch_for(x, m, weight, Logits{y, weight.rows, weight.stride()}, stream);
}

void decode_persistent(const DeferredNormRows& rows, int m, const DeviceWeight& weight, float* y,
                       StreamHandle stream) {
  const Logits logits{y, weight.rows, weight.stride()};
  launch_for(rows.x, m, weight, product::ScaledOutput<Logits>(logits, rows, weight.columns), stream);
}

}  // namespace reprise::gpu::cuda
