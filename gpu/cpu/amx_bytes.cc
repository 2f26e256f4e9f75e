// The fast product of quantised formats with AMX's product of bytes, for more than a few rows of x, beside the products
// of AVX-512; compiled with -mavx512vnni -mamx-tile -mamx-int8.
//
// The panels of a group of outputs and 256 elements of k stay in L2 while all rows pass, 32 at a time. Tiles of rows, or
// of outputs, that do not exist are multiplied and not looked at. Nothing is kept between calls.

#include <atomic>
#include <type_traits>

#include "base/check.h"
#include "gpu/cpu/amx.h"
#include "gpu/cpu/amx_large_blocks.h"
#include "gpu/cpu/amx_small_blocks.h"
#include "gpu/cpu/formats.h"

namespace reprise::gpu {

namespace {

template <class Quant>
using TilesOf =
    std::conditional_t<Quant::kFormat.block_size == 256, LargeBlockTiles<Quant>, SmallBlockTiles<Quant>>;

template <class Quant>
void multiply_quant_by_tiles(RowList listed, std::size_t m, const WeightView& w, float* y,
                             std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  using Tiles = TilesOf<Quant>;
  using Block = typename Quant::Block;
  constexpr std::size_t kElements = Quant::kFormat.block_size;
  constexpr std::size_t kGroupOutputs = kTilePanels * kTileSide;
  struct Room {
    Tiles tiles;
    typename Tiles::Panel panels[kTilePanels];
    typename Tiles::Rows some;
    BytesOfRow unpacked[kTileSide];
  };
  Room room;
  const ActivationsOf<Quant> x(listed, w.columns);
  const TileRegisters registers(Tiles::kConfig);
  for (std::size_t n = n_begin; n < n_end; n += kGroupOutputs) {
    const std::size_t outputs = std::min(kGroupOutputs, n_end - n);
    for (std::size_t k = 0; k < w.columns; k += kTileDepth) {
      const std::size_t blocks = std::min(kTileDepth, w.columns - k) / kElements;
      for (std::size_t first = 0; first < outputs; first += kTileSide) {
        for (std::size_t r = 0; r < kTileSide; ++r) {
          const std::byte* row = w.row(n + std::min(first + r, outputs - 1)) + k / kElements * sizeof(Block);
          const std::size_t next = kTileSide * w.row_bytes();
          for (std::size_t line = 0; line < blocks * sizeof(Block); line += 64) ask_for(row, next + line);
          unpack_bytes<Quant>(reinterpret_cast<const Block*>(row), blocks, room.unpacked[r]);
        }
        Tiles::fill(room.unpacked, blocks, room.panels[first / kTileSide]);
      }
      for (std::size_t row = 0; row < m; row += kPairRows) {
        const std::size_t rows = std::min(kPairRows, m - row);
        for (std::size_t i = 0; i < rows; ++i) Tiles::fill(x, row + i, k, blocks, i, room.some);
        std::atomic_signal_fence(
            std::memory_order_seq_cst);  // GCC's tile loads do not say that they read memory
        room.tiles.multiply(room.some, rows, room.panels, outputs, blocks, k != 0, y + row * y_stride + n,
                            y_stride);
      }
    }
  }
}

}  // namespace

void multiply_bytes_by_tiles(RowList listed, std::size_t m, const WeightView& w, float* y,
                             std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  const auto find = [&]<class... Quant>() {
    const bool found = ((w.format == &Quant::kFormat &&
                         (multiply_quant_by_tiles<Quant>(listed, m, w, y, y_stride, n_begin, n_end), true)) ||
                        ...);
    REPRISE_CHECK(found, "a format that tiles are made of");
  };
  find.operator()<Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4>();
}

}  // namespace reprise::gpu
