#pragma once
// A recurrence over the rows of slices, token after token: one kernel for every rule, for prefill and decode alike, so
// that its bits depend neither on where a slice begins nor on the phase. Included by CUDA sources alone. Some rules use it
// for decode alone: gpu/cuda/scan_tiles.cuh.
//
// The state of a sequence consists of columns of `size` numbers each, which know nothing of each other (a channel of
// Mamba-1; a column of a head's matrix in Mamba-2 and RWKV-7). A warp has 8 columns, each with 4 lanes: lane 8 p + c
// holds numbers p, p + 4, p + 8, ... of column c, in registers while it walks through the slice. Sums over a column
// are taken lane by lane, ascending, then over the four (column_sum).
//
// A Rule is a plain struct that the kernel takes by value:
//   int columns, size, state_stride     state_stride: floats between two numbers of a column
//   float* state(std::byte* slot, int column) const           number 0 of a column
//   struct Input                        what a column reads of a row by itself; read ahead by one row
//   Input read(int row, int column) const
//   template <int kNumbers> struct Fixed                       what a lane keeps of the weights
//   template <int kNumbers> void prepare(Fixed<kNumbers>&, int column, int part) const
//   template <int kNumbers> void step(const Fixed<kNumbers>&, const Input&, const ScanLane&, float (&s)[kNumbers]) const
// step() must be run by whole warps, and writes where ScanLane::writes() says so. Numbers from `size` on are zeros and
// must stay so.

#include "base/check.h"
#include "gpu/cuda/batch.h"
#include "gpu/cuda/error.h"
#include "gpu/cuda/scan_lanes.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {
namespace {

struct ScanLane {
  int row;     // of the batch
  int column;  // one that is there
  int part;    // 0 to 3: which numbers of it
  bool owns;   // false: beyond the last column; computes what another one does, and writes nothing

  __device__ bool writes() const { return owns && part == 0; }
};

/// Over the four lanes of a column: the same bits in each.
__device__ __forceinline__ float column_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, kScanColumns);
  x += __shfl_xor_sync(0xffffffffU, x, 2 * kScanColumns);
  return x;
}

/// Grid: groups of columns, slices.
template <class Rule, int kNumbers>
__global__ void __launch_bounds__(kScanThreads) scan_slices(Rule rule, Batch batch, SlotExports exports) {
  const ScanPlace place = scan_place(static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
  const BatchSlice slice = batch.slices[blockIdx.y];
  ScanLane lane{.row = slice.first_row,
                .column = place.column < rule.columns ? place.column : rule.columns - 1,
                .part = place.part,
                .owns = place.column < rule.columns};
  typename Rule::template Fixed<kNumbers> fixed;
  rule.template prepare<kNumbers>(fixed, lane.column, lane.part);
  const float* state = rule.state(slice.slot, lane.column);
  float s[kNumbers];
  const auto store = [&](std::byte* slot) {
    if (!lane.owns) return;
    float* to = rule.state(slot, lane.column);
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const int n = scan_number(lane.part, i);
      if (n < rule.size) to[static_cast<std::size_t>(n) * rule.state_stride] = s[i];
    }
  };
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const int n = scan_number(lane.part, i);
    s[i] = n < rule.size ? state[static_cast<std::size_t>(n) * rule.state_stride] : 0.0F;
  }
  const int end = slice.first_row + slice.rows;
  typename Rule::Input next = rule.read(lane.row, lane.column);
  for (; lane.row < end; ++lane.row) {
    const typename Rule::Input now = next;
    if (lane.row + 1 < end) next = rule.read(lane.row + 1, lane.column);
    rule.template step<kNumbers>(fixed, now, lane, s);
    const int row = lane.row - slice.first_row;
    if (row % kGrid != kGrid - 1) continue;
    if (std::byte* const wanted = export_behind_row(exports, static_cast<int>(blockIdx.y), row))
      store(wanted);
  }
  store(slice.slot);
}

template <class Rule>
void scan(const Rule& rule, const Batch& batch, const SlotExports& exports, StreamHandle stream,
          const char* what) {
  REPRISE_CHECK(rule.columns > 0 && scan_supports(rule.size), "the scan has no kernel for this state size");
  const dim3 grid(static_cast<unsigned>(scan_blocks(rule.columns)), static_cast<unsigned>(batch.slice_count));
  const auto launch = [&](auto kernel) { kernel<<<grid, kScanThreads, 0, stream>>>(rule, batch, exports); };
  if (rule.size <= 4 * kScanParts) {
    launch(scan_slices<Rule, 4>);
  } else if (rule.size <= 8 * kScanParts) {
    launch(scan_slices<Rule, 8>);
  } else if (rule.size <= 16 * kScanParts) {
    launch(scan_slices<Rule, 16>);
  } else if (rule.size <= 32 * kScanParts) {
    launch(scan_slices<Rule, 32>);
  } else {
    launch(scan_slices<Rule, 64>);
  }
  check_launch(what);
}

// The delta rule, for rules whose columns are those of a head's matrix; and sums over the heads of rows, a warp for each.

constexpr int kHeadWarps = 4;  // of a block: a warp has a head of a row

/// S = decay S;  S += k (beta (v - k^T S));  o = q^T S, of a column: o in all of its lanes. q and k: [size];
/// decay_of(n): of number n.
template <int kNumbers, class DecayOf>
__device__ __forceinline__ float delta_step(const float* q, const float* k, const DecayOf& decay_of, int size,
                                            float v, float beta, int part, float (&s)[kNumbers]) {
  float recalled = 0.0F;
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const int n = scan_number(part, i);
    const float k_n = n < size ? __ldg(k + n) : 0.0F;
    s[i] *= n < size ? decay_of(n) : 0.0F;
    recalled = fmaf(k_n, s[i], recalled);
  }
  const float change = beta * (v - column_sum(recalled));
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const int n = scan_number(part, i);
    const float k_n = n < size ? __ldg(k + n) : 0.0F;
    const float q_n = n < size ? __ldg(q + n) : 0.0F;
    s[i] = fmaf(k_n, change, s[i]);
    total = fmaf(q_n, s[i], total);
  }
  return column_sum(total);
}

/// sum(x^2) by a warp: each lane's elements are added upwards, then halves of the warp.
__device__ __forceinline__ float head_squares(const float* x, int size, int lane) {
  float squares = 0.0F;
  for (int i = lane; i < size; i += 32) squares = fmaf(x[i], x[i], squares);
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffU, squares, step);
  return squares;
}
/// 1 / sqrt(sum(x^2) + eps) by a warp.
__device__ __forceinline__ float unit_scale(const float* x, int size, float eps, int lane) {
  return 1.0F / sqrtf(head_squares(x, size, lane) + eps);
}
/// 1 / sqrt(mean(x^2) + eps) by a warp.
__device__ __forceinline__ float norm_scale(const float* x, int size, float eps, int lane) {
  return 1.0F / sqrtf(head_squares(x, size, lane) / static_cast<float>(size) + eps);
}

/// Of a launch with a warp for each head of each row.
inline unsigned blocks_of_heads(int heads, int rows) {
  return static_cast<unsigned>((rows * heads + kHeadWarps - 1) / kHeadWarps);
}

}  // namespace
}  // namespace reprise::gpu::cuda
