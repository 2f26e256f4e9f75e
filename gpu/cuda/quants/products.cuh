#pragma once
// Everything that a GPU does with weights of a quantised format (gpu/cuda/quants/formats.cuh): the functions of its
// DeviceFormat. Included by CUDA sources alone, a source for each format: quants/q4_k.cu and its like.
//
// Chunks come into shared memory as they are stored, and a warp makes its operands of them in registers
// (gpu/cuda/quants/scaled_sums.cuh). A prefill's weights are put into memory as bf16 before.

#include "gpu/cuda/decode_skinny.cuh"
#include "gpu/cuda/decode_tiled.cuh"
#include "gpu/cuda/expert_products.cuh"
#include "gpu/cuda/quants/packing.cuh"
#include "gpu/cuda/quants/scaled_sums.cuh"

namespace reprise::gpu::cuda::quants {

__device__ __forceinline__ int blocks_of(int columns) {
  return (columns + kColumns - 1) / kColumns;
}

/// 16 bytes that other warps ask for as well.
__device__ __forceinline__ void copy_shared(std::uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(present ? 16 : 0)
               : "memory");
}

/// Where the chunks of a block's outputs lie in memory, eight rows of W together, and their way into shared memory.
template <class Format, int kBlockOutputs, class Output>
class ChunkCopies {
 public:
  static constexpr int kGroups = kBlockOutputs / kRows;
  static constexpr int kGroupBytes = Format::kHeaderBytes + Format::kChunkBytes;
  static constexpr int kBytes = kGroups * kGroupBytes;

  __device__ ChunkCopies(const std::byte* w, int columns, int block, const Output& output)
      : w_(w), blocks_(blocks_of(columns)), block_(block), output_(output) {}

  /// Begins to copy a chunk of all groups, by threads `thread` of kThreads.
  template <int kThreads>
  __device__ void copy(std::uint32_t to, int chunk, int thread) const {
    constexpr int kHeaderUnits = Format::kHeaderBytes / 16;
    constexpr int kChunkUnits = Format::kChunkBytes / 16;
    for_units<kGroups * kChunkUnits, kThreads>(thread, [&](int item) {
      const int group = item / kChunkUnits;
      const int unit = item % kChunkUnits;
      const std::byte* from = stored(group, chunk);
      copy_chunk(to + group * kGroupBytes + Format::kHeaderBytes + 16 * unit,
                 from == nullptr
                     ? w_
                     : from + Format::kHeaderBytes + chunk % kChunks * Format::kChunkBytes + 16 * unit,
                 from != nullptr);
    });
    for_units<kGroups * kHeaderUnits, kThreads>(thread, [&](int item) {
      const int group = item / kHeaderUnits;
      const int unit = item % kHeaderUnits;
      const std::byte* from = stored(group, chunk);
      copy_shared(to + group * kGroupBytes + 16 * unit, from == nullptr ? w_ : from + 16 * unit,
                  from != nullptr);
    });
  }

  /// The block of a group that has the chunk; null: there are no such outputs.
  __device__ const std::byte* stored(int group, int chunk) const {
    const int row = output_.template row_of<kBlockOutputs>(block_, kRows * group);
    if (row >= output_.weight_rows()) return nullptr;
    return w_ + (static_cast<std::size_t>(row / kRows) * blocks_ + chunk / kChunks) * kBlockBytes<Format>;
  }

 private:
  template <int kUnits, int kThreads, class Each>
  __device__ static void for_units(int thread, const Each& each) {
#pragma unroll
    for (int i = 0; i < (kUnits + kThreads - 1) / kThreads; ++i) {
      const int item = i * kThreads + thread;
      if (kUnits % kThreads == 0 || item < kUnits) each(item);
    }
  }
  const std::byte* w_;
  int blocks_;
  int block_;
  const Output& output_;
};

/// Outputs below which blocks of 8 keep more multiprocessors busy.
inline constexpr int kFew = 2048;

template <class Format>
struct Products {
  /// A warp's chunks are eight apart, two blocks: their places follow from that of its first.
  template <int kBlockOutputs, class Output>
  class Ring {
    using Copies = ChunkCopies<Format, kBlockOutputs, Output>;
    static constexpr int kHeaderUnits = Copies::kGroups * Format::kHeaderBytes / 16;
    static constexpr int kUnits = kHeaderUnits + Copies::kGroups * Format::kChunkBytes / 16;
    static constexpr int kOwn = (kUnits + 31) / 32;  // of a lane
    static_assert(product::kChains % kChunks == 0);

   public:
    static constexpr int kOutputs = kBlockOutputs;
    static constexpr int kTogether = kBlockOutputs > 16 ? 3 : 4;
    static constexpr int kDepth = 4;
    static constexpr int kWarpBytes = kDepth * Copies::kBytes + kFactorBytes<Format>;
    static constexpr int kRun = quants::kRun<Format>;

    __device__ Ring(std::byte* memory, const std::byte* w, int columns, int block, const Output& output)
        : memory_(memory) {
      const Copies copies(w, columns, block, output);
      const int lane = static_cast<int>(threadIdx.x) % 32;
      const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int unit = 32 * i + lane;
        const bool is_header = unit < kHeaderUnits;
        const int of_kind = is_header ? unit : unit - kHeaderUnits;
        const int in_group = (is_header ? kHeaderUnits : kUnits - kHeaderUnits) / Copies::kGroups;
        const int place = (is_header ? 0 : Format::kHeaderBytes) + of_kind % in_group * 16;
        const std::byte* stored = unit < kUnits ? copies.stored(of_kind / in_group, warp) : nullptr;
        to_[i] = of_kind / in_group * Copies::kGroupBytes + place;
        from_[i] = stored == nullptr
                       ? nullptr
                       : stored + place + (is_header ? 0 : warp % kChunks * Format::kChunkBytes);
      }
    }
    /// Outputs that there are not are never asked for: whatever stands there goes nowhere.
    __device__ void begin_load(int index, int chunk, int chunks) const {
      if (chunk < chunks) {
        const std::uint32_t slot = shared_address(memory_) + index % kDepth * Copies::kBytes;
        const std::size_t ahead = static_cast<std::size_t>(chunk / product::kChains) *
                                  (product::kChains / kChunks * kBlockBytes<Format>);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          if (from_[i] != nullptr) copy_chunk(slot + to_[i], from_[i] + ahead);
        }
      }
      end_copy_group();
    }
    struct Prepared {
      product::RowPart x;
      float4 sums;
    };
    __device__ static Prepared prepare(const product::RowPart& x) {
      if constexpr (kKeeps128<Format>) {
        return {x, sums_over_columns(x)};
      } else {
        return {x, {}};
      }
    }
    __device__ void multiply(float (&sums)[4], int index, int chunk, int tile, int lane,
                             const Prepared& rows) const {
      constexpr int kGroups = kBlockOutputs < product::kOutputs ? 1 : 2;
      add_scaled(
          sums,
          part_of<Format, kGroups>(memory_ + index % kDepth * Copies::kBytes + 2 * tile * Copies::kGroupBytes,
                                   memory_ + kDepth * Copies::kBytes, chunk % kChunks, lane),
          rows.x, rows.sums);
    }

   private:
    std::byte* memory_;
    const std::byte* from_[kOwn];
    int to_[kOwn];
  };

  template <class Output>
  class Tiles {
    using Copies = ChunkCopies<Format, product::kTiledOutputs, Output>;

   public:
    static constexpr int kChunkBytes = Copies::kBytes;
    static constexpr int kWarpBytes = kFactorBytes<Format>;
    static constexpr int kRun = quants::kRun<Format>;
    static constexpr bool kNeedsRowSums = kKeeps128<Format>;

    __device__ Tiles(const std::byte* w, int columns, int block, const Output& output)
        : copies_(w, columns, block, output) {}
    __device__ void copy(std::uint32_t to, int chunk) const {
      copies_.template copy<product::kTiledThreads>(to, chunk, static_cast<int>(threadIdx.x));
    }
    __device__ Part<Format> part(const std::byte* at, std::byte* own, int chunk, int tile, int lane) const {
      return part_of<Format, 2>(at + 2 * tile * Copies::kGroupBytes, own, chunk % kChunks, lane);
    }
    __device__ static float4 sums_of_row(const product::RowPart& x) { return sums_over_columns(x); }
    __device__ static void multiply(float (&sums)[4], const Part<Format>& w, const product::RowPart& x,
                                    const float4& row_sums = {}) {
      add_scaled(sums, w, x, row_sums);
    }

   private:
    Copies copies_;
  };

  template <int kRanks, class Output>
  static void tiled(const Bf16* x, int m, const DeviceWeight& weight, const Output& output,
                    StreamHandle stream) {
    if (m <= 16) {
      product::launch_tiled<Tiles, 2, kRanks>(x, m, weight, output, stream);
    } else {
      product::launch_tiled<Tiles, 8, kRanks>(x, m, weight, output, stream);
    }
  }

  template <class Rows>
  static void skinny(const Rows& rows, int m, const DeviceWeight& weight, const product::AnyOutput& output,
                     StreamHandle stream) {
    if (weight.rows >= product::kWide) {
      product::launch_skinny<Ring<32, product::AnyOutput>>(rows, m, weight, output, stream);
    } else if (weight.rows >= kFew) {
      product::launch_skinny<Ring<16, product::AnyOutput>>(rows, m, weight, output, stream);
    } else {
      product::launch_skinny<Ring<8, product::AnyOutput>>(rows, m, weight, output, stream);
    }
  }
  template <class Rows>
  static void skinny_gated(const Rows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                           StreamHandle stream) {
    const product::GatedOutput output(to, weight);
    if (weight.rows >= product::kWide) {
      product::launch_skinny<Ring<32, product::GatedOutput>>(rows, m, weight, output, stream);
    } else {
      product::launch_skinny<Ring<16, product::GatedOutput>>(rows, m, weight, output, stream);
    }
  }

  static void decode(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                     StreamHandle stream) {
    const product::AnyOutput output{y, weight.rows, weight.stride(), kind};
    if (m <= product::kSkinnyRows || !product::tiles_suit_to(weight)) {
      skinny(product::PlainRows{x}, m, weight, output, stream);
    } else if (product::has_enough_outputs(weight)) {
      tiled<1>(x, m, weight, output, stream);
    } else {
      tiled<product::kChains>(x, m, weight, output, stream);
    }
  }
  static void decode_normed(const NormedRows& rows, int m, const DeviceWeight& weight, void* y,
                            GemmOutput kind, StreamHandle stream) {
    product::check_few(m);
    skinny(product::RowsToNorm(rows), m, weight, product::AnyOutput{y, weight.rows, weight.stride(), kind},
           stream);
  }
  static void decode_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                           StreamHandle stream) {
    if (m > product::kSkinnyRows && product::tiles_suit_to(weight)) {
      return tiled<1>(x, m, weight, product::GatedOutput(to, weight), stream);
    }
    skinny_gated(product::PlainRows{x}, m, weight, to, stream);
  }
  static void decode_normed_gated(const NormedRows& rows, int m, const DeviceWeight& weight,
                                  const GatedRows& to, StreamHandle stream) {
    product::check_few(m);
    skinny_gated(product::RowsToNorm(rows), m, weight, to, stream);
  }
};

/// A warp has a chunk of eight rows.
template <class Format>
__global__ void expand_chunks(const std::byte* w, int rows, int columns, Bf16* to) {
  constexpr int kWarps = 8;
  const int chunk = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(blockIdx.y) * kRows + lane / 4;
  if (chunk * kChunkColumns >= columns) return;
  const std::byte* block =
      w + (static_cast<std::size_t>(blockIdx.y) * blocks_of(columns) + chunk / kChunks) * kBlockBytes<Format>;
  expand_from<Format>(block, chunk % kChunks, lane, [&](int in_chunk, const auto& run) {
    const int k = chunk * kChunkColumns + in_chunk;
    if (row < rows && k < columns) {
      Bf16* place = to + static_cast<std::size_t>(row) * columns + k;
      *reinterpret_cast<std::remove_cvref_t<decltype(run)>*>(place) = run;
    }
  });
}

/// A thread has 16 columns of a token's row.
template <class Format>
__global__ void embed_tokens(const std::int32_t* tokens, const std::byte* w, int columns, float* y) {
  const int token = tokens[blockIdx.x];
  float* to = y + static_cast<std::size_t>(blockIdx.x) * columns;
  for (int i = static_cast<int>(threadIdx.x); i * 16 < blocks_of(columns) * kColumns;
       i += static_cast<int>(blockDim.x)) {
    const int chunk = i / 4;
    const std::byte* block =
        w + (static_cast<std::size_t>(token / kRows) * blocks_of(columns) + chunk / kChunks) *
                kBlockBytes<Format>;
    expand_from<Format>(block, chunk % kChunks, token % kRows * 4 + i % 4,
                        [&](int in_chunk, const auto& run) {
                          const int k = chunk * kChunkColumns + in_chunk;
                          const auto* from = reinterpret_cast<const Bf16*>(&run);
                          if (k < columns) {
#pragma unroll
                            for (int j = 0; j < kRun<Format>; ++j) to[k + j] = widen(from[j]);
                          }
                        });
  }
}

template <class Source>
struct OnDevice {
  using Format = typename Source::Format;

  static std::size_t bytes(std::size_t rows, std::size_t columns) {
    return (rows + kRows - 1) / kRows * ((columns + kColumns - 1) / kColumns) * kBlockBytes<Format>;
  }
  static void pack(const StoredRows& from, const DeviceWeight& to, int row, StreamHandle stream) {
    constexpr int kThreads = 32;
    const ScaleTiles& tiles = from.format->scales;
    const auto columns = static_cast<std::size_t>(from.columns);
    Source source;
    source.rows = {
        .data = from.data,
        .scales = from.scales,
        .row_bytes = static_cast<int>(columns / from.format->block_size * from.format->block_bytes),
        .scale_rows = static_cast<int>(tiles.rows),
        .scale_columns = static_cast<int>(tiles.columns < columns ? tiles.columns : columns),
        .scales_of_row =
            tiles.rows == 0 ? 0 : static_cast<int>((columns + tiles.columns - 1) / tiles.columns),
        .first_scaled = from.first};
    source.columns = from.columns;
    const int blocks = (to.columns + kColumns - 1) / kColumns;
    constexpr int kMost = 32768;  // rows of a launch
    for (int done = 0; done < from.rows; done += kMost) {
      const int count = from.rows - done < kMost ? from.rows - done : kMost;
      Source rest = source;
      rest.rows.data += static_cast<std::size_t>(done) * rest.rows.row_bytes;
      rest.rows.first_scaled += done;
      pack_rows<Source><<<dim3((blocks + kThreads - 1) / kThreads, count), kThreads, 0, stream>>>(
          rest, count, row + done, blocks, static_cast<std::byte*>(const_cast<void*>(to.data)));
      check_launch("pack_rows");
    }
  }
  static void expand(const DeviceWeight& weight, Bf16* to, StreamHandle stream) {
    constexpr int kWarps = 8;
    const int chunks = (weight.columns + kChunkColumns - 1) / kChunkColumns;
    constexpr int kMost = 32768;  // groups of rows of a launch
    const int groups = (weight.rows + kRows - 1) / kRows;
    for (int done = 0; done < groups; done += kMost) {
      const int count = groups - done < kMost ? groups - done : kMost;
      expand_chunks<Format><<<dim3((chunks + kWarps - 1) / kWarps, count), kWarps * 32, 0, stream>>>(
          static_cast<const std::byte*>(weight.data) +
              bytes(static_cast<std::size_t>(done) * kRows, weight.columns),
          weight.rows - done * kRows, weight.columns,
          to + static_cast<std::size_t>(done) * kRows * weight.columns);
      check_launch("expand_chunks");
    }
  }
  static void embed(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y,
                    StreamHandle stream) {
    embed_tokens<Format>
        <<<rows, 128, 0, stream>>>(tokens, static_cast<const std::byte*>(table.data), table.columns, y);
    check_launch("embed_tokens");
  }

  static constexpr FusedProducts kFused{.most_normed = 2048,
                                        .normed = Products<Format>::decode_normed,
                                        .gated = Products<Format>::decode_gated,
                                        .normed_gated = Products<Format>::decode_normed_gated};
  static constexpr DeviceFormat describe(const WeightFormat& format) {
    return {.format = &format,
            .columns_multiple = static_cast<int>(format.block_size < 8 ? 8 : format.block_size),
            .rows_together = kRows,
            .is_rows_of_bf16 = false,
            .bytes = bytes,
            .pack = pack,
            .expand = expand,
            .decode = Products<Format>::decode,
            .fused = &kFused,
            .experts = &product::GroupedProducts<Products<Format>::template Ring,
                                                 Products<Format>::template Tiles>::kProducts,
            .embed = embed};
  }
};

}  // namespace reprise::gpu::cuda::quants
