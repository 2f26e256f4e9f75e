// The fast product of quantised formats with AMX's product of bytes, for more than a few rows of x, beside the products
// of AVX-512; compiled with -mavx512vnni -mamx-tile -mamx-int8.
//
// The panels of a group of outputs stay in L2 while all rows pass, some pairs of tiles at a time. Rows and outputs of a
// tile that do not exist are multiplied and not looked at.

#include <atomic>
#include <memory>
#include <type_traits>
#include <vector>

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

/// Room of a thread, kept from call to call.
template <class Quant>
struct TileRoom {
  using Tiles = TilesOf<Quant>;

  Tiles tiles;
  BytesOfRow unpacked[kTileSide];
  RowTiles rows[Tiles::kPairsAtOnce];
  std::vector<typename Tiles::Panel> panels;     // as PanelGroup has them
  std::vector<typename Tiles::Numbers> numbers;  // as RowPairs has them

  static TileRoom& of_thread() {
    thread_local const auto room = std::make_unique<TileRoom>();
    return *room;
  }
};

constexpr std::size_t kGroupBytes = std::size_t{640} << 10;  // of panels, which L2 keeps

template <class Quant>
class TileProduct {
 public:
  TileProduct(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride)
      : x_(listed, w.columns),
        m_(m),
        w_(w),
        y_(y),
        y_stride_(y_stride),
        depth_((w.columns + kTileDepth - 1) / kTileDepth),
        room_(TileRoom<Quant>::of_thread()) {}

  void outputs(std::size_t begin, std::size_t end) {
    const std::size_t panels = kGroupBytes / (depth_ * sizeof(Panel)) / 2 * 2;
    const std::size_t group = std::clamp<std::size_t>(panels, 2, 32) * kTileSide;
    const TileRegisters registers(Tiles::kConfig);
    for (std::size_t n = begin; n < end; n += group) multiply_group(n, std::min(group, end - n));
  }

 private:
  using Tiles = TilesOf<Quant>;
  using Panel = typename Tiles::Panel;
  using Numbers = typename Tiles::Numbers;
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  static constexpr std::size_t kRowsAtOnce = Tiles::kPairsAtOnce * kPairRows;

  std::size_t blocks_at(std::size_t k) const { return std::min(kTileDepth, w_.columns - k) / kElements; }

  /// Panel `panel` of the group: outputs [n, n + count), those that do not exist repeat the last.
  void fill_panel(std::size_t n, std::size_t count, const PanelGroup<Panel>& group, std::size_t panel) {
    using Block = typename Quant::Block;
    const std::size_t next = kTileSide * w_.row_bytes();
    for (std::size_t k = 0; k < w_.columns; k += kTileDepth) {
      const std::size_t blocks = blocks_at(k);
      for (std::size_t r = 0; r < kTileSide; ++r) {
        const std::byte* row = w_.row(n + std::min(r, count - 1)) + k / kElements * sizeof(Block);
        for (std::size_t line = 0; line < blocks * sizeof(Block); line += 64) ask_for(row, next + line);
        unpack_bytes<Quant>(reinterpret_cast<const Block*>(row), blocks, room_.unpacked[r]);
      }
      Tiles::fill(room_.unpacked, blocks, group.at(k / kTileDepth, panel));
    }
  }

  void multiply_group(std::size_t n, std::size_t outputs) {
    const std::size_t count = (outputs + kTileSide - 1) / kTileSide;
    room_.panels.resize(std::max(room_.panels.size(), count * depth_));
    const PanelGroup<Panel> group{.panels = room_.panels.data(), .count = count};
    for (std::size_t p = 0; p < count; ++p) {
      const std::size_t first = p * kTileSide;
      fill_panel(n + first, std::min(kTileSide, outputs - first), group, p);
    }
    for (std::size_t row = 0; row < m_; row += kRowsAtOnce) {
      const RowPairs<Numbers> rows = prepare(row, std::min(kRowsAtOnce, m_ - row));
      std::atomic_signal_fence(
          std::memory_order_seq_cst);  // GCC's tile loads do not say that they read memory
      room_.tiles.multiply(rows, group, w_.columns / kElements, [&](std::size_t panel, std::size_t pair) {
        const std::size_t first = panel * kTileSide;
        return PairOutputs{.y = y_ + (row + pair * kPairRows) * y_stride_ + n + first,
                           .stride = y_stride_,
                           .there = PairOutputs::first(outputs - first)};
      });
    }
  }

  RowPairs<Numbers> prepare(std::size_t row, std::size_t rows) {
    room_.numbers.resize(std::max(room_.numbers.size(), depth_ * Tiles::kPairsAtOnce));
    const RowPairs<Numbers> all{.tiles = room_.rows, .numbers = room_.numbers.data(), .rows = rows};
    for (std::size_t pair = 0; pair < all.pairs(); ++pair) {
      const ActivationsOf<Quant> x = x_.from(row + pair * kPairRows);
      room_.rows[pair].fill(x, all.rows_of(pair));
      for (std::size_t k = 0; k < w_.columns; k += kTileDepth) {
        Tiles::fill(x, all.rows_of(pair), k, blocks_at(k), all.at(k / kTileDepth, pair));
      }
    }
    return all;
  }

  const ActivationsOf<Quant> x_;
  const std::size_t m_;
  const WeightView& w_;
  float* y_;
  const std::size_t y_stride_;
  const std::size_t depth_;  // of a panel, in 256 elements of k
  TileRoom<Quant>& room_;
};

}  // namespace

void multiply_bytes_by_tiles(RowList listed, std::size_t m, const WeightView& w, float* y,
                             std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  const auto find = [&]<class... Quant>() {
    const bool found = ((w.format == &Quant::kFormat &&
                         (TileProduct<Quant>(listed, m, w, y, y_stride).outputs(n_begin, n_end), true)) ||
                        ...);
    REPRISE_CHECK(found, "the weight format has no AMX tile kernel");
  };
  find.operator()<Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4>();
}

}  // namespace reprise::gpu
