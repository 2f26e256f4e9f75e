// The Mamba-2 recurrence (SSD), and the gated norm after it.
//
// Computes: for prefill the chunked form over 64 tokens; else the sequential form in f32 (scan.cuh). In the
// chunked form B and C are rounded to bf16, other MMA operands keep 16 bits (two bf16), accumulators are f32.
//
// Chosen when: chunked for a batch with tiles, bf16 rows, state_size 16, 32, 64, 128 or 256, head_dim a
// multiple of 16 up to 128.
//
// Mapping: prepare_mamba2_chunks() computes what needs no state for all chunks in parallel, grid (groups,
// then heads by warps; tile). scan_mamba2_chunks() walks the chunks of a slice and carries the state, grid
// (strip of 16 or 32 columns of a head, slice), 8 warps.
//
// Pipeline: scan_mamba2_chunks() loads C of the next chunk while B is used and vice versa (cp.async).
//
// Bits: chunks are anchored to the grid, and columns are independent, so the strip width does not matter.

#include "gpu/cuda/recurrence/mamba2.h"

#include <cuda_bf16.h>

#include <cstddef>
#include <utility>

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/launch.cuh"
#include "gpu/cuda/recurrence/chunk_triangles.cuh"
#include "gpu/cuda/recurrence/scan.cuh"
#include "gpu/cuda/rows/activations.cuh"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {
namespace {

/// Returns dt of a token and head from the projected `step`. Written so that a NaN stays NaN.
template <class Row>
__device__ __forceinline__ float mamba2_dt(const Mamba2Pass<Row>& pass, float step, float dt_bias) {
  const float raw = softplus_of(fmaf(pass.dt_scale, step, dt_bias));
  const float raised = raw < pass.dt_min ? pass.dt_min : raw;
  return raised > pass.dt_max ? pass.dt_max : raised;
}

constexpr int kProductBlockBytes = 1024;  // two C fragments: 2 x 32 lanes with 16 bytes
constexpr int kChunkProductBytes = kBlocks * kProductBlockBytes;

/// Prefill workspace, tile by tile. Rows past the end of a slice are zero and add nothing to `sums`.
struct Mamba2Space {
  Mamba2Shape shape;
  int channels;
  int heads_of_group;
  __nv_bfloat16* b;  // [tiles, groups, 64, state_size]
  __nv_bfloat16* c;  // [tiles, groups, 64, state_size]
  // [tiles, groups] of kChunkProductBytes: lower triangle of C B^T, blocks as C fragments
  std::byte* products;
  float* dt;    // [tiles, heads, 64]
  float* sums;  // [tiles, heads, 64]: inclusive prefix sums of -decay dt in the chunk
};

// scan_mamba2_chunks(). With G the prefix sums of -decay dt in the chunk, S the f32 state of a head and X' = dt
// x of 64 rows, on a strip of the head's columns:
//   M = lower part, with the diagonal, of (C B^T)_ij exp(G_i - G_j)
//   O = e^G (C S) + skip x + M X';  S = e^{G_63} S + B^T (e^{G_63 - G} X')
// S, X', e^{G_63 - G} X' and M are split into two bf16 each. Masked elements are never passed to exp, which
// may overflow above the diagonal.
//
// Warp w has 16 rows (row_block) and half of the columns of X' and O, and rows 16 w ... 16 w + 15 of S (with
// state_size 256 also 128 rows later) as C fragments in registers.

constexpr int kMamba2ScanThreads = 256;

/// Shared memory, at most 99 KB. C and B of a chunk are used in turn; each is loaded for the next chunk while
/// the other is used. If both share a buffer (kSharesBuffer), B is loaded during M X'.
template <int kState, int kColumns>
struct Mamba2Memory {
  static constexpr bool kSharesBuffer = kState > 128;
  static constexpr int kKeyRow = kPaddedKeyRow<kState>;
  static constexpr int kRow = kColumns * 2 + 16;
  static constexpr int kC = 0;
  static constexpr int kB = kSharesBuffer ? kC : kC + 64 * kKeyRow;
  // Two stages of the rest, for even and odd chunks:
  static constexpr int kStages = kB + 64 * kKeyRow;
  static constexpr int kProducts = 0;
  static constexpr int kDt = kProducts + kChunkProductBytes;
  static constexpr int kSums = kDt + 64 * 4;
  static constexpr int kStage = kSums + 64 * 4;
  // Split operands, high rows before low rows: S [state_size, columns], X' and e^{G_63 - G} X' [64, columns].
  static constexpr int kS = kStages + 2 * kStage;
  static constexpr int kNew = kS + 2 * kState * kRow;
  static constexpr int kDecayed = kNew + 128 * kRow;
  static constexpr int kBytes = kDecayed + 128 * kRow;
  static_assert(kBytes + 1024 <= 99 * 1024);
};

/// Starts the copies of C or B [64, state_size] of a tile and group.
template <int kState>
__device__ inline void load_keys(const __nv_bfloat16* from, std::uint32_t to) {
  constexpr int kPieces = kState / 8;
  for (int i = static_cast<int>(threadIdx.x); i < 64 * kPieces; i += kMamba2ScanThreads) {
    copy_chunk(to + i / kPieces * kPaddedKeyRow<kState> + i % kPieces * 16, from + i * 8);
  }
}

/// A thread's view of its block's strip, and the steps of a chunk.
template <int kState, int kColumns>
struct Mamba2Strip {
  using Memory = Mamba2Memory<kState, kColumns>;
  static constexpr int kRow = Memory::kRow;
  static constexpr int kTiles = kColumns / 16;
  static constexpr int kStateBlocks = kState > 128 ? kState / 128 : 1;  // blocks of 16 rows of S per warp
  using State = float[kStateBlocks][kColumns / 8][4];

  const Mamba2Space& space;
  const Mamba2Pass<Bf16>& pass;
  BatchSlice slice;
  int head;
  int first_column;
  std::byte* memory;
  std::uint32_t memory_at;
  int warp, lane;
  int r, p;       // in a C fragment: rows r and r + 8, columns p and p + 1
  int row_block;  // warps w and w + 4 share a scheduler and together have 5 blocks of M
  int row;
  int column;

  __device__ Mamba2Strip(const Mamba2Space& in_space, const Mamba2Pass<Bf16>& in_pass, const BatchSlice& of,
                         std::byte* shared)
      : space(in_space),
        pass(in_pass),
        slice(of),
        memory(shared),
        memory_at(shared_address(shared)),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {
    const int strips = space.shape.head_dim / kColumns;
    head = static_cast<int>(blockIdx.x) / strips;
    first_column = static_cast<int>(blockIdx.x) % strips * kColumns;
    r = lane / 4;
    p = 2 * (lane % 4);
    row_block = warp < 4 ? warp : 7 - warp;
    row = 16 * row_block + r;
    column = warp / 4 * kTiles * 8;
  }

  __device__ std::size_t group_at(std::size_t tile) const {
    return tile * space.shape.groups + head / space.heads_of_group;
  }
  __device__ bool has_state() const { return 16 * warp < kState; }
  __device__ std::size_t state_at(int block) const {  // fragment t: + 8 t columns; second half: + 8 rows
    return (static_cast<std::size_t>(head) * kState + 128 * block + 16 * warp + r) * space.shape.head_dim +
           first_column + p;
  }

  __device__ void load_c(std::size_t tile, int stage_offset) const {
    load_keys<kState>(space.c + group_at(tile) * 64 * kState, memory_at + Memory::kC);
    const std::uint32_t stage = memory_at + Memory::kStages + stage_offset;
    const std::byte* products = space.products + group_at(tile) * kChunkProductBytes;
    for (int i = static_cast<int>(threadIdx.x); i < kChunkProductBytes / 16; i += kMamba2ScanThreads) {
      copy_chunk(stage + Memory::kProducts + i * 16, products + i * 16);
    }
    const std::size_t at = (tile * space.shape.heads + head) * 64;
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < 16) {
      copy_chunk(stage + Memory::kDt + thread * 16, space.dt + at + thread * 4);
    } else if (thread < 32) {
      copy_chunk(stage + Memory::kSums + (thread - 16) * 16, space.sums + at + (thread - 16) * 4);
    }
  }
  __device__ void load_b(std::size_t tile) const {
    load_keys<kState>(space.b + group_at(tile) * 64 * kState, memory_at + Memory::kB);
  }

  /// Loads x for this thread's elements of O.
  __device__ void read_inputs(float2 (&x)[kTiles][2], int chunk) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = 64 * chunk + row + 8 * half;
      const float* from = pass.mixed + static_cast<std::size_t>(slice.first_row + t) * space.channels +
                          head * space.shape.head_dim + first_column + column + p;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        x[i][half] =
            t < slice.rows ? *reinterpret_cast<const float2*>(from + 8 * i) : make_float2(0.0F, 0.0F);
      }
    }
  }

  __device__ void read_state(State& s) const {
    if (!has_state()) return;
    const auto* from = reinterpret_cast<const float*>(slice.slot + space.shape.state_offset);
#pragma unroll
    for (int i = 0; i < kStateBlocks * kColumns / 8; ++i) {
      float(&part)[4] = s[i / (kColumns / 8)][i % (kColumns / 8)];
      const float* at = from + state_at(i / (kColumns / 8)) + i % (kColumns / 8) * 8;
      const float2 upper = *reinterpret_cast<const float2*>(at);
      const float2 lower = *reinterpret_cast<const float2*>(at + 8 * space.shape.head_dim);
      part[0] = upper.x;
      part[1] = upper.y;
      part[2] = lower.x;
      part[3] = lower.y;
    }
  }
  __device__ void store_state(const State& s, std::byte* slot) const {
    if (!has_state()) return;
    auto* to = reinterpret_cast<float*>(slot + space.shape.state_offset);
#pragma unroll
    for (int i = 0; i < kStateBlocks * kColumns / 8; ++i) {
      const float(&part)[4] = s[i / (kColumns / 8)][i % (kColumns / 8)];
      float* at = to + state_at(i / (kColumns / 8)) + i % (kColumns / 8) * 8;
      *reinterpret_cast<float2*>(at) = {part[0], part[1]};
      *reinterpret_cast<float2*>(at + 8 * space.shape.head_dim) = {part[2], part[3]};
    }
  }
  /// Stores the state, split, to shared memory for recall().
  __device__ void publish_state(const State& s) const {
    if (!has_state()) return;
#pragma unroll
    for (int i = 0; i < kStateBlocks * kColumns / 8; ++i) {
      const float(&part)[4] = s[i / (kColumns / 8)][i % (kColumns / 8)];
      const int at = i / (kColumns / 8) * 128 + 16 * warp + r;
      const int columns_at = i % (kColumns / 8) * 8 + p;
      store_split<kRow>(memory + Memory::kS, kState * kRow, at, columns_at, part[0], part[1]);
      store_split<kRow>(memory + Memory::kS, kState * kRow, at + 8, columns_at, part[2], part[3]);
    }
  }

  __device__ void recall(float (&o)[kTiles][4]) const {
    // Lanes of A: rows 0-15 of elements 0-7, then of elements 8-15.
    const std::uint32_t c_at =
        memory_at + Memory::kC + (16 * row_block + (lane & 15)) * Memory::kKeyRow + (lane >> 4) * 16;
    // Lanes of a split B: rows 0-15 of the high part, then of the low part.
    const std::uint32_t s_at =
        memory_at + Memory::kS + ((lane & 15) + (lane >> 4) * kState) * kRow + column * 2;
#pragma unroll
    for (int step = 0; step < kState / 16; ++step) {
      std::uint32_t c[4];
      load_matrices(c, c_at + step * 32);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        std::uint32_t b[4];
        load_transposed(b, s_at + step * 16 * kRow + t * 16);
        multiply_add(o[t], c, b[0], b[1]);
        multiply_add(o[t], c, b[2], b[3]);
      }
    }
  }

  /// o = e^G o + skip x; stores X' and e^{G_63 - G} X' to shared memory.
  __device__ void take_inputs(float (&o)[kTiles][4], const float2 (&x)[kTiles][2], const std::byte* stage,
                              float skip) const {
    const auto* dts = reinterpret_cast<const float*>(stage + Memory::kDt);
    const auto* sums = reinterpret_cast<const float*>(stage + Memory::kSums);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = row + 8 * half;
      const float decay = expf(sums[at]);                    // decay since the chunk's start
      const float decay_to_end = expf(sums[63] - sums[at]);  // decay to the chunk's end
      const float dt = dts[at];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const float first = dt * x[t][half].x;
        const float second = dt * x[t][half].y;
        store_split<kRow>(memory + Memory::kNew, 64 * kRow, at, column + 8 * t + p, first, second);
        store_split<kRow>(memory + Memory::kDecayed, 64 * kRow, at, column + 8 * t + p, decay_to_end * first,
                          decay_to_end * second);
        o[t][2 * half] = fmaf(skip, x[t][half].x, decay * o[t][2 * half]);
        o[t][2 * half + 1] = fmaf(skip, x[t][half].y, decay * o[t][2 * half + 1]);
      }
    }
  }

  /// o += M X'
  __device__ void multiply_inputs(float (&o)[kTiles][4], const std::byte* stage) const {
    const auto* sums = reinterpret_cast<const float*>(stage + Memory::kSums);
    const std::byte* products =
        stage + Memory::kProducts + block_index(row_block, 0) * kProductBlockBytes + lane * 16;
    const std::uint32_t new_at =
        memory_at + Memory::kNew + ((lane & 15) + (lane >> 4) * 64) * kRow + column * 2;
    float small[kTiles][4] = {};
    for (int c = 0; c <= row_block; ++c) {
      float values[4][2];
#pragma unroll
      for (int side = 0; side < 2;
           ++side) {  // a0 and a1 are the block's left C fragment, a2 and a3 its right one
        const float4 dot = *reinterpret_cast<const float4*>(products + c * kProductBlockBytes +
                                                            side * kProductBlockBytes / 2);
        const int j = 16 * c + 8 * side + p;
        const auto decayed = [&](float product, int from, int to) {
          return from <= to ? product * expf(sums[to] - sums[from]) : 0.0F;
        };
        values[2 * side][0] = decayed(dot.x, j, row);
        values[2 * side][1] = decayed(dot.y, j + 1, row);
        values[2 * side + 1][0] = decayed(dot.z, j, row + 8);
        values[2 * side + 1][1] = decayed(dot.w, j + 1, row + 8);
      }
      multiply_block<kRow, kTiles>(o, small, split_fragment(values), new_at + c * 16 * kRow);
    }
    add_fragments(o, small);
  }

  __device__ void write_outputs(const float (&o)[kTiles][4], int chunk) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = 64 * chunk + row + 8 * half;
      if (t >= slice.rows) continue;
      float* to =
          pass.out +
          (static_cast<std::size_t>(slice.first_row + t) * space.shape.heads + head) * space.shape.head_dim +
          first_column + column + p;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        *reinterpret_cast<float2*>(to + 8 * i) = {o[i][2 * half], o[i][2 * half + 1]};
      }
    }
  }

  /// S = e^{G_63} S + B^T (e^{G_63 - G} X')
  __device__ void renew(State& s, float whole) const {
    if (!has_state()) return;
    // Lanes of B^T as A, transposed by the load: tokens 0-7 of elements 0-7, tokens 0-7 of elements 8-15,
    // tokens 8-15 of elements 0-7, tokens 8-15 of elements 8-15.
    const std::uint32_t b_at = memory_at + Memory::kB + ((lane & 7) + (lane >> 4) * 8) * Memory::kKeyRow +
                               (16 * warp + ((lane >> 3) & 1) * 8) * 2;
    const std::uint32_t decayed_at = memory_at + Memory::kDecayed + ((lane & 15) + (lane >> 4) * 64) * kRow;
#pragma unroll
    for (int block = 0; block < kStateBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) s[block][i / 4][i % 4] *= whole;
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        std::uint32_t b[4];
        load_transposed(b, b_at + block * 256 + step * 16 * Memory::kKeyRow);
#pragma unroll
        for (int t = 0; t < kColumns / 8; ++t) {
          std::uint32_t decayed[4];
          load_transposed(decayed, decayed_at + step * 16 * kRow + t * 16);
          multiply_add(s[block][t], b, decayed[0], decayed[1]);
          multiply_add(s[block][t], b, decayed[2], decayed[3]);
        }
      }
    }
  }
};

/// Grid: head_dim / kColumns strips per head, slices.
template <int kState, int kColumns>
__global__ void __launch_bounds__(kMamba2ScanThreads, 1)
    scan_mamba2_chunks(Mamba2Space space, Batch batch, Mamba2Pass<Bf16> pass) {
  using Strip = Mamba2Strip<kState, kColumns>;
  using Memory = typename Strip::Memory;
  extern __shared__ __align__(16) std::byte mamba2_memory[];
  const int first_tile = find_first_tile<kMamba2ScanThreads>(batch, static_cast<int>(blockIdx.y));
  if (first_tile < 0) return;
  const Strip strip(space, pass, batch.slices[blockIdx.y], mamba2_memory);
  const int chunks = (strip.slice.rows + 63) / 64;
  const float skip = pass.skip[strip.head];

  strip.load_c(first_tile, 0);
  end_copy_group();
  if (!Memory::kSharesBuffer) strip.load_b(first_tile);
  end_copy_group();
  float2 x[Strip::kTiles][2];
  strip.read_inputs(x, 0);
  typename Strip::State s = {};
  strip.read_state(s);
  strip.publish_state(s);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const std::size_t tile = first_tile + chunk;
    const bool goes_on = chunk + 1 < chunks;
    const int stage_offset = chunk % 2 * Memory::kStage;
    const std::byte* stage = mamba2_memory + Memory::kStages + stage_offset;
    std::byte* const exported = export_after_tile(pass.exports, tile);
    wait_for_copies<Memory::kSharesBuffer ? 0 : 1>();
    __syncthreads();  // C, the stage and S are ready
    float o[Strip::kTiles][4] = {};
    strip.recall(o);
    strip.take_inputs(o, x, stage, skip);
    wait_for_copies<0>();
    __syncthreads();  // B and X' are ready, C and S have been read
    if (Memory::kSharesBuffer) {
      strip.load_b(tile);
    } else if (goes_on) {
      strip.load_c(tile + 1, Memory::kStage - stage_offset);
    }
    end_copy_group();
    if (goes_on) strip.read_inputs(x, chunk + 1);
    strip.multiply_inputs(o, stage);
    strip.write_outputs(o, chunk);
    if (Memory::kSharesBuffer) {
      wait_for_copies<0>();
      __syncthreads();  // B is ready
    }
    strip.renew(s, expf(reinterpret_cast<const float*>(stage + Memory::kSums)[63]));
    if (exported != nullptr) strip.store_state(s, exported);
    __syncthreads();  // B and X' have been read
    if (goes_on) {
      if (Memory::kSharesBuffer) {
        strip.load_c(tile + 1, Memory::kStage - stage_offset);
      } else {
        strip.load_b(tile + 1);
      }
    }
    end_copy_group();
    strip.publish_state(s);
  }
  strip.store_state(s, strip.slice.slot);
}

// -- prepare_mamba2_chunks()

constexpr int kPrepareThreads = 128;
constexpr int kPrepareWarps = kPrepareThreads / 32;
constexpr int kFewStrips = 66;  // blocks of the scan: half of an H200's SMs
constexpr std::size_t kSpaceAlignment = 256;

/// Rounds B and C of a group and computes C B^T, with 2 * 64 padded rows of shared memory.
template <int kState>
__device__ void prepare_group(const Mamba2Space& space, const BatchSlice& slice, const BatchTile& tile,
                              std::size_t tile_index, int group, const float* mixed, std::byte* memory) {
  constexpr int kRow = kPaddedKeyRow<kState>;
  constexpr int kPieces = kState / 4;
  const int thread = static_cast<int>(threadIdx.x);
  const int first_b = space.shape.heads * space.shape.head_dim + group * kState;
  const int b_to_c = space.shape.groups * kState;
  const std::size_t chunk = tile_index * space.shape.groups + group;
  std::byte* const b_memory = memory;
  std::byte* const c_memory = memory + 64 * kRow;
  for (int i = thread; i < 64 * kPieces; i += kPrepareThreads) {
    const int row = i / kPieces;
    const int element = i % kPieces * 4;
    uint2 b = {0U, 0U};
    uint2 c = {0U, 0U};
    if (tile.first + row < slice.rows) {
      const float* from = mixed +
                          static_cast<std::size_t>(slice.first_row + tile.first + row) * space.channels +
                          first_b + element;
      const float4 four_b = *reinterpret_cast<const float4*>(from);
      const float4 four_c = *reinterpret_cast<const float4*>(from + b_to_c);
      b = {narrow(four_b.x, four_b.y), narrow(four_b.z, four_b.w)};
      c = {narrow(four_c.x, four_c.y), narrow(four_c.z, four_c.w)};
    }
    const std::size_t at = (chunk * 64 + row) * kState + element;
    *reinterpret_cast<uint2*>(space.b + at) = b;
    *reinterpret_cast<uint2*>(space.c + at) = c;
    *reinterpret_cast<uint2*>(b_memory + row * kRow + element * 2) = b;
    *reinterpret_cast<uint2*>(c_memory + row * kRow + element * 2) = c;
  }
  __syncthreads();
  const int warp = thread / 32;
  const int lane = thread % 32;
  float dot[4][2][4];
  multiply_lower<kState>(dot, shared_address(c_memory), shared_address(b_memory), warp, lane);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (c > warp) continue;
    std::byte* to =
        space.products + chunk * kChunkProductBytes + block_index(warp, c) * kProductBlockBytes + lane * 16;
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const float(&four)[4] = dot[c][side];
      *reinterpret_cast<float4*>(to + side * kProductBlockBytes / 2) = {four[0], four[1], four[2], four[3]};
    }
  }
}

/// dt and prefix sums of a head, by a warp; two tokens per lane.
__device__ inline void prepare_steps(const Mamba2Space& space, const BatchSlice& slice, const BatchTile& tile,
                                     std::size_t tile_index, int head, const Mamba2Pass<Bf16>& pass) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float dt[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int t = tile.first + 2 * lane + i;
    dt[i] =
        t < slice.rows
            ? mamba2_dt(
                  pass,
                  widen(pass.step[static_cast<std::size_t>(slice.first_row + t) * pass.step_stride + head]),
                  pass.dt_bias[head])
            : 0.0F;
  }
  const float rate = -pass.decay[head];
  float sum = rate * dt[0] + rate * dt[1];
  for (int distance = 1; distance < 32; distance *= 2) {
    const float before = __shfl_up_sync(0xffffffffU, sum, distance);
    if (lane >= distance) sum += before;
  }
  const float before = __shfl_up_sync(0xffffffffU, sum, 1);
  const std::size_t at = (tile_index * space.shape.heads + head) * 64 + 2 * lane;
  *reinterpret_cast<float2*>(space.dt + at) = {dt[0], dt[1]};
  *reinterpret_cast<float2*>(space.sums + at) = {(lane == 0 ? 0.0F : before) + rate * dt[0], sum};
}

/// Grid: groups, then heads by kPrepareWarps; tiles.
template <int kState>
__global__ void __launch_bounds__(kPrepareThreads)
    prepare_mamba2_chunks(Mamba2Space space, Batch batch, Mamba2Pass<Bf16> pass) {
  extern __shared__ __align__(16) std::byte group_memory[];
  const std::size_t tile_index = blockIdx.y;
  const BatchTile tile = batch.tiles[tile_index];
  const BatchSlice slice = batch.slices[tile.slice];
  const int unit = static_cast<int>(blockIdx.x);
  if (unit < space.shape.groups) {
    prepare_group<kState>(space, slice, tile, tile_index, unit, pass.mixed, group_memory);
    return;
  }
  const int head = (unit - space.shape.groups) * kPrepareWarps + static_cast<int>(threadIdx.x) / 32;
  if (head < space.shape.heads) prepare_steps(space, slice, tile, tile_index, head, pass);
}

std::size_t round_up(std::size_t bytes) {
  return (bytes + kSpaceAlignment - 1) / kSpaceAlignment * kSpaceAlignment;
}

/// Sizes of the workspace's parts.
struct SpaceBytes {
  std::size_t keys;  // B; C has the same
  std::size_t products;
  std::size_t steps;  // dt; sums has the same

  SpaceBytes(const Mamba2Shape& shape, int tiles) {
    const std::size_t groups = static_cast<std::size_t>(tiles) * static_cast<std::size_t>(shape.groups);
    const std::size_t heads = static_cast<std::size_t>(tiles) * static_cast<std::size_t>(shape.heads);
    keys = round_up(groups * kGrid * static_cast<std::size_t>(shape.state_size) * sizeof(Bf16));
    products = round_up(groups * kChunkProductBytes);
    steps = round_up(heads * kGrid * sizeof(float));
  }
};

Mamba2Space divide_space(const Mamba2Shape& shape, std::byte* workspace, int tiles) {
  const SpaceBytes bytes(shape, tiles);
  const auto take = [&](std::size_t count) { return std::exchange(workspace, workspace + count); };
  Mamba2Space space{};
  space.shape = shape;
  space.channels = shape.channels();
  space.heads_of_group = shape.heads / shape.groups;
  space.b = reinterpret_cast<__nv_bfloat16*>(take(bytes.keys));
  space.c = reinterpret_cast<__nv_bfloat16*>(take(bytes.keys));
  space.products = take(bytes.products);
  space.dt = reinterpret_cast<float*>(take(bytes.steps));
  space.sums = reinterpret_cast<float*>(take(bytes.steps));
  return space;
}

template <int kState, int kColumns>
void launch_strips(const Mamba2Space& space, const Batch& batch, const Mamba2Pass<Bf16>& pass,
                   StreamHandle stream) {
  constexpr int kBytes = Mamba2Memory<kState, kColumns>::kBytes;
  const auto kernel = scan_mamba2_chunks<kState, kColumns>;
  static_assert(kBytes <= kMinShared);
  allow_shared(kernel, kBytes);
  const dim3 grid(space.shape.head_dim / kColumns * space.shape.heads, batch.slice_count);
  kernel<<<grid, kMamba2ScanThreads, kBytes, stream>>>(space, batch, pass);
  check_launch("scan_ssd_chunks");
}

template <int kState>
void launch_mamba2_chunks(const Mamba2Space& space, const Batch& batch, const Mamba2Pass<Bf16>& pass,
                          StreamHandle stream) {
  constexpr int kBytes = 2 * 64 * kPaddedKeyRow<kState>;
  const auto prepare = prepare_mamba2_chunks<kState>;
  static_assert(kBytes <= kMinShared);
  allow_shared(prepare, kBytes);
  const int blocks = space.shape.groups + (space.shape.heads + kPrepareWarps - 1) / kPrepareWarps;
  prepare<<<dim3(blocks, batch.tile_count), kPrepareThreads, kBytes, stream>>>(space, batch, pass);
  check_launch("prepare_ssd_chunks");
  if constexpr (kState <= 128) {
    // Narrow strips have the same bits and give more blocks.
    const int wide_blocks = space.shape.head_dim / 32 * space.shape.heads * batch.slice_count;
    if (space.shape.head_dim % 32 == 0 && wide_blocks > kFewStrips) {
      launch_strips<kState, 32>(space, batch, pass, stream);
      return;
    }
  }
  launch_strips<kState, 16>(space, batch, pass, stream);
}

/// Returns whether the chunked form supports the shape.
bool can_use_mamba2_chunks(const Mamba2Shape& shape) {
  const int size = shape.state_size;
  return (size == 16 || size == 32 || size == 64 || size == 128 || size == 256) && shape.head_dim > 0 &&
         shape.head_dim % 16 == 0 && shape.head_dim <= 128 && shape.state_offset % 16 == 0;
}

std::size_t mamba2_chunks_workspace(const Mamba2Shape& shape, int tiles) {
  const SpaceBytes bytes(shape, tiles);
  return 2 * bytes.keys + bytes.products + 2 * bytes.steps;
}

void mamba2_in_chunks(const Mamba2Shape& shape, const Batch& batch, const Mamba2Pass<Bf16>& pass,
                      StreamHandle stream) {
  REPRISE_CHECK(can_use_mamba2_chunks(shape), "the chunked recurrence has no kernel for this shape");
  const Mamba2Space space = divide_space(shape, pass.workspace, batch.tile_count);
  switch (shape.state_size) {
    case 16:
      return launch_mamba2_chunks<16>(space, batch, pass, stream);
    case 32:
      return launch_mamba2_chunks<32>(space, batch, pass, stream);
    case 64:
      return launch_mamba2_chunks<64>(space, batch, pass, stream);
    case 128:
      return launch_mamba2_chunks<128>(space, batch, pass, stream);
    default:
      return launch_mamba2_chunks<256>(space, batch, pass, stream);
  }
}

/// Rule for scan.cuh. A column is an element of the head's x.
template <class Row>
struct Mamba2Rule {
  int columns;  // heads * head_dim
  int size;
  int state_stride;  // head_dim
  Mamba2Shape shape;
  int channels;
  int heads_of_group;
  Mamba2Pass<Row> pass;

  __device__ float* state(std::byte* slot, int column) const {
    const int head = column / shape.head_dim;
    return reinterpret_cast<float*>(slot + shape.state_offset) +
           static_cast<std::size_t>(head) * size * shape.head_dim + column % shape.head_dim;
  }

  struct Input {
    float x;
    float step;
  };
  __device__ Input read(int row, int column) const {
    const auto r = static_cast<std::size_t>(row);
    return {.x = __ldg(pass.mixed + r * channels + column),
            .step = load_row(__ldg(pass.step + r * pass.step_stride + column / shape.head_dim))};
  }

  template <int kElements>
  struct Fixed {
    float dt_bias;
    float decay;
    float skip;
    int first_b;  // first element of the group's B in a row of `mixed`
  };
  template <int kElements>
  __device__ void prepare(Fixed<kElements>& fixed, int column, int) const {
    const int head = column / shape.head_dim;
    fixed.dt_bias = pass.dt_bias[head];
    fixed.decay = pass.decay[head];
    fixed.skip = pass.skip[head];
    fixed.first_b = columns + head / heads_of_group * size;
  }

  /// S = exp(-decay dt) S + B (dt x)^T;  y = C^T S + skip x
  template <int kElements>
  __device__ void step(const Fixed<kElements>& fixed, const Input& in, const ScanLane& lane,
                       float (&s)[kElements]) const {
    const float* b = pass.mixed + static_cast<std::size_t>(lane.row) * channels + fixed.first_b;
    const float* c = b + shape.groups * size;
    const float dt = mamba2_dt(pass, in.step, fixed.dt_bias);
    const float kept = expf(-fixed.decay * dt);
    const float change = dt * in.x;
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int n = scan_row(lane.part, i);
      const float b_n = n < size ? __ldg(b + n) : 0.0F;
      const float c_n = n < size ? __ldg(c + n) : 0.0F;
      s[i] = fmaf(b_n, change, s[i] * kept);
      total = fmaf(c_n, s[i], total);
    }
    const float y = fmaf(fixed.skip, in.x, column_sum(total));
    if (lane.writes()) pass.out[static_cast<std::size_t>(lane.row) * columns + lane.column] = y;
  }
};

constexpr int kGateThreads = 256;

/// Grid: groups, rows. Squares are summed in an order fixed by `size`: a thread's elements ascending, then a
/// butterfly in each warp, then the warps in order.
template <class Row>
__global__ void __launch_bounds__(kGateThreads) gate_groups(int groups, int size, Mamba2GatePass<Row> pass) {
  const auto first = static_cast<std::size_t>(blockIdx.x) * size;
  const auto row = static_cast<std::size_t>(blockIdx.y);
  const float* y = pass.y + row * groups * size + first;
  const Row* z = pass.z + row * pass.z_stride + first;
  Row* out = pass.out + row * groups * size + first;
  const auto gate = [&](int i) { return silu_of(pass.z_scale * load_row(z[i])); };
  const auto before_norm = [&](int i) {
    return pass.gating == Mamba2Gating::kGateThenNorm ? y[i] * gate(i) : y[i];
  };
  float scale = 1.0F;
  if (pass.gating != Mamba2Gating::kGateAlone) {
    __shared__ float of_warp[kGateThreads / 32];
    float squares = 0.0F;
    for (int i = static_cast<int>(threadIdx.x); i < size; i += kGateThreads) {
      const float value = before_norm(i);
      squares = fmaf(value, value, squares);
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffU, squares, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0.0F;
    for (int i = 0; i < kGateThreads / 32; ++i) total += of_warp[i];
    scale = 1.0F / sqrtf(total / static_cast<float>(size) + pass.norm_eps);
  }
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kGateThreads) {
    float value = before_norm(i);
    if (pass.gating != Mamba2Gating::kGateAlone)
      value = value * scale * (pass.norm_offset + pass.norm[first + i]);
    if (pass.gating != Mamba2Gating::kGateThenNorm) value *= gate(i);
    store_row(out[i], value);
  }
}

template <class Row>
void scan_tokens(const Mamba2Shape& shape, const Batch& batch, const Mamba2Pass<Row>& pass,
                 StreamHandle stream) {
  REPRISE_CHECK(mamba2_supports(shape), "the recurrence has no kernel for this shape");
  const Mamba2Rule<Row> rule{.columns = shape.inner(),
                             .size = shape.state_size,
                             .state_stride = shape.head_dim,
                             .shape = shape,
                             .channels = shape.channels(),
                             .heads_of_group = shape.heads / shape.groups,
                             .pass = pass};
  scan(rule, batch, pass.exports, stream, "ssd");
}

template <class Row>
void gate(int rows, int groups, int size, const Mamba2GatePass<Row>& pass, StreamHandle stream) {
  const dim3 grid(static_cast<unsigned>(groups), static_cast<unsigned>(rows));
  gate_groups<<<grid, kGateThreads, 0, stream>>>(groups, size, pass);
  check_launch("gate_ssd");
}

}  // namespace

bool mamba2_supports(const Mamba2Shape& shape) {
  return shape.heads > 0 && shape.head_dim > 0 && shape.groups > 0 && shape.heads % shape.groups == 0 &&
         scan_supports(shape.state_size);
}

std::size_t mamba2_workspace(const Mamba2Shape& shape, int /*rows*/, int tiles) {
  return can_use_mamba2_chunks(shape) ? mamba2_chunks_workspace(shape, tiles) : 0;  // decode needs none
}

void mamba2(const Mamba2Shape& shape, const Batch& batch, const Mamba2Pass<Bf16>& pass, StreamHandle stream) {
  if (batch.tile_count > 0 && can_use_mamba2_chunks(shape)) {
    REPRISE_CHECK(mamba2_supports(shape), "the recurrence has no kernel for this shape");
    mamba2_in_chunks(shape, batch, pass, stream);
    return;
  }
  scan_tokens(shape, batch, pass, stream);
}
void mamba2(const Mamba2Shape& shape, const Batch& batch, const Mamba2Pass<float>& pass,
            StreamHandle stream) {
  scan_tokens(shape, batch, pass, stream);
}

void gate_mamba2(int rows, int groups, int size, const Mamba2GatePass<Bf16>& pass, StreamHandle stream) {
  gate(rows, groups, size, pass, stream);
}
void gate_mamba2(int rows, int groups, int size, const Mamba2GatePass<float>& pass, StreamHandle stream) {
  gate(rows, groups, size, pass, stream);
}

}  // namespace reprise::gpu::cuda
