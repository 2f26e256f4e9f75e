#pragma once
// Index maps shared by kernels and host tests: which thread of a sequential scan holds which state elements
// (scan.cuh), and which input a tap of a causal convolution reads (causal_conv.h).

#include "gpu/gpu_limits.h"

#ifdef __CUDACC__
#define REPRISE_ANYWHERE __host__ __device__
#else
#define REPRISE_ANYWHERE
#endif

namespace reprise::gpu::cuda {

inline constexpr int kScanColumns = 8;  // per warp
inline constexpr int kScanParts = 4;    // lanes per column
inline constexpr int kScanThreads = 128;
inline constexpr int kScanColumnsOfBlock = kScanThreads / kScanParts;
static_assert(kMaxScanNumbers == 64 * kScanParts, "the largest scan kernel must have 64 values per lane");

struct ScanPosition {
  int column;  // may exceed the last column
  int part;
};

REPRISE_ANYWHERE inline ScanPosition scan_position(int block, int thread) {
  const int lane = thread % 32;
  return {block * kScanColumnsOfBlock + thread / 32 * kScanColumns + lane % kScanColumns,
          lane / kScanColumns};
}

/// Returns the state row of the i-th element of a lane.
REPRISE_ANYWHERE inline int scan_row(int part, int i) {
  return part + kScanParts * i;
}

inline int scan_blocks(int columns) {
  return (columns + kScanColumnsOfBlock - 1) / kScanColumnsOfBlock;
}

inline bool scan_supports(int size) {
  return size >= 1 && size <= kMaxScanNumbers;
}

struct ConvSource {
  bool in_state;
  int at;  // row of the state [taps - 1], oldest input first; or row of the slice
};

/// Returns the input of `tap` at token `token` of a slice; the last tap reads the token itself. With `token`
/// = rows of the slice: the source of state row `tap` after the slice.
REPRISE_ANYWHERE inline ConvSource conv_source(int token, int tap, int taps) {
  const int at = token - (taps - 1) + tap;
  return at < 0 ? ConvSource{true, at + taps - 1} : ConvSource{false, at};
}

}  // namespace reprise::gpu::cuda

#undef REPRISE_ANYWHERE
