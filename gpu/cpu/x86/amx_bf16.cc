// Computes y = x W^T for bf16 W and x as sums of two bf16, with AMX's TDPBF16PS. Compiled with -mamx-tile
// -mamx-bf16.
//
// Chosen when: more than 3 rows; up to 3, which reading the weight bounds, run on AVX-512 without tiles.
//
// Mapping: tiles of 16 rows of x by 16 outputs, two by two. For each group of outputs and each block of k,
// the weight's tiles are transposed from its stored rows once and used for all rows of x; x's tiles are
// copied to be contiguous.
//
// Bits: k advances in steps of 32, in each the high parts of x before the low parts. An element's accumulator
// is carried across blocks of k through y as f32, so it is one chain in the order of k, independent of the
// number of rows, of ranges and of tile positions. TDPBF16PS rounds to nearest even and flushes denormal
// inputs and results to zero, whatever MXCSR says. By its documentation it sums the even and the odd of its
// 32 elements separately, with fused multiply-adds from zero, and adds the total of both to the tile. The
// path without tiles repeats exactly that.

#include <immintrin.h>

#include <atomic>

#include "gpu/cpu/two_bf16.h"
#include "gpu/cpu/x86/amx.h"
#include "gpu/cpu/x86/amx_tiles.h"
#include "gpu/cpu/x86/x86_vectors.h"

namespace reprise::gpu {

namespace {

constexpr std::size_t kStepDepth = 32;   // elements of k per instruction
constexpr std::size_t kBlockSteps = 8;   // steps per block of k
constexpr std::size_t kGroupTiles = 16;  // tiles of outputs per group, whose block of k fits L2
constexpr std::size_t kBlockDepth = kStepDepth * kBlockSteps;
constexpr std::size_t kGroupOutputs = kTileSide * kGroupTiles;

using OperandTile = std::uint32_t[kTileSide][kTileSide];  // of x: [row][pair of k], of w: [pair of k][output]
using SumTile = float[kTileSide][kTileSide];

struct XTiles {  // a block of k of two row tiles, 32 KiB
  OperandTile high[kBlockSteps][2];
  OperandTile low[kBlockSteps][2];
};
using WTiles = OperandTile[kGroupTiles][kBlockSteps];  // 128 KiB

constexpr TileConfig kTileConfig(64);

/// The memory of an accumulator tile: in y, or a temporary if the tile extends beyond y.
struct Sums {
  float* at;
  std::size_t stride;  // bytes
};

/// Accumulates kRowTiles x 2 tiles over `steps` steps of k, onto the stored sums if `add`.
template <int kRowTiles>
inline void multiply_tiles(const XTiles& x, const OperandTile* w0, const OperandTile* w1, std::size_t steps,
                           bool add, const Sums (&sums)[2][2]) {
  if (add) {
    _tile_loadd(0, sums[0][0].at, sums[0][0].stride);
    _tile_loadd(1, sums[0][1].at, sums[0][1].stride);
    if constexpr (kRowTiles == 2) {
      _tile_loadd(2, sums[1][0].at, sums[1][0].stride);
      _tile_loadd(3, sums[1][1].at, sums[1][1].stride);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::size_t step = 0; step < steps; ++step) {
    _tile_loadd(6, w0[step], 64);
    _tile_loadd(4, x.high[step][0], 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, w1[step], 64);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kRowTiles == 2) {
      _tile_loadd(5, x.high[step][1], 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_loadd(4, x.low[step][0], 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kRowTiles == 2) {
      _tile_loadd(5, x.low[step][1], 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums[0][0].at, sums[0][0].stride);
  _tile_stored(1, sums[0][1].at, sums[0][1].stride);
  if constexpr (kRowTiles == 2) {
    _tile_stored(2, sums[1][0].at, sums[1][0].stride);
    _tile_stored(3, sums[1][1].at, sums[1][1].stride);
  }
}

/// Loads elements k ... k + 31 of sixteen rows, with zeros past `left` elements, and prefetches `ahead` bytes
/// on.
inline void load_step(const std::uint16_t* const (&rows)[kWide], std::size_t k, std::size_t left,
                      std::size_t ahead, WideBits (&v)[kWide]) {
  const __mmask32 there = left >= kStepDepth ? ~0U : (1U << left) - 1;
  for (std::size_t r = 0; r < kWide; ++r) {
    prefetch(rows[r] + k, ahead);
    v[r] = _mm512_maskz_loadu_epi16(there, rows[r] + k);
  }
}

/// Transposes `depth` columns of up to sixteen rows of w into tiles. Missing rows repeat the last.
inline void fill_w(const std::uint16_t* w, std::size_t row_length, std::size_t outputs, std::size_t depth,
                   std::size_t ahead, OperandTile* to) {
  const std::uint16_t* rows[kWide];
  for (std::size_t r = 0; r < kWide; ++r) rows[r] = w + std::min(r, outputs - 1) * row_length;
  for (std::size_t k = 0; k < depth; k += kStepDepth, ++to) {
    WideBits v[kWide];
    load_step(rows, k, depth - k, ahead * sizeof(std::uint16_t), v);
    transpose(v);
    for (std::size_t r = 0; r < kWide; ++r) store_bits(v[r], (*to)[r]);
  }
}

/// Copies steps [step, step + steps) of `rows` <= 32 rows of x into tiles. Missing rows keep stale contents,
/// whose results are not read.
inline void fill_x(const TwoBf16<kStepDepth>& x, std::size_t rows, std::size_t step, std::size_t steps,
                   XTiles& to) {
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint16_t* from = x.row(i) + step * 2 * kStepDepth;
    for (std::size_t s = 0; s < steps; ++s, from += 2 * kStepDepth) {
      store_bits(load_bits(from), to.high[s][i / kTileSide][i % kTileSide]);
      store_bits(load_bits(from + kStepDepth), to.low[s][i / kTileSide][i % kTileSide]);
    }
  }
}

inline void copy_sums(const float* from, std::size_t from_stride, float* to, std::size_t to_stride,
                      std::size_t rows, std::size_t outputs) {
  for (std::size_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, outputs * sizeof(float));
  }
}

/// Multiplies one block of k, for `rows` <= 32 rows and 32 outputs of which `outputs` exist.
inline void multiply_pair(const XTiles& x, std::size_t rows, const OperandTile* w0, const OperandTile* w1,
                          std::size_t outputs, std::size_t steps, bool add, float* y, std::size_t y_stride) {
  SumTile own[2][2];
  Sums sums[2][2];
  const std::size_t row_tiles = rows > kTileSide ? 2 : 1;
  const auto each_partial = [&](auto work) {
    for (std::size_t i = 0; i < row_tiles; ++i) {
      for (std::size_t j = 0; j < 2; ++j) {
        const std::size_t rows_there = std::min(kTileSide, rows - i * kTileSide);
        const std::size_t outputs_there = std::min(kTileSide, outputs - std::min(outputs, j * kTileSide));
        float* at = y + i * kTileSide * y_stride + j * kTileSide;
        work(sums[i][j], own[i][j][0], at, rows_there, outputs_there);
      }
    }
  };
  each_partial(
      [&](Sums& tile, float* own_tile, float* at, std::size_t rows_there, std::size_t outputs_there) {
        tile = {at, y_stride * sizeof(float)};
        if (rows_there == kTileSide && outputs_there == kTileSide) return;
        tile = {own_tile, kTileSide * sizeof(float)};
        std::memset(own_tile, 0, sizeof(SumTile));
        if (add) copy_sums(at, y_stride, own_tile, kTileSide, rows_there, outputs_there);
      });
  // GCC's tile loads do not declare that they read memory.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (row_tiles == 2) {
    multiply_tiles<2>(x, w0, w1, steps, add, sums);
  } else {
    multiply_tiles<1>(x, w0, w1, steps, add, sums);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  each_partial(
      [&](Sums& tile, float* own_tile, float* at, std::size_t rows_there, std::size_t outputs_there) {
        if (tile.at != at) copy_sums(own_tile, kTileSide, at, y_stride, rows_there, outputs_there);
      });
}

constexpr std::size_t kFewTileRows = 3;  // max rows that run without tiles

/// Sets FTZ and DAZ while it exists, as TDPBF16PS behaves.
struct ZeroDenormals {
  ZeroDenormals() { _mm_setcsr(before | 0x8040); }
  ~ZeroDenormals() { _mm_setcsr(before); }
  ZeroDenormals(const ZeroDenormals&) = delete;
  ZeroDenormals& operator=(const ZeroDenormals&) = delete;

  const unsigned before = _mm_getcsr();
};

inline void widen(const std::uint16_t* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; i += kWide) {
    const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    store_bits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16), to + i);
  }
}

/// Computes sixteen outputs, of which `outputs` exist, without tiles. Not inlined, so that no arithmetic
/// moves out of the scope of ZeroDenormals.
template <int kRows>
[[gnu::noinline]] void multiply_step_by_step(const TwoBf16<kStepDepth>& x, const std::uint16_t* w,
                                             std::size_t length, std::size_t outputs, float* y,
                                             std::size_t y_stride) {
  const std::size_t next =
      kTileSide * length * sizeof(std::uint16_t);  // distance to the next sixteen outputs
  const std::uint16_t* rows[kWide];
  for (std::size_t r = 0; r < kWide; ++r) rows[r] = w + std::min(r, outputs - 1) * length;
  Wide sums[kRows];
  for (Wide& sum : sums) sum = Wide::set(0.0F);
  float some[kRows][2 * kBlockDepth];  // a widened block of x: per step the high parts, then the low ones
  for (std::size_t k = 0; k < length; k += kStepDepth) {
    const std::size_t step = k % kBlockDepth;
    if (step == 0) {
      const std::size_t depth = std::min(kBlockDepth, x.stride / 2 - k);
      for (int i = 0; i < kRows; ++i) widen(x.row(static_cast<std::size_t>(i)) + 2 * k, 2 * depth, some[i]);
    }
    WideBits v[kWide];
    load_step(rows, k, length - k, next, v);
    transpose(v);
    Wide even[kRows][2];  // [row][high parts, low parts]
    Wide odd[kRows][2];
    for (std::size_t pair = 0; pair < kTileSide; ++pair) {
      const Wide even_w = as_floats(lower_halves_up(v[pair]));
      const Wide odd_w = as_floats(upper_halves(v[pair]));
      for (int i = 0; i < kRows; ++i) {
        for (std::size_t part = 0; part < 2; ++part) {
          const float* both = some[i] + 2 * step + part * kStepDepth + 2 * pair;
          const Wide zero = Wide::set(0.0F);
          even[i][part] = fma(Wide::set(both[0]), even_w, pair == 0 ? zero : even[i][part]);
          odd[i][part] = fma(Wide::set(both[1]), odd_w, pair == 0 ? zero : odd[i][part]);
        }
      }
    }
    for (int i = 0; i < kRows; ++i) {
      sums[i] = sums[i] + (even[i][0] + odd[i][0]);
      sums[i] = sums[i] + (even[i][1] + odd[i][1]);
    }
  }
  for (int i = 0; i < kRows; ++i, y += y_stride) {
    _mm512_mask_storeu_ps(y, outputs >= kWide ? 0xffffU : (1U << outputs) - 1, sums[i].all);
  }
}

template <int kRows>
void multiply_without_tiles(const TwoBf16<kStepDepth>& x, const WeightView& w, float* y, std::size_t y_stride,
                            std::size_t n_begin, std::size_t n_end) {
  const ZeroDenormals zero_denormals;
  const auto* weights = static_cast<const std::uint16_t*>(w.data);
  for (std::size_t n = n_begin; n < n_end; n += kTileSide) {
    multiply_step_by_step<kRows>(x, weights + n * w.columns, w.columns, n_end - n, y + n, y_stride);
  }
}

}  // namespace

void multiply_bf16_tiles(const void* activations, std::size_t m, const WeightView& w, float* y,
                         std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  const std::size_t length = w.columns;
  const auto* weights = static_cast<const std::uint16_t*>(w.data);
  const TwoBf16<kStepDepth> x(activations, length);
  if (m <= kFewTileRows) {
    if (m == 1) multiply_without_tiles<1>(x, w, y, y_stride, n_begin, n_end);
    if (m == 2) multiply_without_tiles<2>(x, w, y, y_stride, n_begin, n_end);
    if (m == 3) multiply_without_tiles<3>(x, w, y, y_stride, n_begin, n_end);
    return;
  }
  const TileRegisters registers(kTileConfig);
  // Reading the weight bounds few rows: fewer outputs at once, so that the weight's rows are read
  // sequentially.
  const std::size_t max_outputs = m <= 2 * kTileSide ? 2 * kTileSide : kGroupOutputs;
  alignas(64) WTiles group;
  alignas(64) XTiles some = {};
  for (std::size_t n = n_begin; n < n_end; n += max_outputs) {
    const std::size_t outputs = std::min(max_outputs, n_end - n);
    for (std::size_t k = 0; k < length; k += kBlockDepth) {
      const std::size_t depth = std::min(kBlockDepth, length - k);
      const std::size_t steps = (depth + kStepDepth - 1) / kStepDepth;
      const std::size_t ahead = k + kBlockDepth < length ? kBlockDepth : max_outputs * length - k;
      for (std::size_t tile = 0; tile * kTileSide < outputs || tile % 2 != 0; ++tile) {
        const std::size_t first = std::min(tile * kTileSide, outputs - 1);
        fill_w(weights + (n + first) * length + k, length, outputs - first, depth, ahead, group[tile]);
      }
      for (std::size_t row = 0; row < m; row += 2 * kTileSide) {
        const std::size_t rows = std::min(2 * kTileSide, m - row);
        fill_x(x.from(row), rows, k / kStepDepth, steps, some);
        for (std::size_t j = 0; j < outputs; j += 2 * kTileSide) {
          const OperandTile* panel = group[j / kTileSide];
          multiply_pair(some, rows, panel, panel + kBlockSteps, std::min(2 * kTileSide, outputs - j), steps,
                        k != 0, y + row * y_stride + n + j, y_stride);
        }
      }
    }
  }
}

}  // namespace reprise::gpu
