#pragma once
// Kernels of a quantized format (formats.cuh): decode GEMMs, repacking, expansion, embedding.
//
// Computes: y = x W^T for decode; a prefill expands the weights to bf16 first.
//
// Chosen when: as for bf16 weights, the small-m or the tiled GEMM (small_m.cuh, tiled.cuh).
//
// Pipeline: chunks are copied to shared memory as stored; a warp dequantizes its fragments in registers.
//
// Bits: chunks and chains as in decode_product.cuh. Within a chunk the columns of a scale are multiplied by
// the integers, exact in bf16, and summed in f32 from zero; scale times that sum is added to the chain in
// f32. So no weight is rounded, and a scale costs one multiplication per output and row. An offset is
// multiplied by the sum of x over these columns (an MMA with ones) and added next. Integers of few bits keep
// the 128 of their conversion, which is folded into the offset; with a scale per 16 columns it is subtracted,
// which costs less there.

#include "gpu/cuda/experts/products.cuh"
#include "gpu/cuda/gemm/decode_product.cuh"
#include "gpu/cuda/gemm/quants/formats.cuh"
#include "gpu/cuda/gemm/small_m.cuh"
#include "gpu/cuda/gemm/tiled.cuh"

namespace reprise::gpu::cuda::quants {

/// Integers keep their 128, so sums of x are needed.
template <class Format>
inline constexpr bool kKeeps128 = Format::kZero >= 0 && Format::kScales == 2;

/// A lane's fragment of a chunk of 16 rows of W: rows g and g + 8, pairs of integers, and factors.
template <class Format>
struct Part {
  Pair low[2][4];
  Pair high[2][4];
  float low_factors[4];
  float high_factors[4];

  // Indices in the four factors: up to four scales, or two (scale, offset) pairs.
  __device__ static constexpr int scale_at(int i) { return kKeeps128<Format> ? 2 * i : i; }
  __device__ static constexpr int offset_at(int i) { return 2 * i + 1; }
};

/// Floats of a row's factors, and bytes of a warp's factor buffer for a tile.
template <class Format>
inline constexpr int kFactors = Format::kScales*(kKeeps128<Format> ? 2 : 1);
template <class Format>
inline constexpr int kFactorBytes = product::kOutputs* kFactors<Format>* static_cast<int>(sizeof(float));

template <int kCount>
__device__ __forceinline__ void read_factors(const float* from, float (&to)[4]) {
  if constexpr (kCount == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  } else {
    static_assert(kCount == 2);
    const float2 two = *reinterpret_cast<const float2*>(from);
    to[0] = two.x;
    to[1] = two.y;
  }
}

template <class Format>
__device__ __forceinline__ void read_integers(const std::byte* chunk, int lane, Pair (&q)[2][4]) {
  if constexpr (kKeeps128<Format>) {
    Format::read(chunk, lane, q);
  } else {
    integers<Format>(chunk, lane, q);
  }
}

/// Loads the fragment from kGroups groups of eight rows (2, or 1 and zeros) in shared memory, header and
/// chunk each. `chunk`: index in its block; `own`: kFactorBytes. Called by all lanes.
template <class Format, int kGroups>
__device__ __forceinline__ Part<Format> part_of(const std::byte* groups, std::byte* own, int chunk,
                                                int lane) {
  constexpr int kGroupBytes = Format::kHeaderBytes + Format::kChunkBytes;
  constexpr int kScales = Format::kScales;
  auto* factors = reinterpret_cast<float*>(own);  // [16 rows][kFactors]
  __syncwarp();                                   // the previous tile's factors have been read
#pragma unroll
  for (int i = 0; i < (kGroups * kRows * kScales + 31) / 32; ++i) {
    const int item = 32 * i + lane;
    const int row = item / kScales;
    if (row < kGroups * kRows) {
      const Factor factor =
          Format::factor(groups + row / kRows * kGroupBytes, row % kRows, chunk, item % kScales);
      if constexpr (kKeeps128<Format>) {
        const float offset = __fmaf_rn(-static_cast<float>(128 + Format::kZero), factor.scale, factor.offset);
        reinterpret_cast<float2*>(factors)[item] = make_float2(factor.scale, offset);
      } else {
        factors[item] = factor.scale;
      }
    }
  }
  Part<Format> part;
  read_integers<Format>(groups + Format::kHeaderBytes, lane, part.low);
  if constexpr (kGroups == 2) {
    read_integers<Format>(groups + kGroupBytes + Format::kHeaderBytes, lane, part.high);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) part.high[i / 4][i % 4] = as_pair(0);
  }
  __syncwarp();
  // Without rows g + 8 their sums are dropped, so any factor will do.
  constexpr int kOfRow = kFactors<Format>;
  read_factors<kOfRow>(factors + lane / 4 * kOfRow, part.low_factors);
  read_factors<kOfRow>(factors + (lane / 4 + (kGroups == 2 ? kRows : 0)) * kOfRow, part.high_factors);
  return part;
}

/// Returns the sums of x over the columns of both scales of a chunk: rows 2 t and 2 t + 1 of the first, then
/// of the second.
__device__ __forceinline__ float4 sums_over_columns(const product::RowPart& x) {
  constexpr std::uint32_t kOnes = 0x3f803f80;
  const std::uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
  float first[4];
  float second[4];
  multiply(first, ones, x.of[0].x, x.of[0].y);
  multiply(second, ones, x.of[2].x, x.of[2].y);
  multiply_add(first, ones, x.of[1].x, x.of[1].y);
  multiply_add(second, ones, x.of[3].x, x.of[3].y);
  return make_float4(first[0], first[1], second[0], second[1]);
}

/// sums (C fragment: outputs by rows of x) += W x^T for one chunk. `row_sums`: sums_over_columns(), if
/// kKeeps128.
template <class Format>
__device__ __forceinline__ void add_scaled(float (&sums)[4], const Part<Format>& w, const product::RowPart& x,
                                           const float4& row_sums) {
  constexpr int kInstructions = 4 / Format::kScales;  // MMAs per scale
#pragma unroll
  for (int i = 0; i < Format::kScales; ++i) {
    float unscaled[4];
#pragma unroll
    for (int j = 0; j < kInstructions; ++j) {
      const int s = kInstructions * i + j;
      const Pair* low = w.low[s / 2] + s % 2 * 2;
      const Pair* high = w.high[s / 2] + s % 2 * 2;
      const std::uint32_t a[4] = {bits_of(low[0]), bits_of(high[0]), bits_of(low[1]), bits_of(high[1])};
      if (j == 0) {
        multiply(unscaled, a, x.of[s].x, x.of[s].y);
      } else {
        multiply_add(unscaled, a, x.of[s].x, x.of[s].y);
      }
    }
    const float low = w.low_factors[w.scale_at(i)];
    const float high = w.high_factors[w.scale_at(i)];
    sums[0] = __fmaf_rn(low, unscaled[0], sums[0]);
    sums[1] = __fmaf_rn(low, unscaled[1], sums[1]);
    sums[2] = __fmaf_rn(high, unscaled[2], sums[2]);
    sums[3] = __fmaf_rn(high, unscaled[3], sums[3]);
    if constexpr (kKeeps128<Format>) {
      const float2 of_rows =
          i == 0 ? make_float2(row_sums.x, row_sums.y) : make_float2(row_sums.z, row_sums.w);
      const float low_offset = w.low_factors[w.offset_at(i)];
      const float high_offset = w.high_factors[w.offset_at(i)];
      sums[0] = __fmaf_rn(low_offset, of_rows.x, sums[0]);
      sums[1] = __fmaf_rn(low_offset, of_rows.y, sums[1]);
      sums[2] = __fmaf_rn(high_offset, of_rows.x, sums[2]);
      sums[3] = __fmaf_rn(high_offset, of_rows.y, sums[3]);
    }
  }
}

// -- kernels

__device__ __forceinline__ int blocks_of(int columns) {
  return (columns + kColumns - 1) / kColumns;
}

/// Addresses of the weight groups (eight rows each) of a block's outputs.
template <class Format, int kBlockOutputs, class Output>
class Groups {
 public:
  static constexpr int kGroups = kBlockOutputs / kRows;
  static constexpr int kGroupBytes = Format::kHeaderBytes + Format::kChunkBytes;
  static constexpr int kBytes = kGroups * kGroupBytes;  // a chunk of all groups

  __device__ Groups(const std::byte* w, int columns, int block, const Output& output)
      : w_(w), blocks_(blocks_of(columns)), block_(block), output_(output) {}

  /// Returns the first block of a group; for missing outputs, whose results are dropped, of group 0.
  __device__ const std::byte* first(int group) const {
    int row = output_.template row_of<kBlockOutputs>(block_, kRows * group);
    if (row >= output_.weight_rows()) row = output_.template row_of<kBlockOutputs>(block_, 0);
    return w_ + static_cast<std::size_t>(row / kRows) * blocks_ * kBlockBytes<Format>;
  }

 private:
  const std::byte* w_;
  int blocks_;
  int block_;
  const Output& output_;
};

/// Outputs below which blocks of 8 keep more SMs busy.
inline constexpr int kFew = 2048;

template <class Format>
struct Products {
  /// Ring of the small-m GEMM. A warp's chunks are eight apart, which is two blocks: a constant address step.
  /// The lanes divide the groups of eight rows; a lane's 16-byte units are equally spaced.
  template <int kBlockOutputs, class Output>
  class Ring {
    using Of = Groups<Format, kBlockOutputs, Output>;
    static constexpr int kLanes = 32 / Of::kGroups;  // per group
    static constexpr int kChunksApart = product::kChains / kChunks * kBlockBytes<Format>;
    static_assert(product::kChains % kChunks == 0);

   public:
    static constexpr int kOutputs = kBlockOutputs;
    static constexpr int kTogether = 3;
    static constexpr int kPartsAhead = kBlockOutputs == 32 ? 1 : 2;
    static constexpr int kDepth = 4;
    static constexpr int kWarpBytes = kDepth * Of::kBytes + kFactorBytes<Format>;
    static constexpr int kRun = quants::kRun<Format>;

    __device__ Ring(std::byte* memory, const std::byte* w, int columns, int block, const Output& output)
        : memory_(memory), in_block_(static_cast<int>(threadIdx.x) / 32 % kChunks) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      const int warp = static_cast<int>(threadIdx.x) / 32;
      header_ = Of(w, columns, block, output).first(lane / kLanes) + warp / kChunks * kBlockBytes<Format> +
                16 * (lane % kLanes);
      to_ = shared_address(memory) + lane / kLanes * Of::kGroupBytes + 16 * (lane % kLanes);
    }
    __device__ void begin_load(int index, int chunk, int chunks) {
      if (chunk < chunks) {
        const std::uint32_t slot = to_ + index % kDepth * Of::kBytes;
        copy_units<Format::kHeaderBytes / 16>(slot, header_);
        copy_units<Format::kChunkBytes / 16>(
            slot + Format::kHeaderBytes, header_ + Format::kHeaderBytes + in_block_ * Format::kChunkBytes);
        header_ += kChunksApart;
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
    __device__ void multiply(float (&sums)[4], int index, int /*chunk*/, int tile, int lane,
                             const Prepared& rows) const {
      constexpr int kGroups = kBlockOutputs < product::kOutputs ? 1 : 2;
      add_scaled(sums,
                 part_of<Format, kGroups>(memory_ + index % kDepth * Of::kBytes + 2 * tile * Of::kGroupBytes,
                                          memory_ + kDepth * Of::kBytes, in_block_, lane),
                 rows.x, rows.sums);
    }

   private:
    template <int kUnits>
    __device__ static void copy_units(std::uint32_t to, const std::byte* from) {
#pragma unroll
      for (int unit = 0; unit < kUnits; unit += kLanes) {
        if (unit + kLanes <= kUnits || static_cast<int>(threadIdx.x) % kLanes < kUnits - unit) {
          copy_chunk(to + 16 * unit, from + 16 * unit);
        }
      }
    }

    std::byte* memory_;
    int in_block_;             // chunk index in a block, constant for a warp
    const std::byte* header_;  // the lane's first header unit of the next chunk
    std::uint32_t to_;
  };

  /// Loader of the tiled GEMM. A thread copies the same 16-byte units of all chunks, of headers or of
  /// integers.
  template <class Output>
  class Tiles {
    using Of = Groups<Format, product::kTiledOutputs, Output>;
    static constexpr int kHeaderUnits = Of::kGroups * Format::kHeaderBytes / 16;
    static constexpr int kUnits = kHeaderUnits + Of::kGroups * Format::kChunkBytes / 16;
    static constexpr int kOwn = (kUnits + product::kTiledThreads - 1) / product::kTiledThreads;

   public:
    static constexpr int kChunkBytes = Of::kBytes;
    static constexpr int kWarpBytes = kFactorBytes<Format>;
    static constexpr int kRun = quants::kRun<Format>;
    static constexpr bool kNeedsRowSums = kKeeps128<Format>;

    __device__ Tiles(const std::byte* w, int columns, int block, const Output& output) {
      const Of groups(w, columns, block, output);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int unit = unit_at(i);
        if (unit >= kUnits) break;
        const bool is_header = unit < kHeaderUnits;
        const int of_kind = is_header ? unit : unit - kHeaderUnits;
        const int in_group = (is_header ? kHeaderUnits : kUnits - kHeaderUnits) / Of::kGroups;
        const int byte = (is_header ? 0 : Format::kHeaderBytes) + of_kind % in_group * 16;
        from_[i] = groups.first(of_kind / in_group) + byte;
        to_[i] = of_kind / in_group * Of::kGroupBytes + byte;
        of_chunk_[i] = is_header ? 0 : Format::kChunkBytes;
      }
    }
    __device__ void copy(std::uint32_t to, int chunk) const {
      const int block = chunk / kChunks * kBlockBytes<Format>;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        if (kUnits % product::kTiledThreads != 0 && unit_at(i) >= kUnits) break;
        copy_chunk(to + to_[i], from_[i] + block + chunk % kChunks * of_chunk_[i]);
      }
    }
    __device__ Part<Format> part(const std::byte* at, std::byte* own, int chunk, int tile, int lane) const {
      return part_of<Format, 2>(at + 2 * tile * Of::kGroupBytes, own, chunk % kChunks, lane);
    }
    __device__ static float4 sums_of_row(const product::RowPart& x) {
      return sums_over_columns(x);
    }
    __device__ static void multiply(float (&sums)[4], const Part<Format>& w, const product::RowPart& x,
                                    const float4& row_sums = {}) {
      add_scaled(sums, w, x, row_sums);
    }

   private:
    __device__ static int unit_at(int i) {
      return i * product::kTiledThreads + static_cast<int>(threadIdx.x);
    }

    const std::byte* from_[kOwn];
    int to_[kOwn];
    int of_chunk_[kOwn];  // bytes between chunks of a block
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
  static void small_m(const Rows& rows, int m, const DeviceWeight& weight, const product::AnyOutput& output,
                      StreamHandle stream) {
    if (weight.rows >= product::kWide) {
      product::launch_small_m<Ring<32, product::AnyOutput>>(rows, m, weight, output, stream);
    } else if (weight.rows >= kFew) {
      product::launch_small_m<Ring<16, product::AnyOutput>>(rows, m, weight, output, stream);
    } else {
      product::launch_small_m<Ring<8, product::AnyOutput>>(rows, m, weight, output, stream);
    }
  }
  template <class Rows>
  static void small_m_gated(const Rows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                            StreamHandle stream) {
    const product::GatedOutput output(to, weight);
    if (weight.rows >= product::kWide) {
      product::launch_small_m<Ring<32, product::GatedOutput>>(rows, m, weight, output, stream);
    } else {
      product::launch_small_m<Ring<16, product::GatedOutput>>(rows, m, weight, output, stream);
    }
  }

  static void decode(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                     StreamHandle stream) {
    const product::AnyOutput output{y, weight.rows, weight.stride(), kind};
    if (!product::can_use_tiled_to(weight, m, false)) {
      small_m(product::PlainRows{x}, m, weight, output, stream);
    } else if (product::has_enough_outputs(weight)) {
      tiled<1>(x, m, weight, output, stream);
    } else {
      tiled<product::kChains>(x, m, weight, output, stream);
    }
  }
  static void decode_normed(const NormedRows& rows, int m, const DeviceWeight& weight, void* y,
                            GemmOutput kind, StreamHandle stream) {
    product::check_few(m);
    small_m(product::RowsToNorm(rows), m, weight, product::AnyOutput{y, weight.rows, weight.stride(), kind},
            stream);
  }
  static void decode_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                           StreamHandle stream) {
    if (product::can_use_tiled_to(weight, m, true)) {
      return tiled<1>(x, m, weight, product::GatedOutput(to, weight), stream);
    }
    small_m_gated(product::PlainRows{x}, m, weight, to, stream);
  }
  static void decode_normed_gated(const NormedRows& rows, int m, const DeviceWeight& weight,
                                  const GatedRows& to, StreamHandle stream) {
    product::check_few(m);
    small_m_gated(product::RowsToNorm(rows), m, weight, to, stream);
  }
};

/// One warp per chunk of eight rows.
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
      Bf16* destination = to + static_cast<std::size_t>(row) * columns + k;
      *reinterpret_cast<std::remove_cvref_t<decltype(run)>*>(destination) = run;
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
    constexpr int kMax = 32768;  // rows per launch
    for (int done = 0; done < from.rows; done += kMax) {
      const int count = from.rows - done < kMax ? from.rows - done : kMax;
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
    constexpr int kMax = 32768;  // groups of rows per launch
    const int groups = (weight.rows + kRows - 1) / kRows;
    for (int done = 0; done < groups; done += kMax) {
      const int count = groups - done < kMax ? groups - done : kMax;
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

  static constexpr FusedProducts kFused{.max_normed = 2048,
                                        .normed = Products<Format>::decode_normed,
                                        .gated = Products<Format>::decode_gated,
                                        .normed_gated = Products<Format>::decode_normed_gated,
                                        .to_residual = nullptr,
                                        .unscaled = nullptr,
                                        .unscaled_gated = nullptr};
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
