// Persistent wgmma GEMM for the LM head (sm_90).
//
// Computes: y f32 = x W^T for bf16 x and W, plain or with a deferred norm.
//
// Chosen when: 33 to 64 rows, at least 102,400 outputs, columns a multiple of 64.
//
// Mapping: one block per SM walks tiles of 256 outputs with a stride of the grid. Four consumer warpgroups
// compute 64 outputs each by 64 rows; a fifth warpgroup is the producer.
//
// Pipeline: 5 stages of a chunk of weights and of x with full and empty mbarriers; the producer runs ahead
// across tiles. wgmma takes weights from registers (operand A) and x (operand B) from shared memory, 128-byte
// swizzled, with k in the permuted order of the weight fragments.
//
// Bits: those of decode_product.cuh; a block computes all chains in turn.

#include "gpu/cuda/gemm/decode_gemm.h"

#ifdef REPRISE_WARPGROUPS
#include "gpu/cuda/gemm/tiled.cuh"
#include "gpu/cuda/gemm/wgmma.cuh"
#endif

namespace reprise::gpu::cuda {

#ifdef REPRISE_WARPGROUPS
namespace {

using product::ChunkWalk;
using product::kChunk;

constexpr int kGroups = 4;  // consumer warpgroups
constexpr int kGroupSize = 128;
constexpr int kHeadThreads = (kGroups + 1) * kGroupSize;
constexpr int kGroupOutputs = 64;
constexpr int kTileOutputs = kGroups * kGroupOutputs;
constexpr int kHeadRows = 64;  // max rows of x
constexpr int kRingStages = 5;
// Registers per thread of the producer and of a consumer after setmaxnreg. Together they must fit the block's
// allocation at launch, or setmaxnreg.inc blocks forever.
constexpr int kCopyRegisters = 56;
constexpr int kProductRegisters = 104;
constexpr int kLaunchRegisters = 65536 / kHeadThreads / 8 * 8;
static_assert(kGroups * kProductRegisters + kCopyRegisters <= (kGroups + 1) * kLaunchRegisters);

struct HeadShared {
  unsigned char x[kRingStages][kPanelBytes];
  unsigned char weights[kRingStages][kTileOutputs * product::kRowBytes];
  Barrier full[kRingStages];
  Barrier empty[kRingStages];
};
constexpr int kHeadBytes = static_cast<int>(sizeof(HeadShared)) + 1024;  // padding for alignment to 1,024

using PlainLogits = product::PlainOutput<GemmOutput::kF32>;
using ScaledLogits = product::ScaledOutput<PlainLogits>;
__device__ __forceinline__ const PlainLogits& logits_of(const PlainLogits& output) {
  return output;
}
__device__ __forceinline__ const PlainLogits& logits_of(const ScaledLogits& output) {
  return output.to;
}

struct HeadProduct {
  const Bf16* x;
  const Bf16* w;
  int m;
  int outputs;
  int columns;

  __device__ int chunks() const { return columns / kChunk; }
  __device__ int tiles() const { return (outputs + kTileOutputs - 1) / kTileOutputs; }
};

/// Starts the copy of a tile's weight chunk; called by the producer warpgroup.
__device__ __forceinline__ void copy_weights(HeadShared& shared, const HeadProduct& p, int tile, int chunk,
                                             int stage) {
  constexpr int kRowsAtOnce = kGroupSize / product::kUnits;
  const int thread = static_cast<int>(threadIdx.x) % kGroupSize;
  const int unit = thread % product::kUnits;
  const int first = thread / product::kUnits;
  const std::uint32_t to = shared_address(shared.weights[stage]);
  const Bf16* from =
      p.w + static_cast<std::size_t>(tile * kTileOutputs + first) * p.columns + chunk * kChunk + unit * 8;
#pragma unroll 4
  for (int i = 0; i < kTileOutputs / kRowsAtOnce; ++i) {
    const int row = first + i * kRowsAtOnce;
    const bool present = tile * kTileOutputs + row < p.outputs;
    copy_chunk(to + product::unit_offset(row, unit), present ? from : p.w, present);
    from += static_cast<std::size_t>(kRowsAtOnce) * p.columns;
  }
}

/// A producer thread's part of a chunk of x: half a row, 32 elements.
struct HalfRow {
  uint4 of[4] = {};

  __device__ void read(const HeadProduct& p, int chunk) {
    const int thread = static_cast<int>(threadIdx.x) % kGroupSize;
    if (thread / 2 >= p.m) return;
    const auto* from = reinterpret_cast<const uint4*>(p.x + static_cast<std::size_t>(thread / 2) * p.columns +
                                                      chunk * kChunk + thread % 2 * 32);
#pragma unroll
    for (int t = 0; t < 4; ++t) of[t] = from[t];
  }
  /// Stores to the swizzled panel in the order of the weight fragments: MMA s of a half takes elements 8 t +
  /// 4 s ... 8 t + 4 s + 3 of each thread t.
  __device__ void put(unsigned char* panel) const {
    const int thread = static_cast<int>(threadIdx.x) % kGroupSize;
    const auto put_piece = [&](int piece, const uint4& eight) {
      *reinterpret_cast<uint4*>(panel + swizzled_offset(thread / 2, thread % 2 * 4 + piece)) = eight;
    };
    put_piece(0, make_uint4(of[0].x, of[1].x, of[2].x, of[3].x));
    put_piece(1, make_uint4(of[0].y, of[1].y, of[2].y, of[3].y));
    put_piece(2, make_uint4(of[0].z, of[1].z, of[2].z, of[3].z));
    put_piece(3, make_uint4(of[0].w, of[1].w, of[2].w, of[3].w));
  }
};

/// Iterates over the block's chunks, tile by tile.
struct TileWalk {
  int tile;
  ChunkWalk at{.chunk = 0, .chain = 0};

  __device__ void advance(int chunks) {
    at.advance<1>(chunks);
    if (!at.ended(chunks)) return;
    tile += static_cast<int>(gridDim.x);
    at = {.chunk = 0, .chain = 0};
  }
};

__device__ __forceinline__ void load_chunks(HeadShared& shared, const HeadProduct& p) {
  const int chunks = p.chunks();
  const int tiles = p.tiles();
  TileWalk ahead{.tile = static_cast<int>(blockIdx.x)};
  // independent of the previous kernel
  for (int i = 0; i < kRingStages && ahead.tile < tiles; ++i) {
    copy_weights(shared, p, ahead.tile, ahead.at.chunk, i);
    shared.full[i].arrive_after_copies();
    ahead.advance(chunks);
  }
  pdl_wait();
  pdl_launch_dependents();
  TileWalk walk{.tile = static_cast<int>(blockIdx.x)};
  HalfRow rows;
  rows.read(p, walk.at.chunk);
  for (int index = 0; walk.tile < tiles; ++index) {
    const int stage = index % kRingStages;
    if (index >= kRingStages) {
      shared.empty[stage].wait(index / kRingStages - 1);
      copy_weights(shared, p, walk.tile, walk.at.chunk, stage);
      shared.full[stage].arrive_after_copies();
    }
    rows.put(shared.x[stage]);
    make_visible_to_wgmma();
    shared.full[stage].arrive();
    walk.advance(chunks);
    rows.read(p, walk.at.chunk);  // in flight while the stage is awaited
  }
}

template <class Output>
__device__ __forceinline__ void put_outputs(const HeadProduct& p, const Output& output_rows, int first_output,
                                            const float (&totals)[8][4]) {
  const PlainLogits& logits = logits_of(output_rows);
  auto* y = static_cast<float*>(logits.y);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int output = first_output + static_cast<int>(threadIdx.x) % kGroupSize / 32 * 16 + lane / 4;
#pragma unroll
  for (int block = 0; block < 8; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 8 * block + lane % 4 * 2 + i % 2;
      const int to = output + i / 2 * 8;
      if (row >= p.m || to >= p.outputs) continue;
      y[static_cast<std::size_t>(row) * logits.stride + to] =
          totals[block][i] * product::scale_of(output_rows, row);
    }
  }
}

template <class Output>
__device__ __forceinline__ void multiply_chunks(HeadShared& shared, const HeadProduct& p,
                                                const Output& output, int group) {
  const int warp = static_cast<int>(threadIdx.x) % kGroupSize / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int chunks = p.chunks();
  int index = 0;
  for (int tile = static_cast<int>(blockIdx.x); tile < p.tiles(); tile += static_cast<int>(gridDim.x)) {
    float totals[8][4] = {};
    float sums[8][4];
    bool adds = false;
    for (ChunkWalk at{.chunk = 0, .chain = 0}; !at.ended(chunks); ++index) {
      const int stage = index % kRingStages;
      shared.full[stage].wait(index / kRingStages);
      const auto* rows = reinterpret_cast<const std::byte*>(shared.weights[stage]);
      const product::WeightPart w = product::read_weights(rows, group * kGroupOutputs + 16 * warp, lane);
      const std::uint64_t x = panels_at(shared_address(shared.x[stage]));
      begin_products();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t first[4] = {w.low[half].x, w.high[half].x, w.low[half].y, w.high[half].y};
        const std::uint32_t second[4] = {w.low[half].z, w.high[half].z, w.low[half].w, w.high[half].w};
        multiply_rows(sums, first, advance_descriptor(x, half * 64), adds || half > 0);
        multiply_rows(sums, second, advance_descriptor(x, half * 64 + 32), true);
      }
      end_products();
      wait_for_products<0>();
      settle(sums);
      __syncwarp();
      if (lane == 0) shared.empty[stage].arrive();
      adds = !at.ends_chain(chunks);
      if (!adds) {
#pragma unroll
        for (int block = 0; block < 8; ++block) {
#pragma unroll
          for (int i = 0; i < 4; ++i) totals[block][i] += sums[block][i];
        }
      }
      at.advance<1>(chunks);
    }
    put_outputs(p, output, tile * kTileOutputs + group * kGroupOutputs, totals);
  }
}

/// Barrier of the consumer warpgroups.
__device__ __forceinline__ void wait_for_groups() {
  asm volatile("bar.sync 1, %0;" ::"n"(kGroups * kGroupSize) : "memory");
}

/// Grid: one block per SM.
template <class Output>
__global__ void __launch_bounds__(kHeadThreads, 1) multiply_head(HeadProduct p, Output output) {
  extern __shared__ __align__(16) unsigned char head_memory[];
  auto& shared =
      *reinterpret_cast<HeadShared*>(head_memory + (1024 - shared_address(head_memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRingStages; ++i) {
      // one arrival per producer thread for its weights, one for its part of x
      shared.full[i].init(2 * kGroupSize);
      shared.empty[i].init(kGroups * kGroupSize / 32);
    }
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / kGroupSize;
  if (group == kGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCopyRegisters));
    return load_chunks(shared, p);
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kProductRegisters));
  pdl_wait();
  pdl_launch_dependents();
  if constexpr (std::is_same_v<Output, ScaledLogits>) {
    constexpr int kReaders = 2;  // warpgroups that compute the row factors
    if (group < kReaders) product::begin_rows<kReaders * kGroupSize>(output, 0, p.m);
    wait_for_groups();
  }
  multiply_chunks(shared, p, output, group);
}

template <class Output>
void launch_head(const Bf16* x, int m, const DeviceWeight& weight, const Output& output,
                 StreamHandle stream) {
  allow_shared(multiply_head<Output>, kHeadBytes);
  launch_after(multiply_head<Output>,
               {.blocks = dim3(static_cast<unsigned>(multiprocessor_count())),
                .threads = kHeadThreads,
                .shared_bytes = kHeadBytes},
               stream,
               HeadProduct{.x = x,
                           .w = static_cast<const Bf16*>(weight.data),
                           .m = m,
                           .outputs = weight.rows,
                           .columns = weight.columns},
               output);
}

}  // namespace

bool can_use_decode_wgmma(const DeviceWeight& weight, int m, GemmOutput output) {
  constexpr int kFewTiles = 400;  // about 3 tiles per SM of an H200
  return output == GemmOutput::kF32 && m > kHeadRows / 2 && m <= kHeadRows && weight.columns % kChunk == 0 &&
         weight.rows >= kFewTiles * kTileOutputs && max_shared() >= kHeadBytes && has_warpgroups();
}

void decode_by_warpgroups(const Bf16* x, int m, const DeviceWeight& weight, float* y, StreamHandle stream) {
  launch_head(x, m, weight, PlainLogits{y, weight.rows, weight.stride()}, stream);
}

void decode_by_warpgroups(const DeferredNormRows& rows, int m, const DeviceWeight& weight, float* y,
                          StreamHandle stream) {
  const PlainLogits logits{y, weight.rows, weight.stride()};
  launch_head(rows.x, m, weight, ScaledLogits(logits, rows, weight.columns), stream);
}

#else

bool can_use_decode_wgmma(const DeviceWeight&, int, GemmOutput) {
  return false;
}

void decode_by_warpgroups(const Bf16*, int, const DeviceWeight&, float*, StreamHandle) {
  REPRISE_CHECK(false, "wgmma GEMMs were not compiled into this build");
}
void decode_by_warpgroups(const DeferredNormRows&, int, const DeviceWeight&, float*, StreamHandle) {
  REPRISE_CHECK(false, "wgmma GEMMs were not compiled into this build");
}

#endif

}  // namespace reprise::gpu::cuda
