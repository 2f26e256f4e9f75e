#pragma once
// Chunks of rows of bf16 in shared memory, for products whose blocks share them (gpu/cuda/decode_tiled.cuh,
// gpu/cuda/decode_staying.cu): the order in which a block takes them, their way there, and how lanes read them. Included by CUDA
// sources alone.

#include "gpu/cuda/decode_product.cuh"
#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda::product {

inline constexpr int kTiledThreads = 256;

/// The chunks of a block in their order.
struct ChunkWalk {
  int chunk;
  int chain;

  __device__ bool ended(int chunks) const { return chunk >= chunks; }
  /// Whether the chunk is its chain's last.
  __device__ bool ends_chain(int chunks) const { return chunk + kChains >= chunks; }
  template <int kRanks>
  __device__ void advance(int chunks) {
    chunk += kChains;
    if (kRanks > 1 || chunk < chunks) return;
    ++chain;
    chunk = chain < kChains && chain < chunks ? chain : chunks;
  }
};

/// Rows of bf16 on their way into shared memory, a chunk at a time, by all threads: a thread has the same 16 bytes of some
/// of them. Rows that there are not become zeros.
template <int kCount>
class RowCopies {
  static constexpr int kRowsAtOnce = kTiledThreads / kUnits;
  static constexpr int kOwn = (kCount + kRowsAtOnce - 1) / kRowsAtOnce;
  static_assert(kCount % kRowsAtOnce == 0 || kOwn == 1);
  static_assert(kRowsAtOnce % 2 == 0, "places of rows at even distances are at even distances");

 public:
  /// `row_at(row)`: null where there is none; `any`: memory that can be read.
  template <class RowAt>
  __device__ RowCopies(const RowAt& row_at, const Bf16* any, int columns)
      : row_(static_cast<int>(threadIdx.x) / kUnits), left_(columns - unit() * 8) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const Bf16* row = has_share() ? row_at(row_ + i * kRowsAtOnce) : nullptr;
      bytes_[i] = row == nullptr ? 0 : 16;
      from_[i] = row == nullptr ? any : row + unit() * 8;
    }
  }
  __device__ void copy(std::uint32_t to, int chunk) const {
    if (!has_share()) return;
    const bool present = chunk * kChunk < left_;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      copy_some(to + place_of(row_, unit()) + i * kRowsAtOnce * kRowBytes,
                from_[i] + (present && bytes_[i] != 0 ? chunk * kChunk : 0), present ? bytes_[i] : 0);
    }
  }

 private:
  __device__ static int unit() {
    return static_cast<int>(threadIdx.x) % kUnits;
  }
  __device__ bool has_share() const {
    return kCount % kRowsAtOnce == 0 || row_ < kCount;
  }

  int row_;
  int left_;  // columns from the thread's first on
  int bytes_[kOwn];
  const Bf16* from_[kOwn];
};

struct RowsOfX {
  const Bf16* x;
  RowTile tile;
  int columns;
  __device__ const Bf16* operator()(int row) const {
    return tile.has(row) ? x + tile.row_of_x(row) * columns : nullptr;
  }
};

/// A lane's part of a tile of rows of a chunk in shared memory.
template <int kRun>
__device__ __forceinline__ RowPart read_rows(const std::byte* rows, int tile, int lane) {
  const int row = 8 * tile + lane / 4;
  return collect_row<kRun>([&](int ahead) {
    const int k = place_in_chunk<kRun>(0, lane % 4) + ahead;
    return *reinterpret_cast<const Run<kRun>*>(rows + place_of(row, k / 8) + k % 8 * sizeof(Bf16));
  });
}

}  // namespace reprise::gpu::cuda::product
