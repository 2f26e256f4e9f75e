#pragma once
// Sequential scan: a recurrence over the rows of slices, token by token.
//
// Bits: one kernel per rule serves prefill and decode, so they depend neither on where a slice begins nor on
// the phase. Rules with a tiled form (scan_tiles.cuh) use this one where that form does not apply.
//
// Mapping: the state consists of independent columns of `size` elements (a channel of Mamba-1; a column of a
// head's matrix in Mamba-2 and RWKV-7). A warp has 8 columns with 4 lanes each: lane 8 p + c holds elements
// p, p + 4, p + 8, ... of column c in registers throughout the slice. Sums over a column are taken per lane
// in ascending order, then over the four lanes (column_sum).
//
// A Rule is a plain struct passed by value:
//   int columns, size, state_stride     state_stride: floats between elements of a column
//   float* state(std::byte* slot, int column) const           element 0 of a column
//   struct Input                        inputs of a column at a row; prefetched one row ahead
//   Input read(int row, int column) const
//   template <int kElements> struct Fixed                       a lane's weights
//   template <int kElements> void prepare(Fixed<kElements>&, int column, int part) const
//   template <int kElements> void step(const Fixed<kElements>&, const Input&, const ScanLane&,
//                                     float (&s)[kElements]) const
// step() is called by whole warps and writes outputs only if ScanLane::writes(). Elements from `size` on are
// and stay zero.

#include "base/check.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/recurrence/scan_lanes.h"
#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {
namespace {

struct ScanLane {
  int row;     // in the batch
  int column;  // an existing one
  int part;    // 0 to 3
  bool owns;   // false: past the last column; duplicates another column and writes nothing

  __device__ bool writes() const { return owns && part == 0; }
};

/// Sum over the four lanes of a column; all get the same bits.
__device__ __forceinline__ float column_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, kScanColumns);
  x += __shfl_xor_sync(0xffffffffU, x, 2 * kScanColumns);
  return x;
}

/// Grid: groups of columns, slices.
template <class Rule, int kElements>
__global__ void __launch_bounds__(kScanThreads) scan_slices(Rule rule, Batch batch, SlotExports exports) {
  const ScanPosition position = scan_position(static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
  const BatchSlice slice = batch.slices[blockIdx.y];
  ScanLane lane{.row = slice.first_row,
                .column = position.column < rule.columns ? position.column : rule.columns - 1,
                .part = position.part,
                .owns = position.column < rule.columns};
  typename Rule::template Fixed<kElements> fixed;
  rule.template prepare<kElements>(fixed, lane.column, lane.part);
  const float* state = rule.state(slice.slot, lane.column);
  float s[kElements];
  const auto store = [&](std::byte* slot) {
    if (!lane.owns) return;
    float* to = rule.state(slot, lane.column);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int n = scan_row(lane.part, i);
      if (n < rule.size) to[static_cast<std::size_t>(n) * rule.state_stride] = s[i];
    }
  };
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int n = scan_row(lane.part, i);
    s[i] = n < rule.size ? state[static_cast<std::size_t>(n) * rule.state_stride] : 0.0F;
  }
  const int end = slice.first_row + slice.rows;
  typename Rule::Input next = rule.read(lane.row, lane.column);
  for (; lane.row < end; ++lane.row) {
    const typename Rule::Input now = next;
    if (lane.row + 1 < end) next = rule.read(lane.row + 1, lane.column);
    rule.template step<kElements>(fixed, now, lane, s);
    const int row = lane.row - slice.first_row;
    if (row % kGrid != kGrid - 1) continue;
    if (std::byte* const exported = export_after_row(exports, static_cast<int>(blockIdx.y), row))
      store(exported);
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

// -- the delta rule by columns of a head's matrix, and per-head sums

constexpr int kHeadWarps = 4;  // per block: a warp has a head of a row

/// Delta rule for a column: S = decay S; S += k (beta (v - k^T S)); returns o = q^T S to all lanes of the
/// column. q and k: [size]; decay_of(n): decay of element n.
template <int kElements, class DecayOf>
__device__ __forceinline__ float delta_step(const float* q, const float* k, const DecayOf& decay_of, int size,
                                            float v, float beta, int part, float (&s)[kElements]) {
  float recalled = 0.0F;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int n = scan_row(part, i);
    const float k_n = n < size ? __ldg(k + n) : 0.0F;
    s[i] *= n < size ? decay_of(n) : 0.0F;
    recalled = fmaf(k_n, s[i], recalled);
  }
  const float change = beta * (v - column_sum(recalled));
  float total = 0.0F;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int n = scan_row(part, i);
    const float k_n = n < size ? __ldg(k + n) : 0.0F;
    const float q_n = n < size ? __ldg(q + n) : 0.0F;
    s[i] = fmaf(k_n, change, s[i]);
    total = fmaf(q_n, s[i], total);
  }
  return column_sum(total);
}

/// sum(x^2) by a warp: each lane's elements ascending, then a butterfly.
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

inline unsigned blocks_of_heads(int heads, int rows) {
  return static_cast<unsigned>((rows * heads + kHeadWarps - 1) / kHeadWarps);
}

}  // namespace
}  // namespace reprise::gpu::cuda
