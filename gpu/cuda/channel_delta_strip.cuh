#pragma once
// A strip of a head's columns in Kimi Delta Attention over chunks: what a block keeps in shared memory, and what its threads
// do in a chunk. gpu/cuda/channel_delta_scan.cuh, for which this is, says what is computed. Included by CUDA sources alone,
// with internal linkage.
//
// Eight warps. Warp w has 16 rows (row_block) and half of the columns of X, R, V' and O, and rows 16 w ... of S, in
// registers as C fragments. Left operands come from the workspace as fragments, into registers, ahead of their use; right
// ones are in shared memory.

#include "gpu/cuda/channel_delta.cuh"
#include "gpu/cuda/slot_exports.h"

namespace reprise::gpu::cuda {
namespace {

constexpr int kKdaScanThreads = 256;

/// Shared memory: split operands, the high rows before the low ones: S [head_dim, columns], R and V' [64, columns].
template <int kDim, int kColumns>
struct KdaScanMemory {
  static constexpr int kRow = kColumns * 2 + 16;  // eight rows of 16 bytes hit every bank once
  static constexpr int kS = 0;
  static constexpr int kR = kS + 2 * kDim * kRow;
  static constexpr int kNew = kR + 128 * kRow;
  static constexpr int kBytes = kNew + 128 * kRow;
};

/// What a thread of a block knows of its strip of a head's columns, and what it does in a chunk.
template <int kDim, int kColumns>
struct KdaStrip {
  using Memory = KdaScanMemory<kDim, kColumns>;
  using Chunk = KdaChunk<kDim>;  // all of a chunk that is in the workspace
  static constexpr int kRow = Memory::kRow;
  static constexpr int kSteps = kDim / 16;
  static constexpr int kTiles = kColumns / 16;  // C fragments of a warp in its 16 rows
  static constexpr int kAhead = kSteps < 2 ? kSteps : 2;
  using State = float[kColumns / 8][4];
  using Part = float[kTiles][4];  // of X, V' or O

  /// Of a block of 16 channels.
  struct Keys {
    SplitFragment k;
    SplitFragment q;
  };
  /// What a chunk takes from the activations.
  struct Inputs {
    float2 v[kTiles][2];
    float beta[2];
  };

  const KdaSpace& space;
  const ChannelDeltaPass& pass;
  BatchSlice slice;
  int head;
  int first_column;  // of the strip, in the head
  std::byte* memory;
  std::uint32_t memory_at;
  int warp, lane;
  int r, p;       // of a C fragment: rows r and r + 8, columns p and p + 1
  int row_block;  // warps w and w + 4 share a scheduler and have 5 blocks of T and P
  int row;        // 16 row_block + r
  int column;     // in the strip

  __device__ KdaStrip(const KdaSpace& in_space, const ChannelDeltaPass& in_pass, const BatchSlice& of,
                      std::byte* shared)
      : space(in_space),
        pass(in_pass),
        slice(of),
        memory(shared),
        memory_at(shared_address(shared)),
        warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {
    constexpr int kStrips = kDim / kColumns;
    head = static_cast<int>(blockIdx.x) / kStrips;
    first_column = static_cast<int>(blockIdx.x) % kStrips * kColumns;
    r = lane / 4;
    p = 2 * (lane % 4);
    row_block = warp < 4 ? warp : 7 - warp;
    row = 16 * row_block + r;
    column = warp / 4 * kTiles * 8;
  }

  __device__ const std::byte* chunk_at(std::size_t tile) const {
    return space.chunks + (tile * space.heads + head) * Chunk::kBytes;
  }
  __device__ bool has_state() const { return warp < kSteps; }
  __device__ std::size_t state_at() const {  // two columns 8 t further on, and 8 rows
    return (static_cast<std::size_t>(head) * kDim + 16 * warp + r) * kDim + first_column + p;
  }
  /// This lane's address for the transposing load of 16 rows of a split operand with so many rows.
  __device__ std::uint32_t operand_at(int at, int rows) const {
    return memory_at + at + ((lane & 15) + (lane >> 4) * rows) * kRow;
  }

  __device__ void read_keys(Keys& keys, const std::byte* chunk, int step) const {
    const std::byte* from = chunk + Chunk::recall_at(row_block, step) + lane * 16;
    keys.k = load_fragment(from, kBlockBytes);
    keys.q = load_fragment(from + 2 * kBlockBytes, kBlockBytes);
  }
  __device__ void read_first_keys(Keys (&keys)[kAhead], const std::byte* chunk) const {
#pragma unroll
    for (int step = 0; step < kAhead; ++step) read_keys(keys[step], chunk, step);
  }
  /// This row block of T (0) or P (1).
  __device__ void read_triangle(SplitFragment (&blocks)[4], const std::byte* chunk, int which) const {
    const std::byte* from = chunk + Chunk::kMatrices +
                            (2 * which * kBlocks + block_index(row_block, 0)) * kBlockBytes + lane * 16;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (c <= row_block) blocks[c] = load_fragment(from + c * kBlockBytes, kBlocks * kBlockBytes);
    }
  }
  __device__ void read_fades(SplitFragment (&fades)[4], float (&whole)[2], const std::byte* chunk) const {
    if (!has_state()) return;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      fades[step] = load_fragment(chunk + Chunk::fade_at(warp, step) + lane * 16, kBlockBytes);
    }
    const float* decays = reinterpret_cast<const float*>(chunk + Chunk::kWhole) + 16 * warp + r;
    whole[0] = decays[0];
    whole[1] = decays[8];
  }
  __device__ void read_inputs(Inputs& in, int chunk) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = 64 * chunk + row + 8 * half;
      const auto at = static_cast<std::size_t>(slice.first_row + t);
      const float* v = pass.v + (at * space.heads + head) * kDim + first_column + column + p;
      in.beta[half] = t < slice.rows ? pass.beta[at * pass.beta_stride + head] : 0.0F;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        in.v[i][half] =
            t < slice.rows ? *reinterpret_cast<const float2*>(v + 8 * i) : make_float2(0.0F, 0.0F);
      }
    }
  }

  __device__ void read_state(State& s, std::size_t state_offset) const {
    if (!has_state()) return;
    const float* from = reinterpret_cast<const float*>(slice.slot + state_offset) + state_at();
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t) {
      const float2 upper = *reinterpret_cast<const float2*>(from + 8 * t);
      const float2 lower = *reinterpret_cast<const float2*>(from + 8 * kDim + 8 * t);
      s[t][0] = upper.x;
      s[t][1] = upper.y;
      s[t][2] = lower.x;
      s[t][3] = lower.y;
    }
  }
  __device__ void store_state(const State& s, std::byte* slot, std::size_t state_offset) const {
    if (!has_state()) return;
    float* to = reinterpret_cast<float*>(slot + state_offset) + state_at();
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t) {
      *reinterpret_cast<float2*>(to + 8 * t) = {s[t][0], s[t][1]};
      *reinterpret_cast<float2*>(to + 8 * kDim + 8 * t) = {s[t][2], s[t][3]};
    }
  }
  /// Into shared memory, split, for recall().
  __device__ void publish_state(const State& s) const {
    if (!has_state()) return;
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t) {
      store_split<kRow>(memory + Memory::kS, kDim * kRow, 16 * warp + r, 8 * t + p, s[t][0], s[t][1]);
      store_split<kRow>(memory + Memory::kS, kDim * kRow, 16 * warp + r + 8, 8 * t + p, s[t][2], s[t][3]);
    }
  }
  /// X or V' of this thread's places, split, for the next product.
  __device__ void publish_part(int at, const Part& part) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      store_split<kRow>(memory + at, 64 * kRow, row, column + 8 * t + p, part[t][0], part[t][1]);
      store_split<kRow>(memory + at, 64 * kRow, row + 8, column + 8 * t + p, part[t][2], part[t][3]);
    }
  }

  /// x = (k e^G) S; o = (q e^G) S. `keys` has the first steps.
  __device__ void recall(Part& x, Part& o, Keys (&keys)[kAhead], const std::byte* chunk) const {
    const std::uint32_t s_at = operand_at(Memory::kS, kDim) + column * 2;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Keys& now = keys[step % kAhead];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        std::uint32_t b[4];  // high b0, high b1, low b0, low b1
        load_transposed(b, s_at + step * 16 * kRow + t * 16);
        multiply_add(x[t], now.k.high, b[0], b[1]);
        multiply_add(o[t], now.q.high, b[0], b[1]);
        multiply_add(x[t], now.k.high, b[2], b[3]);
        multiply_add(o[t], now.q.high, b[2], b[3]);
        multiply_add(x[t], now.k.low, b[0], b[1]);
        multiply_add(o[t], now.q.low, b[0], b[1]);
      }
      if (step + kAhead < kSteps) read_keys(now, chunk, step + kAhead);
    }
  }

  /// x becomes R.
  __device__ void correct(Part& x, const Inputs& in) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        x[t][2 * half] = in.beta[half] * (in.v[t][half].x - x[t][2 * half]);
        x[t][2 * half + 1] = in.beta[half] * (in.v[t][half].y - x[t][2 * half + 1]);
      }
    }
  }

  /// sum += a row block of T or P times R or V'.
  __device__ void multiply_rows(Part& sum, const SplitFragment (&blocks)[4], int at) const {
    float small[kTiles][4] = {};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (c > row_block) continue;
      multiply_block<kRow, kTiles>(sum, small, blocks[c], operand_at(at, 64) + column * 2 + c * 16 * kRow);
    }
    add_fragments(sum, small);
  }

  __device__ void write_outputs(const Part& o, int chunk) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = 64 * chunk + row + 8 * half;
      if (t >= slice.rows) continue;
      float* to = pass.out + (static_cast<std::size_t>(slice.first_row + t) * space.heads + head) * kDim +
                  first_column + column + p;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        *reinterpret_cast<float2*>(to + 8 * i) = {o[i][2 * half], o[i][2 * half + 1]};
      }
    }
  }

  /// S = diag(e^{G_63}) S + (k e^{G_63 - G})^T V'
  __device__ void renew(State& s, const SplitFragment (&fades)[4], const float (&whole)[2]) const {
    if (!has_state()) return;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) s[i / 4][i % 4] *= whole[i / 2 % 2];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t) {
        std::uint32_t b[4];  // high b0, high b1, low b0, low b1
        load_transposed(b, operand_at(Memory::kNew, 64) + step * 16 * kRow + t * 16);
        multiply_add(s[t], fades[step].high, b[0], b[1]);
        multiply_add(s[t], fades[step].high, b[2], b[3]);
        multiply_add(s[t], fades[step].low, b[0], b[1]);
      }
    }
  }
};

}  // namespace
}  // namespace reprise::gpu::cuda
