#pragma once
// The way of keys and values out of a page into shared memory, where products want tiles of bf16
// (gpu/cuda/attention_tiles.cuh): rows of bf16 land in the tile; rows in blocks land as they are stored, and are widened
// when they are all there. Included by CUDA sources alone.

#include "gpu/cuda/attention_tiles.cuh"
#include "gpu/cuda/kv_rows.cuh"

namespace reprise::gpu::cuda {

/// K, or V, of one head in a page.
template <KvType kKv, int kDim, int kThreads>
struct PageTile {
  using Row = KvRow<kKv, kDim>;
  static constexpr bool kIsWidened = is_quantised(kKv);
  static constexpr int kHeadBytes = kGrid * Row::kBytes;
  static constexpr int kTileElements = kGrid * tiles::kRowStride<kDim>;
  static constexpr int kTileBytes = kTileElements * static_cast<int>(sizeof(Bf16));
  static constexpr int kLandingBytes = kIsWidened ? kHeadBytes : kTileBytes;
  static_assert(kHeadBytes % 16 == 0 && kTileBytes % 16 == 0);

  /// The copy, in the background, into kLandingBytes of shared memory, aligned to 16: the tile itself where nothing is
  /// widened. Rows from `present` on are not looked at.
  static __device__ __forceinline__ void begin_copy(unsigned char* landing, const std::byte* head,
                                                    int present) {
    const std::uint32_t to = shared_address(landing);
    if constexpr (!kIsWidened) {
      tiles::copy_rows<kDim, kGrid, kThreads>(to, reinterpret_cast<const Bf16*>(head), kDim, present);
    } else {
      constexpr int kChunks = kHeadBytes / 16;
#pragma unroll
      for (int i = 0; i < (kChunks + kThreads - 1) / kThreads; ++i) {
        const int chunk = i * kThreads + static_cast<int>(threadIdx.x);
        if (kChunks % kThreads != 0 && chunk >= kChunks) break;
        copy_chunk(to + chunk * 16, head + chunk * 16, chunk * 16 < present * Row::kBytes);
      }
    }
  }

  /// When the copy has landed for all threads: the tile, for all of them. Rows from `present` on are zeros. Where rows
  /// are widened nobody may still read the tile, and what landed is not needed any more.
  static __device__ __forceinline__ void end_copy(const unsigned char* landing, unsigned char* tile,
                                                  int present) {
    if constexpr (kIsWidened) {
      constexpr int kChunks = kDim / 8;  // of a row
      const auto* rows = reinterpret_cast<const std::byte*>(landing);
      auto* to = reinterpret_cast<Bf16*>(tile);
#pragma unroll 4
      for (int i = static_cast<int>(threadIdx.x); i < kGrid * kChunks; i += kThreads) {
        const int row = i / kChunks;
        const int chunk = i % kChunks;
        uint4 eight = make_uint4(0, 0, 0, 0);
        if (row < present) eight = Row::narrowed(Row::fetch(rows + row * Row::kBytes, chunk), chunk);
        *reinterpret_cast<uint4*>(to + row * tiles::kRowStride<kDim> + chunk * 8) = eight;
      }
      __syncthreads();
    }
  }
};

/// Columns [strip * kColumns, ...) of K, or V, of one head in a page, by way of registers: of rows in blocks they do not lie
/// where a copy in the background could take them.
template <KvType kKv, int kDim, int kColumns, int kThreads>
struct StripOnItsWay {
  using Row = KvRow<kKv, kDim>;
  static constexpr int kChunks = kColumns / 8;  // of a row
  static constexpr int kHeld = kGrid * kChunks / kThreads;
  static_assert(kHeld * kThreads == kGrid * kChunks && (kColumns % 32 == 0 || kColumns == kDim));

  typename Row::Eight held[kHeld];

  __device__ __forceinline__ void fetch(const std::byte* head, int strip, int present) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      if (at / kChunks < present) {
        held[i] = Row::fetch(head + at / kChunks * Row::kBytes, strip * kChunks + at % kChunks);
      }
    }
  }
  /// With the `present` that fetch() was given. Rows from there on are zeros.
  __device__ __forceinline__ void put(Bf16* tile, int present) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      uint4 eight = make_uint4(0, 0, 0, 0);
      if (at / kChunks < present) eight = Row::narrowed(held[i], at % kChunks);
      *reinterpret_cast<uint4*>(tile + at / kChunks * tiles::kRowStride<kColumns> + at % kChunks * 8) = eight;
    }
  }
};

}  // namespace reprise::gpu::cuda
