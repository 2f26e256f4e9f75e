// Index arithmetic shared by CUDA recurrence kernels and the host: each state value has exactly one thread,
// and each tap of a convolution reads the same input as in one run over all tokens.

#include "gpu/cuda/recurrence/scan_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace reprise::gpu::cuda {
namespace {

TEST(ScanLanes, EveryNumberHasOneThread) {
  for (const int columns : {1, 7, 8, 31, 32, 33, 100, 128}) {
    for (const int numbers : {4, 8, 16, 32, 64}) {  // values per lane
      const int size = numbers * kScanParts;
      std::vector<int> owners(static_cast<std::size_t>(columns * size));
      for (int block = 0; block < scan_blocks(columns); ++block) {
        for (int thread = 0; thread < kScanThreads; ++thread) {
          const ScanPosition position = scan_position(block, thread);
          ASSERT_TRUE(position.part >= 0 && position.part < kScanParts);
          if (position.column >= columns) continue;
          for (int i = 0; i < numbers; ++i) {
            const int n = scan_row(position.part, i);
            ASSERT_LT(n, size);
            ++owners[static_cast<std::size_t>(position.column * size + n)];
          }
        }
      }
      for (const int count : owners) ASSERT_EQ(count, 1) << columns << " columns of " << size;
    }
  }
}

// Column sums shuffle between lanes at distances of 8 and 16.
TEST(ScanLanes, TheLanesOfAColumnAreOfOneWarp) {
  for (int thread = 0; thread < kScanThreads; ++thread) {
    const ScanPosition position = scan_position(3, thread);
    for (const int distance : {kScanColumns, 2 * kScanColumns}) {
      const int other = thread / 32 * 32 + (thread % 32 ^ distance);
      EXPECT_EQ(scan_position(3, other).column, position.column);
      EXPECT_NE(scan_position(3, other).part, position.part);
    }
  }
}

TEST(ScanLanes, SizesBeyondTheLargestAreNotThere) {
  EXPECT_FALSE(scan_supports(0));
  EXPECT_TRUE(scan_supports(1));
  EXPECT_TRUE(scan_supports(kMaxScanNumbers));
  EXPECT_FALSE(scan_supports(kMaxScanNumbers + 1));
}

/// Inputs are 1, 2, 3 ...; zeros precede them.
TEST(ConvWindow, EverySliceMeetsTheSameInputs) {
  constexpr int kTokens = 9;
  for (int taps = 1; taps <= 5; ++taps) {
    for (int slice = 1; slice <= kTokens; ++slice) {
      std::vector<int> state(static_cast<std::size_t>(taps - 1));
      for (int done = 0; done < kTokens; done += slice) {
        const int rows = std::min(slice, kTokens - done);
        const auto input = [&](const ConvSource& from) {
          if (from.in_state) return state.at(static_cast<std::size_t>(from.at));
          EXPECT_LT(from.at, rows);
          return done + from.at + 1;
        };
        for (int token = 0; token < rows; ++token) {
          for (int tap = 0; tap < taps; ++tap) {
            const int position = done + token - (taps - 1) + tap;
            ASSERT_EQ(input(conv_source(token, tap, taps)), position < 0 ? 0 : position + 1);
          }
        }
        for (int slot = 0; slot < taps - 1; ++slot) {  // in place, as the kernel does it
          state[static_cast<std::size_t>(slot)] = input(conv_source(rows, slot, taps));
        }
        for (int slot = 0; slot < taps - 1; ++slot) {
          const int position = done + rows - (taps - 1) + slot;
          ASSERT_EQ(state[static_cast<std::size_t>(slot)], position < 0 ? 0 : position + 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::gpu::cuda
