#pragma once
// Address of a KV entry with and without a window, and loads of K or V from a page into bf16 tiles in shared
// memory (tiles.cuh). bf16 rows are copied straight to the tile; quantized rows are copied as stored and
// dequantized when they have arrived.

#include "gpu/cuda/attention/attention.h"
#include "gpu/cuda/attention/kv_rows.cuh"
#include "gpu/cuda/attention/tiles.cuh"

namespace reprise::gpu::cuda {

/// Returns the address of page `index` of a sequence. With a window, `prefill_pages` has the pages of a prefill's own
/// rows, in which a slice begins at row 64 * slice_index + first_row, so that slices do not share a page;
/// null for decode, whose keys go directly to the ring.
template <int kElement = sizeof(Bf16)>
__device__ __forceinline__ std::byte* key_page(const AttentionShape& shape, const BatchSlice& slice,
                                               int slice_index, std::byte* prefill_pages, int index) {
  if (shape.window == 0) return slice.pages[index];
  const auto token = static_cast<std::size_t>(2 * shape.kv_heads * shape.head_dim) * kElement;
  const int ahead = index * kGrid - slice.stored;
  if (prefill_pages != nullptr && ahead >= 0) {
    return prefill_pages + static_cast<std::size_t>(slice.first_row + slice_index * kGrid + ahead) * token;
  }
  return slice.slot + shape.ring_offset + static_cast<std::size_t>(index % shape.ring_pages) * kGrid * token;
}

/// Bytes of an element of a windowed cache.
template <KvType kKv>
inline constexpr int kElementInRing = static_cast<int>(kKv == KvType::kF32 ? sizeof(float) : sizeof(Bf16));

/// Returns the first position that the row at `position` attends to.
__device__ __forceinline__ int first_key(const AttentionShape& shape, int position) {
  return shape.window == 0 ? 0 : max(0, position + 1 - shape.window);
}

/// Loads K or V of one head from a page.
template <KvType kKv, int kDim, int kThreads>
struct PageTile {
  using Row = KvRow<kKv, kDim>;
  static constexpr bool kIsWidened = is_quantized(kKv);
  static constexpr int kHeadBytes = kGrid * Row::kBytes;
  static constexpr int kTileElements = kGrid * tiles::kRowStride<kDim>;
  static constexpr int kTileBytes = kTileElements * static_cast<int>(sizeof(Bf16));
  static constexpr int kLandingBytes = kIsWidened ? kHeadBytes : kTileBytes;
  static_assert(kHeadBytes % 16 == 0 && kTileBytes % 16 == 0);

  /// Starts the copy to `landing`, kLandingBytes aligned to 16, which is the tile itself unless rows are
  /// quantized. Rows from `present` on are not read.
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

  /// Call after the copy has arrived for all threads. Dequantizes quantized rows from `landing` to `tile`,
  /// which no thread may still read, and synchronizes the block. Rows from `present` on become zero.
  static __device__ __forceinline__ void end_copy(const unsigned char* landing, unsigned char* tile,
                                                  int present) {
    if constexpr (kIsWidened) {
      constexpr int kChunks = kDim / 8;
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

/// Loads columns [strip * kColumns, ...) of K or V of one head from a page through registers, because
/// cp.async cannot gather a strip of quantized rows.
template <KvType kKv, int kDim, int kColumns, int kThreads>
struct StripLoad {
  using Row = KvRow<kKv, kDim>;
  static constexpr int kChunks = kColumns / 8;
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
  /// Stores the fetched rows; `present` as for fetch(). Rows from there on become zero.
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
