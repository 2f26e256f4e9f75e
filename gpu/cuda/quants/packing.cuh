#pragma once
// From the rows of a file to the blocks of a GPU (gpu/cuda/quants/formats.cuh). Included by CUDA sources alone.
//
// A thread has 256 columns of a row: it reads them where the file has them and writes its share of the block. A Source says
//   Format                             where they go
//   number(row, k)                     the number of column k, unsigned where it has few bits, else its byte
//   put_header(row, first, in, header) the scales of the columns from `first` on; the row is the in-th of the block
// of `columns` columns at most: what lies behind them becomes zeros.

#include "gpu/cuda/decode_product.cuh"
#include "gpu/cuda/quants/formats.cuh"

namespace reprise::gpu::cuda::quants {

/// Rows of a tensor in a GPU's memory, as the file has them.
struct FileRows {
  const std::byte* data;
  const float* scales;  // null: there are none apart
  int row_bytes;
  int scale_rows;  // rows and columns that share a scale
  int scale_columns;
  int scales_of_row;
  int first_scaled;  // rows before this one in the tensor, where scales begin
};

__device__ __forceinline__ std::uint16_t two_bytes(const std::byte* from) {
  return *reinterpret_cast<const std::uint16_t*>(from);
}
__device__ __forceinline__ unsigned one_byte(const std::byte* from) {
  return static_cast<unsigned>(*from);
}

/// Blocks of 32 with an f16 in front.
template <class To, int kBytes>
struct Blocks32 {
  using Format = To;
  FileRows rows;
  int columns;

  __device__ const std::byte* block(int row, int k) const {
    return rows.data + static_cast<std::size_t>(row) * rows.row_bytes + k / 32 * kBytes;
  }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    auto* to = reinterpret_cast<std::uint16_t*>(header) + 8 * in;
    for (int i = 0; i < 8; ++i) to[i] = first + 32 * i < columns ? two_bytes(block(row, first + 32 * i)) : 0;
  }
};
struct FileQ8_0 : Blocks32<Q8_0, 34> {
  __device__ unsigned number(int row, int k) const { return one_byte(block(row, k) + 2 + k % 32); }
};
struct FileQ4_0 : Blocks32<Q4_0, 18> {
  __device__ unsigned number(int row, int k) const {
    return one_byte(block(row, k) + 2 + k % 16) >> (k % 32 / 16 * 4) & 15;
  }
};

/// Blocks of 256.
template <class To, int kBytes>
struct Blocks256 {
  using Format = To;
  FileRows rows;
  int columns;

  __device__ const std::byte* block(int row, int k) const {
    return rows.data + static_cast<std::size_t>(row) * rows.row_bytes + k / 256 * kBytes;
  }
};
/// Elements 64 p ... 64 p + 31 are the low halves of 32 bytes, the next 32 the high ones.
__device__ __forceinline__ unsigned nibble_of_64(const std::byte* qs, int k) {
  return one_byte(qs + k % 256 / 64 * 32 + k % 32) >> (k % 64 / 32 * 4) & 15;
}
/// The eight scales and eight offsets of six bits in twelve bytes, chunk by chunk.
__device__ __forceinline__ void put_six_bits(const std::byte* block, int in, std::byte* header) {
  const std::byte* s = block + 4;
  auto* to = reinterpret_cast<std::uint8_t*>(header) + 16 * in;
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::uint8_t>(block[i]);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    unsigned bits = 0;
    for (int i = 0; i < 2; ++i) {
      const int group = 2 * chunk + i;
      const unsigned scale = group < 4 ? one_byte(s + group) & 63
                                       : (one_byte(s + group + 4) & 15) | one_byte(s + group - 4) >> 6 << 4;
      const unsigned offset = group < 4 ? one_byte(s + group + 4) & 63
                                        : one_byte(s + group + 4) >> 4 | one_byte(s + group) >> 6 << 4;
      bits |= (scale | offset << 6) << (12 * i);
    }
    for (int i = 0; i < 3; ++i) to[4 + 3 * chunk + i] = static_cast<std::uint8_t>(bits >> (8 * i));
  }
}
struct FileQ4_K : Blocks256<Q4_K, 144> {
  __device__ unsigned number(int row, int k) const { return nibble_of_64(block(row, k) + 16, k); }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    put_six_bits(block(row, first), in, header);
  }
};
struct FileQ5_K : Blocks256<Q5_K, 176> {
  __device__ unsigned number(int row, int k) const {
    const std::byte* from = block(row, k) + 16;
    return nibble_of_64(from + 32, k) | (one_byte(from + k % 32) >> (k % 256 / 32) & 1) << 4;
  }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    put_six_bits(block(row, first), in, header);
  }
};
struct FileQ6_K : Blocks256<Q6_K, 210> {
  __device__ unsigned number(int row, int k) const {
    const std::byte* from = block(row, k);
    const int half = k % 256 / 128;
    const unsigned low = one_byte(from + 64 * half + k % 64) >> (k % 128 / 64 * 4) & 15;
    const unsigned high = one_byte(from + 128 + 32 * half + k % 32) >> (k % 128 / 32 * 2) & 3;
    return low | high << 4;
  }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    const std::byte* from = block(row, first);
    for (int i = 0; i < 16; ++i) header[16 * in + i] = from[192 + i];
    reinterpret_cast<std::uint16_t*>(header + 128)[in] = two_bytes(from + 208);
  }
};
struct FileIQ4_XS : Blocks256<IQ4_XS, 136> {
  __device__ unsigned number(int row, int k) const {
    return one_byte(block(row, k) + 8 + k % 256 / 32 * 16 + k % 16) >> (k % 32 / 16 * 4) & 15;
  }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    for (int i = 0; i < 8; ++i) header[8 * in + i] = block(row, first)[i];
  }
};

struct FileF8 {
  using Format = F8;
  FileRows rows;
  int columns;

  __device__ unsigned number(int row, int k) const {
    return one_byte(rows.data + static_cast<std::size_t>(row) * rows.row_bytes + k);
  }
  __device__ void put_header(int row, int first, int in, std::byte* header) const {
    const float* scales =
        rows.scales +
        static_cast<std::size_t>((rows.first_scaled + row) / rows.scale_rows) * rows.scales_of_row;
    for (int i = 0; i < 2; ++i) {
      const int k = first + 128 * i;
      reinterpret_cast<float*>(header)[2 * in + i] = k < columns ? scales[k / rows.scale_columns] : 0.0F;
    }
  }
};

// -- a lane's words of a chunk: `at(i)` is the number of the i-th of its 16 columns

/// Columns 2 i and 2 i + 1.
template <class At>
__device__ __forceinline__ std::uint32_t pair_of(const At& at, int i) {
  return at(2 * i) | at(2 * i + 1) << 16;
}
template <class At>
__device__ __forceinline__ std::uint32_t pack_nibbles(const At& at, int first) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word |= (pair_of(at, first + i) & 0x000f000f) << (4 * i);
  return word;
}
template <class At>
__device__ __forceinline__ std::uint32_t pack_bytes(const At& at, int first) {
  return pair_of(at, first) | pair_of(at, first + 1) << 8;
}

template <class Format, class At>
__device__ __forceinline__ void put_numbers(std::byte* chunk, int lane, const At& at) {
  if constexpr (Format::kChunkBytes == 512) {
    auto* to = reinterpret_cast<std::uint32_t*>(chunk) + 4 * lane;
    for (int i = 0; i < 4; ++i) to[i] = pack_bytes(at, 2 * i);
  } else {
    auto* to = reinterpret_cast<std::uint32_t*>(chunk) + 2 * lane;
    if constexpr (std::is_same_v<Format, Q6_K>) {
      std::uint32_t pair[8];
      for (int i = 0; i < 8; ++i) pair[i] = pair_of(at, i);
      to[0] = pair[0] | pair[1] << 6 | (pair[6] & 0x000f000f) << 12;
      to[1] = pair[2] | pair[3] << 6 | (pair[6] & 0x00300030) << 8 | (pair[7] & 0x00300030) << 10;
      reinterpret_cast<std::uint32_t*>(chunk + 256)[lane] =
          pair[4] | pair[5] << 6 | (pair[7] & 0x000f000f) << 12;
    } else if constexpr (std::is_same_v<Format, IQ4_XS>) {
      const auto four = [&](int first) {
        return at(first) | at(first + 2) << 4 | at(first + 1) << 8 | at(first + 3) << 12;
      };
      for (int half = 0; half < 2; ++half) to[half] = four(8 * half) | four(8 * half + 4) << 16;
    } else {
      for (int half = 0; half < 2; ++half) to[half] = pack_nibbles(at, 4 * half);
    }
    if constexpr (std::is_same_v<Format, Q5_K>) {
      unsigned bits = 0;
      for (int i = 0; i < 16; ++i) bits |= (at(i) >> 4) << (i / 8 * 8 + i % 2 * 4 + i % 8 / 2);
      reinterpret_cast<std::uint16_t*>(chunk + 256)[lane] = static_cast<std::uint16_t>(bits);
    }
  }
}

/// Rows of a file, from row `first_row` of a weight on whose columns have `blocks` blocks. A thread has a block's share.
template <class Source>
__global__ void pack_rows(Source source, int rows, int first_row, int blocks, std::byte* to) {
  using Format = typename Source::Format;
  const int block = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  if (block >= blocks || row >= rows) return;
  const int placed = first_row + row;
  const int in = placed % kRows;
  std::byte* place = to + (static_cast<std::size_t>(placed / kRows) * blocks + block) * kBlockBytes<Format>;
  source.put_header(row, block * kColumns, in, place);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    std::byte* numbers = place + Format::kHeaderBytes + chunk * Format::kChunkBytes;
    for (int t = 0; t < 4; ++t) {
      put_numbers<Format>(numbers, 4 * in + t, [&](int i) {
        const int k = block * kColumns + chunk * kChunkColumns +
                      product::place_in_chunk<kRun<Format>>(i / 4, t) + i % 4;
        return k < source.columns ? source.number(row, k) : 0U;
      });
    }
  }
}

}  // namespace reprise::gpu::cuda::quants
