// Configuration and layouts of AMX tiles, shared by amx_bf16.cc and amx_bytes.cc.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace reprise::gpu {
namespace {

inline constexpr std::size_t kTileSide = 16;  // rows of x or outputs per tile
inline constexpr std::size_t kPairRows = 2 * kTileSide;

using WholeTile = std::int32_t[kTileSide][kTileSide];  // [row of x][output]

/// The operand of LDTILECFG: four accumulator tiles, two of x and two of the weight, the latter four `depth`
/// bytes deep in k.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 0, 0, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 0, 0};

  constexpr explicit TileConfig(std::uint16_t depth) {
    row_bytes[4] = row_bytes[5] = depth;
    rows[6] = rows[7] = static_cast<std::uint8_t>(depth / 4);
  }
};
static_assert(sizeof(TileConfig) == 64);

/// Configures this thread's tile registers and releases them on destruction: 0 to 3 accumulators, 4 and 5 x,
/// 6 and 7 the weight. The configuration must be constant: GCC's intrinsic does not declare that it reads all
/// of it.
struct TileRegisters {
  explicit TileRegisters(const TileConfig& config) { _tile_loadconfig(&config); }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

/// f32 accumulators of 32 rows of x by 16 outputs.
struct alignas(64) PairTotals {
  float of[kPairRows][kTileSide];
};

/// The part of y that a PairTotals is stored to.
struct PairOutputs {
  float* y;
  std::size_t stride;
  __mmask16 existing;  // mask of existing outputs

  static __mmask16 first(std::size_t outputs) {
    return static_cast<__mmask16>(outputs >= kTileSide ? 0xffffU : (1U << outputs) - 1);
  }
  void store(std::size_t row, __m512 sums) const { _mm512_mask_storeu_ps(y + row * stride, existing, sums); }
};

}  // namespace
}  // namespace reprise::gpu
