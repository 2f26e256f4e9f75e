// AMX: TDPBF16PS and TDPBSSD. Compiled with -mamx-tile -mamx-bf16 -mamx-int8. The process needs the system's
// permission, which gpu::is_available() requests.

#include <immintrin.h>

#include <cstdint>

#include "tools/lab/bench_limits/peak.h"

namespace reprise::tools {
namespace {

constexpr double kAmxChains = 6;
constexpr double kTileProducts = 16 * 16 * 16;  // per tile instruction, each of two bf16 or four int8 pairs

/// Operand of LDTILECFG: eight tiles of sixteen rows of 64 bytes.
struct alignas(64) AllTiles {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr AllTiles kAllTiles;  // not local: GCC's intrinsic declares only eight bytes of it as read

/// Repeats `turn`: tiles 0 to 5 are accumulators, 6 and 7 operands whose rows are all `row`.
template <class Turn>
inline float run_tiles(std::size_t turns, const void* row, Turn turn) {
  _tile_loadconfig(&kAllTiles);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_loadd(6, row, 0);
  _tile_loadd(7, row, 0);
  for (std::size_t i = 0; i < turns; ++i) turn();
  _tile_release();
  return 0;
}

float run_amx_bf16(std::size_t turns) {
  return run_tiles(turns, kBf16s, [] {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  });
}

float run_amx_int8(std::size_t turns) {
  return run_tiles(turns, kBytes, [] {
    _tile_dpbssd(0, 6, 7);
    _tile_dpbssd(1, 6, 7);
    _tile_dpbssd(2, 6, 7);
    _tile_dpbssd(3, 6, 7);
    _tile_dpbssd(4, 6, 7);
    _tile_dpbssd(5, 6, 7);
  });
}

}  // namespace

std::vector<Peak> amx_bf16_peaks() {
  return {{"AMX TDPBF16PS", "bf16", 4 * kTileProducts * kAmxChains, run_amx_bf16}};
}

std::vector<Peak> amx_int8_peaks() {
  return {{"AMX TDPBSSD", "int8", 8 * kTileProducts * kAmxChains, run_amx_int8}};
}

}  // namespace reprise::tools
