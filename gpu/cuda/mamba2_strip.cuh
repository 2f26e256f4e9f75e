#pragma once
// A strip of a head's columns in Mamba-2's recurrence over chunks: what a block keeps in shared memory, and what its
// threads do in a chunk. gpu/cuda/mamba2_scan.cuh, for which this is, says what is computed. Included by CUDA sources
// alone, with internal linkage.
//
// Eight warps. Warp w has 16 rows (row_block) and half of the columns of X' and O, and rows 16 w ... of S, in registers
// as C fragments; of 256 rows also rows 128 + 16 w ...

#include "gpu/cuda/mamba2.cuh"
#include "gpu/cuda/slot_exports.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kSsdScanThreads = 256;

/// Shared memory, at most 99 KB of it. C and B of a chunk are used one after the other: each is filled for the next chunk
/// while the other is used; where both have one place (kOnePlace), B comes while M X' is computed.
template <int kState, int kColumns>
struct SsdMemory {
  static constexpr bool kOnePlace = kState > 128;
  static constexpr int kKeyRow = kPaddedKeyRow<kState>;
  static constexpr int kRow = kColumns * 2 + 16;  // eight rows of 16 bytes hit every bank once
  static constexpr int kC = 0;
  static constexpr int kB = kOnePlace ? kC : kC + 64 * kKeyRow;
  // Two stages of the rest, that of an even and that of an odd chunk:
  static constexpr int kStages = kB + 64 * kKeyRow;
  static constexpr int kProducts = 0;
  static constexpr int kDt = kProducts + kChunkProductBytes;
  static constexpr int kSums = kDt + 64 * 4;
  static constexpr int kStage = kSums + 64 * 4;
  // Split operands, the high rows before the low ones: S [state_size, columns], X' and e^{G_63 - G} X' [64, columns].
  static constexpr int kS = kStages + 2 * kStage;
  static constexpr int kNew = kS + 2 * kState * kRow;
  static constexpr int kFaded = kNew + 128 * kRow;
  static constexpr int kBytes = kFaded + 128 * kRow;
  static_assert(kBytes + 1024 <= 99 * 1024);
};

/// Begins the copies of C or B [64, state_size] of a tile and group.
template <int kState>
__device__ inline void load_keys(const __nv_bfloat16* from, std::uint32_t to) {
  constexpr int kPieces = kState / 8;  // 16 bytes each, in a row
  for (int i = static_cast<int>(threadIdx.x); i < 64 * kPieces; i += kSsdScanThreads) {
    copy_chunk(to + i / kPieces * kPaddedKeyRow<kState> + i % kPieces * 16, from + i * 8);
  }
}

/// What a thread of a block knows of its strip of a head's columns, and what it does in a chunk.
template <int kState, int kColumns>
struct SsdStrip {
  using Memory = SsdMemory<kState, kColumns>;
  static constexpr int kRow = Memory::kRow;
  static constexpr int kTiles = kColumns / 16;  // C fragments of a warp in its 16 rows
  static constexpr int kStateBlocks = kState > 128 ? kState / 128 : 1;  // of 16 rows of S, of a warp
  using State = float[kStateBlocks][kColumns / 8][4];

  const SsdSpace& space;
  const SsdPass<Bf16>& pass;
  BatchSlice slice;
  int head;
  int first_column;  // of the strip, in the head
  std::byte* memory;
  std::uint32_t memory_at;
  int warp, lane;
  int r, p;       // of a C fragment: rows r and r + 8, columns p and p + 1
  int row_block;  // warps w and w + 4 share a scheduler and have 5 blocks of M
  int row;        // 16 row_block + r
  int column;     // in the strip

  __device__ SsdStrip(const SsdSpace& in_space, const SsdPass<Bf16>& in_pass, const BatchSlice& of,
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
  __device__ std::size_t state_at(int block) const {  // two columns 8 t further on, and 8 rows
    return (static_cast<std::size_t>(head) * kState + 128 * block + 16 * warp + r) * space.shape.head_dim +
           first_column + p;
  }

  __device__ void load_c(std::size_t tile, int stage_offset) const {
    load_keys<kState>(space.c + group_at(tile) * 64 * kState, memory_at + Memory::kC);
    const std::uint32_t stage = memory_at + Memory::kStages + stage_offset;
    const std::byte* products = space.products + group_at(tile) * kChunkProductBytes;
    for (int i = static_cast<int>(threadIdx.x); i < kChunkProductBytes / 16; i += kSsdScanThreads) {
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

  /// x of this thread's places in O, of chunk `chunk`.
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
  /// Into shared memory, split, for recall().
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

  /// o = C S
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
        std::uint32_t b[4];  // high b0, high b1, low b0, low b1
        load_transposed(b, s_at + step * 16 * kRow + t * 16);
        multiply_add(o[t], c, b[0], b[1]);
        multiply_add(o[t], c, b[2], b[3]);
      }
    }
  }

  /// o = e^G o + skip x; X' and what is left of it at the chunk's end go to shared memory.
  __device__ void take_inputs(float (&o)[kTiles][4], const float2 (&x)[kTiles][2], const std::byte* stage,
                              float skip) const {
    const auto* dts = reinterpret_cast<const float*>(stage + Memory::kDt);
    const auto* sums = reinterpret_cast<const float*>(stage + Memory::kSums);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = row + 8 * half;
      const float decay = expf(sums[at]);            // since the chunk's start
      const float fade = expf(sums[63] - sums[at]);  // until its end
      const float dt = dts[at];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const float first = dt * x[t][half].x;
        const float second = dt * x[t][half].y;
        store_split<kRow>(memory + Memory::kNew, 64 * kRow, at, column + 8 * t + p, first, second);
        store_split<kRow>(memory + Memory::kFaded, 64 * kRow, at, column + 8 * t + p, fade * first,
                          fade * second);
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
           ++side) {  // of the block: a0 and a1 are its left C fragment, a2 and a3 its right
        const float4 dot = *reinterpret_cast<const float4*>(products + c * kProductBlockBytes +
                                                            side * kProductBlockBytes / 2);
        const int j = 16 * c + 8 * side + p;
        const auto faded = [&](float product, int from, int to) {
          return from <= to ? product * expf(sums[to] - sums[from]) : 0.0F;
        };
        values[2 * side][0] = faded(dot.x, j, row);
        values[2 * side][1] = faded(dot.y, j + 1, row);
        values[2 * side + 1][0] = faded(dot.z, j, row + 8);
        values[2 * side + 1][1] = faded(dot.w, j + 1, row + 8);
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
    // Lanes of B^T as A, transposed by the load: tokens 0-7 of elements 0-7, tokens 0-7 of elements 8-15, tokens 8-15
    // of elements 0-7, tokens 8-15 of elements 8-15.
    const std::uint32_t b_at = memory_at + Memory::kB + ((lane & 7) + (lane >> 4) * 8) * Memory::kKeyRow +
                               (16 * warp + ((lane >> 3) & 1) * 8) * 2;
    const std::uint32_t faded_at = memory_at + Memory::kFaded + ((lane & 15) + (lane >> 4) * 64) * kRow;
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
          std::uint32_t faded[4];  // high b0, high b1, low b0, low b1
          load_transposed(faded, faded_at + step * 16 * kRow + t * 16);
          multiply_add(s[block][t], b, faded[0], faded[1]);
          multiply_add(s[block][t], b, faded[2], faded[3]);
        }
      }
    }
  }
};

}  // namespace
}  // namespace reprise::gpu::cuda
