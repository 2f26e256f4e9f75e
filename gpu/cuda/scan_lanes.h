#pragma once
// Which thread of a sequential scan has which numbers of the state (gpu/cuda/scan.cuh), and which input a tap of a causal
// convolution meets (gpu/cuda/causal_conv.h). The same for kernels and, in tests, for the host.
//
// Threading: pure functions.

#include "gpu/gpu_limits.h"

#ifdef __CUDACC__
#define REPRISE_ANYWHERE __host__ __device__
#else
#define REPRISE_ANYWHERE
#endif

namespace reprise::gpu::cuda {

inline constexpr int kScanColumns = 8;  // of a warp
inline constexpr int kScanParts = 4;    // lanes of a column
inline constexpr int kScanThreads = 128;
inline constexpr int kScanColumnsOfBlock = kScanThreads / kScanParts;
static_assert(kMostScanNumbers == 64 * kScanParts, "the largest kernel has 64 numbers a lane");

struct ScanPlace {
  int column;  // may be beyond the last
  int part;
};

REPRISE_ANYWHERE inline ScanPlace scan_place(int block, int thread) {
  const int lane = thread % 32;
  return {block * kScanColumnsOfBlock + thread / 32 * kScanColumns + lane % kScanColumns,
          lane / kScanColumns};
}

/// The i-th number that a lane holds.
REPRISE_ANYWHERE inline int scan_number(int part, int i) {
  return part + kScanParts * i;
}

inline int scan_blocks(int columns) {
  return (columns + kScanColumnsOfBlock - 1) / kScanColumnsOfBlock;
}

inline bool scan_supports(int size) {
  return size >= 1 && size <= kMostScanNumbers;
}

struct ConvSource {
  bool in_state;
  int at;  // a row of the state, [taps - 1] with the last input last; or of the slice
};

/// For tap `tap`, the last of which meets the token itself, at token `token` of a slice. With `token` the number of
/// the slice's rows: what place `tap` of the state holds after it.
REPRISE_ANYWHERE inline ConvSource conv_source(int token, int tap, int taps) {
  const int at = token - (taps - 1) + tap;
  return at < 0 ? ConvSource{true, at + taps - 1} : ConvSource{false, at};
}

}  // namespace reprise::gpu::cuda

#undef REPRISE_ANYWHERE
