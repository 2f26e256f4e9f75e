// The fast GEMM of quantized formats on AMX's TDPBSSD, for more than eight rows, bitwise identical to the
// definition in int8_product.h. Compiled with -mavx512vnni -mamx-tile -mamx-int8.
//
// The unpacked panels of a group of outputs stay in L2 while all rows pass, in pairs of row tiles. Missing
// rows and outputs of a tile are multiplied, but their results are not read.

#include <immintrin.h>

#include <atomic>
#include <memory>
#include <type_traits>
#include <vector>

#include "gpu/cpu/formats/formats.h"
#include "gpu/cpu/formats/int8_bytes.h"
#include "gpu/cpu/formats/int8_product.h"
#include "gpu/cpu/lanes.h"
#include "gpu/cpu/x86/amx.h"
#include "gpu/cpu/x86/amx_tiles.h"
#include "gpu/cpu/x86/x86_vectors.h"

namespace reprise::gpu {
namespace {

/// Up to two tiles of rows of x: read in place if the rows of a tile have a constant stride, else copied.
class RowTiles {
 public:
  template <std::size_t kBlock>
  void fill(const Int8Rows<kBlock>& x, std::size_t rows) {
    const std::size_t copied_stride = x.columns + 64;  // rows start in different sets of L1
    for (std::size_t first = 0; first < rows; first += kTileSide) {
      const std::size_t count = std::min(kTileSide, rows - first);
      Tile& tile = tiles_[first / kTileSide];
      tile = {.first = x.q(first), .stride = x.q(first + (count > 1 ? 1 : 0)) - x.q(first)};
      bool is_even = count == kTileSide;
      for (std::size_t i = 1; i < count; ++i) is_even &= x.q(first + i) - x.q(first + i - 1) == tile.stride;
      if (is_even) continue;
      if (copy_.size() < kPairRows * copied_stride) copy_.resize(kPairRows * copied_stride);
      for (std::size_t i = first; i < first + count; ++i) {
        std::memcpy(copy_.data() + i * copied_stride, x.q(i), x.columns);
      }
      tile = {.first = copy_.data() + first * copied_stride,
              .stride = static_cast<std::ptrdiff_t>(copied_stride)};
    }
  }

  const std::int8_t* at(std::size_t tile, std::size_t k) const { return tiles_[tile].first + k; }
  std::ptrdiff_t stride(std::size_t tile) const { return tiles_[tile].stride; }

 private:
  struct Tile {
    const std::int8_t* first = nullptr;
    std::ptrdiff_t stride = 0;
  };
  Tile tiles_[2];
  std::vector<std::int8_t> copy_;  // missing rows have stale contents, whose sums are not read
};

/// Rows of x that are multiplied by a group of panels together, in pairs of tiles, with their scales and
/// sums.
template <class Numbers>
struct RowPairs {
  const RowTiles* tiles;
  Numbers* numbers;  // [256 elements of k][pair]
  std::size_t rows;

  std::size_t pairs() const { return (rows + kPairRows - 1) / kPairRows; }
  std::size_t rows_of(std::size_t pair) const { return std::min(kPairRows, rows - pair * kPairRows); }
  Numbers& at(std::size_t k, std::size_t pair) const { return numbers[k * pairs() + pair]; }
};

/// The panels of a group of outputs: [256 elements of k][panel].
template <class Panel>
struct PanelGroup {
  Panel* panels;
  std::size_t count;

  Panel& at(std::size_t k, std::size_t panel) const { return panels[k * count + panel]; }
};

constexpr std::size_t kTileDepth = 256;  // elements of k per panel

/// Formats with blocks of 32.
///
/// One instruction computes the integer sums of a block for sixteen rows by sixteen outputs; the float part
/// follows on vectors of sixteen outputs. The work is in sets of two row tiles by two output tiles by four
/// blocks: first the integer tiles, which stay in L1, then their float part. (Interleaving a set's tiles with
/// the previous set's float part took 1.4 times as long on a Xeon.)
template <class Quant>
class SmallBlockTiles {
 public:
  static constexpr TileConfig kConfig{32};
  static constexpr std::size_t kBlocks = kTileDepth / 32;

  /// 256 elements of k of sixteen outputs.
  struct Panel {
    alignas(64) std::uint32_t q[kTileDepth / 4][kTileSide];  // [k / 4][output]: four signed bytes
    alignas(64) float scales[kBlocks][kTileSide];
    alignas(64) float offsets[kBlocks][kTileSide];
  };
  /// Scales and sums of 256 elements of the rows of x.
  struct Numbers {
    float scales[kPairRows][kBlocks];
    float sums[kPairRows][kBlocks];
  };

  static void fill(const BytesOfRow (&rows)[kTileSide], std::size_t blocks, Panel& to) {
    const WideBits zero = _mm512_set1_epi8(static_cast<char>(Bytes<Quant>::kZero));
    for (std::size_t word = 0; word < blocks * 8; word += kTileSide) {
      transpose_words([&](std::size_t r) { return rows[r].q + 4 * word; }, to.q + word);
      for (std::size_t line = word; line < word + kTileSide; ++line) {
        store_bits(_mm512_sub_epi8(load_bits(to.q[line]), zero), to.q[line]);
      }
    }
    std::uint32_t words[16][kTileSide];
    transpose_words([&](std::size_t r) { return rows[r].words; }, words);
    std::memcpy(to.scales, words, sizeof(to.scales));
    if constexpr (Quant::kHasOffsets) std::memcpy(to.offsets, words + kBlocks, sizeof(to.offsets));
  }

  static void fill(const ActivationsOf<Quant>& x, std::size_t rows, std::size_t k, std::size_t blocks,
                   Numbers& to) {
    for (std::size_t i = 0; i < rows; ++i) {
      const float* scales = x.scales(i) + k / 32;
      if (blocks == kBlocks) {
        std::memcpy(to.scales[i], scales, sizeof(to.scales[i]));
      } else {
        std::copy_n(scales, blocks, to.scales[i]);
      }
      if constexpr (Quant::kHasOffsets) {
        const auto* sums = x.sums(i) + k / 32;
        for (std::size_t b = 0; b < blocks; ++b) to.sums[i][b] = static_cast<float>(sums[b]);
      }
    }
  }

  static constexpr std::size_t kPairsAtOnce = 1;

  /// outputs_of(panel, pair) returns where to store the results. blocks: total blocks of k.
  template <class OutputsOf>
  void multiply(const RowPairs<Numbers>& x, const PanelGroup<Panel>& panels, std::size_t blocks,
                OutputsOf outputs_of) {
    for (std::size_t p = 0; p < panels.count; p += 2) {
      const std::size_t outputs = std::min<std::size_t>(2, panels.count - p);
      const auto panels_of = [&](std::size_t block) {
        const std::size_t k = block / kBlocks;
        return TwoPanels{{&panels.at(k, p), &panels.at(k, p + outputs - 1)}};
      };
      for (std::size_t block = 0; block <= blocks; ++block) {
        if (block < blocks) {
          multiply_block(x, block, panels_of(block));
        } else {
          store_tiles(block - 1);
        }
        if (block == 0 || (block % kSetBlocks != 0 && block != blocks)) continue;
        const std::size_t first = (block - 1) / kSetBlocks * kSetBlocks;
        const Set set{.numbers = &x.at(first / kBlocks, 0),
                      .panels = panels_of(first),
                      .block = first % kBlocks,
                      .blocks = block - first,
                      .begin = first == 0};
        for (std::size_t row = 0; row < x.rows; row += kTileSide) {
          for (std::size_t t = 0; t < outputs; ++t) add_up(set, row, t, totals_[t].of[row]);
        }
      }
      for (std::size_t t = 0; t < outputs; ++t) {
        const PairOutputs to = outputs_of(p + t, 0);
        for (std::size_t i = 0; i < x.rows; ++i) to.store(i, _mm512_load_ps(totals_[t].of[i]));
      }
    }
  }

 private:
  static constexpr std::size_t kSetBlocks = 4;

  struct TwoPanels {
    const Panel* of[2];
  };
  struct Set {
    const Numbers* numbers;
    TwoPanels panels;
    std::size_t block;  // index of the first one in the panels
    std::size_t blocks;
    bool begin;  // the set starts at k = 0
  };

  void store_tiles(std::size_t block) {
    auto& to = sums_[block % kSetBlocks];
    _tile_stored(0, to[0], 64);
    _tile_stored(1, to[1], 64);
    _tile_stored(2, to[2], 64);
    _tile_stored(3, to[3], 64);
  }

  /// Multiplies the four tiles of a block. Each accumulator tile of the previous block is stored just before
  /// this one reuses it, when its result is ready. (The first block stores garbage, which the fourth
  /// overwrites.)
  void multiply_block(const RowPairs<Numbers>& x, std::size_t block, const TwoPanels& panels) {
    const RowTiles& rows = x.tiles[0];
    const std::size_t word = 8 * (block % kBlocks);
    auto& before = sums_[(block + kSetBlocks - 1) % kSetBlocks];
    _tile_loadd(4, rows.at(0, 32 * block), rows.stride(0));
    _tile_loadd(6, panels.of[0]->q[word], 64);
    _tile_stored(0, before[0], 64);
    _tile_zero(0);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, panels.of[1]->q[word], 64);
    _tile_stored(1, before[1], 64);
    _tile_zero(1);
    _tile_dpbssd(1, 4, 7);
    if (x.rows <= kTileSide) return;
    _tile_loadd(5, rows.at(1, 32 * block), rows.stride(1));
    _tile_stored(2, before[2], 64);
    _tile_zero(2);
    _tile_dpbssd(2, 5, 6);
    _tile_stored(3, before[3], 64);
    _tile_zero(3);
    _tile_dpbssd(3, 5, 7);
  }

  /// The float part of a set, for sixteen rows from `row` and panel t.
  void add_up(const Set& set, std::size_t row, std::size_t t, float* to) const {
    const Panel& panel = *set.panels.of[t];
    __m512 totals[kTileSide];
    for_each_index<kTileSide>([&](auto i) __attribute__((always_inline)) {
      totals[i] = set.begin ? _mm512_setzero_ps() : _mm512_load_ps(to + i * kTileSide);
    });
    const float* x_scales = set.numbers->scales[row] + set.block;
    [[maybe_unused]] const float* x_sums = set.numbers->sums[row] + set.block;
    for (std::size_t part = 0; part < set.blocks; ++part, ++x_scales, ++x_sums) {
      const std::int32_t* sums = sums_[part][row / kTileSide * 2 + t][0];
      const __m512 scale = _mm512_load_ps(panel.scales[set.block + part]);
      [[maybe_unused]] __m512 offset;
      if constexpr (Quant::kHasOffsets) offset = _mm512_load_ps(panel.offsets[set.block + part]);
      for_each_index<kTileSide>([&](auto i) __attribute__((always_inline)) {
        __m512 one = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_load_si512(sums + i * kTileSide)));
        if constexpr (Quant::kHasOffsets) {
          one = _mm512_fmadd_ps(offset, _mm512_set1_ps(x_sums[i * kBlocks]), one);
        }
        totals[i] = _mm512_fmadd_ps(_mm512_set1_ps(x_scales[i * kBlocks]), one, totals[i]);
      });
    }
    for_each_index<kTileSide>([&](auto i) __attribute__((always_inline)) {
      _mm512_store_ps(to + i * kTileSide, totals[i]);
    });
  }

  // [block][row tile * 2 + output tile]
  alignas(64) WholeTile sums_[kSetBlocks][4];
  PairTotals totals_[2];
};

/// Formats with blocks of 256.
///
/// The group scales are multiplied into the weight's integers, so that a tile accumulates all groups of a
/// block: scale * q is an integer of at most 13 bits, stored as two planes of bytes
///   scale * q = low + 128 high,   low from 0 to 127, high from -32 to 32
/// and I = sum low x + 128 sum high x, exactly. The float part runs once per 256 elements.
template <class Quant>
class LargeBlockTiles {
 public:
  static constexpr TileConfig kConfig{64};
  static constexpr std::size_t kSteps = kTileDepth / 64;  // instructions per block
  // Offsets are multiplied by sums of x over 16 or 32 elements, two int16 per word.
  static constexpr std::size_t kOffsetWords = Quant::kHasOffsets ? kTileDepth / Quant::kGroup / 2 : 0;

  struct Panel {
    alignas(64) std::uint32_t planes[2][kTileDepth / 4][kTileSide];  // [low, high][k / 4][output]: four bytes
    alignas(64) std::uint32_t group_offsets[kOffsetWords + 1][kTileSide];
    alignas(64) float scales[kTileSide];
    alignas(64) float offsets[kTileSide];
  };
  struct Numbers {
    std::int16_t sums[kPairRows][kOffsetWords == 0 ? 1 : 2 * kOffsetWords];
    float scales[kPairRows];
  };

  static void fill(const BytesOfRow (&rows)[kTileSide], std::size_t, Panel& to) {
    for (std::size_t r = 0; r < kTileSide; ++r) {
      to.scales[r] = rows[r].scale;
      to.offsets[r] = rows[r].offset;
    }
    alignas(64) std::uint32_t words[2][kTileSide][kTileSide];  // [word / 16][word % 16][output]
    transpose_words([&](std::size_t r) { return rows[r].words; }, words[0]);
    if constexpr (Quant::kHasOffsets && Quant::kGroup == 32) {
      // Each word holds one offset twice; combine two offsets into one word.
      for (std::size_t p = 0; p < kOffsetWords; ++p) {
        const __m512i first = load_bits(words[0][8 + 2 * p]);
        const __m512i second = load_bits(words[0][8 + 2 * p + 1]);
        store_bits(_mm512_mask_blend_epi16(kOddHalves, first, second), to.group_offsets[p]);
      }
    } else if constexpr (Quant::kHasOffsets) {
      transpose_words([&](std::size_t r) { return rows[r].words + 16; }, words[1]);
      std::memcpy(to.group_offsets, words[1], kOffsetWords * sizeof(to.group_offsets[0]));
    }
    for (std::size_t word = 0; word < kTileDepth / 4; word += kTileSide) {
      __m512i numbers[kTileSide];  // [word][output]: four bytes of k
      for (std::size_t r = 0; r < kTileSide; ++r) numbers[r] = load_halves(rows[r].q + 4 * word);
      transpose(numbers);
      constexpr std::size_t kLines = Quant::kGroup / 4;  // vectors per group
      for_each_index<kTileSide / kLines>([&](auto group) __attribute__((always_inline)) {
        const GroupScales scales(load_bits(words[0][word / kLines + group]));
        for_each_index<kLines>([&](auto i) __attribute__((always_inline)) {
          const Planes planes = split(numbers[group * kLines + i], scales);
          store_bits(planes.low, to.planes[0][word + group * kLines + i]);
          store_bits(planes.high, to.planes[1][word + group * kLines + i]);
        });
      });
    }
  }

  static void fill(const ActivationsOf<Quant>& x, std::size_t rows, std::size_t k, std::size_t, Numbers& to) {
    for (std::size_t i = 0; i < rows; ++i) {
      to.scales[i] = x.scales(i)[k / kTileDepth];
      if constexpr (Quant::kHasOffsets) {
        const __m256i sums = load_32(x.sums(i) + k / 16);
        if constexpr (Quant::kGroup == 16) {
          store_32(sums, to.sums[i]);
        } else {
          const __m128i pairs = _mm256_cvtepi32_epi16(_mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
          _mm_storeu_si128(reinterpret_cast<__m128i*>(to.sums[i]), pairs);
        }
      }
    }
  }

  // L1 then holds 16 KB of rows, 8 KB of sums, two panels and their totals; three pairs would not fit.
  static constexpr std::size_t kPairsAtOnce = 2;

  /// As SmallBlockTiles::multiply(). A block of k of all rows stays in L1 while the panels pass.
  template <class OutputsOf>
  void multiply(const RowPairs<Numbers>& x, const PanelGroup<Panel>& panels, std::size_t blocks,
                OutputsOf outputs_of) {
    const std::size_t pairs = x.pairs();
    totals_.resize(std::max(totals_.size(), panels.count * pairs));
    std::size_t unit_index = 0;
    Unit stored{};    // its sums are in memory
    Unit in_tiles{};  // its sums are in the tile registers; none at first
    in_tiles.sums = sums_ + kUnits - 1;
    for (std::size_t k = 0; k < blocks; ++k) {
      for (std::size_t p = 0; p < panels.count; ++p) {
        for (std::size_t pair = 0; pair < pairs; ++pair, unit_index = (unit_index + 1) % kUnits) {
          float* const totals = totals_[p * pairs + pair].of[0];
          const Unit unit{
              .numbers = &x.at(k, pair),
              .rows = x.rows_of(pair),
              .panel = &panels.at(k, p),
              .sums = sums_ + unit_index,
              .totals = totals,
              .continued = static_cast<__mmask16>(k == 0 ? 0 : 0xffff),
              .outputs = k + 1 == blocks ? outputs_of(p, pair) : PairOutputs{totals, kTileSide, 0xffff}};
          if (unit.rows > kTileSide) {
            multiply_block<true>(x.tiles[pair], k * kTileDepth, unit, in_tiles, stored);
          } else {
            multiply_block<false>(x.tiles[pair], k * kTileDepth, unit, in_tiles, stored);
          }
          stored = in_tiles;
          in_tiles = unit;
        }
      }
    }
    auto& [low, high] = *in_tiles.sums;
    _tile_stored(0, low[0], 64);
    _tile_stored(1, high[0], 64);
    _tile_stored(2, low[kTileSide], 64);
    _tile_stored(3, high[kTileSide], 64);
    for (const Unit& unit : {stored, in_tiles}) {
      for (std::size_t part = 0; part < kSteps; ++part) add_up(unit, part);
    }
  }

 private:
  using Sums = std::int32_t[2][kPairRows][kTileSide];  // [plane][row][output]
  static constexpr std::size_t kUnits = 2;             // units whose sums are in memory or being stored

  /// One block of k of a pair of row tiles times a panel.
  struct Unit {
    const Numbers* numbers;
    std::size_t rows;  // 0: no unit
    const Panel* panel;
    Sums* sums;
    const float* totals;  // accumulated over the previous blocks
    __mmask16 continued;  // 0 for the first block: do not read totals
    PairOutputs outputs;  // where to store the new totals; for the last block y
  };

  static constexpr __mmask32 kOddHalves = 0xaaaaaaaaU;

  /// A group's scales for sixteen outputs, each duplicated in two 16-bit lanes, and scale * kZero.
  struct GroupScales {
    __m512i scales, zeros;

    explicit GroupScales(__m512i words)
        : scales(_mm512_mask_blend_epi16(kOddHalves, words, _mm512_slli_epi32(words, 16))),
          zeros(_mm512_mullo_epi16(scales, _mm512_set1_epi16(Bytes<Quant>::kZero))) {}
  };
  struct Planes {
    __m512i low, high;
  };

  /// Splits scale * q of four elements of each of sixteen outputs. The high plane is bits 7 to 14 of the
  /// product, which includes the sign, as it has 13 bits.
  static Planes split(__m512i numbers, const GroupScales& by) {
    const __m512i even_bytes = _mm512_set1_epi16(0xff);
    const __m512i even =
        _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_and_si512(numbers, even_bytes), by.scales), by.zeros);
    const __m512i odd =
        _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_srli_epi16(numbers, 8), by.scales), by.zeros);
    constexpr int kChoose = 0xca;  // bitwise select: first ? second : third
    const __m512i low = _mm512_ternarylogic_epi32(even_bytes, even, _mm512_slli_epi16(odd, 8), kChoose);
    const __m512i high =
        _mm512_ternarylogic_epi32(even_bytes, _mm512_srli_epi16(even, 7), _mm512_slli_epi16(odd, 1), kChoose);
    return {.low = _mm512_and_si512(low, _mm512_set1_epi8(127)), .high = high};
  }

  /// Multiplies both planes by both row tiles (or the first only), from element k on, as a software pipeline.
  /// Each accumulator tile of the previous unit is stored just before this one reuses it. The float part of
  /// the unit before that is interleaved, because the tile instructions alone fill the reorder window.
  template <bool kSecond>
  static void multiply_block(const RowTiles& x, std::size_t k, const Unit& unit, const Unit& in_tiles,
                             const Unit& stored) {
    const Panel& panel = *unit.panel;
    auto& [low, high] = *in_tiles.sums;
    if (!kSecond && in_tiles.rows > kTileSide) {
      _tile_stored(2, low[kTileSide], 64);
      _tile_stored(3, high[kTileSide], 64);
    }
    _tile_loadd(4, x.at(0, k), x.stride(0));
    _tile_loadd(6, panel.planes[0][0], 64);
    _tile_stored(0, low[0], 64);
    _tile_zero(0);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, panel.planes[1][0], 64);
    _tile_stored(1, high[0], 64);
    _tile_zero(1);
    _tile_dpbssd(1, 4, 7);
    if constexpr (kSecond) {
      _tile_loadd(5, x.at(1, k), x.stride(1));
      _tile_stored(2, low[kTileSide], 64);
      _tile_zero(2);
      _tile_dpbssd(2, 5, 6);
      _tile_stored(3, high[kTileSide], 64);
      _tile_zero(3);
      _tile_dpbssd(3, 5, 7);
    }
    add_up(stored, 0);
    for (std::size_t step = 1; step < kSteps; ++step) {
      _tile_loadd(4, x.at(0, k + 64 * step), x.stride(0));
      _tile_loadd(6, panel.planes[0][kTileSide * step], 64);
      _tile_dpbssd(0, 4, 6);
      _tile_loadd(7, panel.planes[1][kTileSide * step], 64);
      _tile_dpbssd(1, 4, 7);
      if constexpr (kSecond) {
        _tile_loadd(5, x.at(1, k + 64 * step), x.stride(1));
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
      }
      add_up(stored, step);
    }
  }

  /// The float part of a quarter of a unit's rows.
  [[gnu::always_inline]] static void add_up(const Unit& unit, std::size_t part) {
    constexpr std::size_t kRows = kPairRows / kSteps;
    const std::size_t begin = kRows * part;
    if (unit.rows <= begin) return;
    const Numbers& x = *unit.numbers;
    const Panel& panel = *unit.panel;
    const auto& [low, high] = *unit.sums;
    const __m512 scales = _mm512_load_ps(panel.scales);
    [[maybe_unused]] const __m512 offset_scales = _mm512_load_ps(panel.offsets);
    [[maybe_unused]] __m512i group_offsets[kOffsetWords + 1];  // kept in registers for all rows
    for_each_index<kOffsetWords>([&](auto p) __attribute__((always_inline)) {
      group_offsets[p] = _mm512_load_si512(panel.group_offsets[p]);
    });
    const auto add_row = [&](std::size_t i) __attribute__((always_inline)) {
      const __m512i products =
          _mm512_add_epi32(_mm512_load_si512(low[i]), _mm512_slli_epi32(_mm512_load_si512(high[i]), 7));
      __m512 one = _mm512_mul_ps(scales, _mm512_cvtepi32_ps(products));
      if constexpr (Quant::kHasOffsets) {
        __m512i offsets = _mm512_setzero_si512();
        for_each_index<kOffsetWords>([&](auto p) __attribute__((always_inline)) {
          offsets = _mm512_dpwssd_epi32(offsets, group_offsets[p], word_of(x.sums[i] + 2 * p));
        });
        one = _mm512_fmadd_ps(offset_scales, _mm512_cvtepi32_ps(offsets), one);
      }
      const __m512 before = _mm512_maskz_load_ps(unit.continued, unit.totals + i * kTileSide);
      unit.outputs.store(i, _mm512_fmadd_ps(_mm512_set1_ps(x.scales[i]), one, before));
    };
    if (unit.rows >= begin + kRows) {
      for_each_index<kRows>([&](auto i) __attribute__((always_inline)) { add_row(begin + i); });
    } else {
      for (std::size_t i = begin; i < unit.rows; ++i) add_row(i);
    }
  }

  alignas(64) Sums sums_[kUnits];
  std::vector<PairTotals> totals_;  // [panel][pair]
};

template <class Quant>
using TilesOf =
    std::conditional_t<Quant::kFormat.block_size == 256, LargeBlockTiles<Quant>, SmallBlockTiles<Quant>>;

/// A thread's scratch buffers, reused across calls.
template <class Quant>
struct TileScratch {
  using Tiles = TilesOf<Quant>;

  Tiles tiles;
  BytesOfRow unpacked[kTileSide];
  RowTiles rows[Tiles::kPairsAtOnce];
  std::vector<typename Tiles::Panel> panels;     // layout of PanelGroup
  std::vector<typename Tiles::Numbers> numbers;  // layout of RowPairs

  static TileScratch& of_thread() {
    thread_local const auto scratch = std::make_unique<TileScratch>();
    return *scratch;
  }
};

constexpr std::size_t kGroupBytes = std::size_t{640} << 10;  // max bytes of a panel group, to fit L2

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
        scratch_(TileScratch<Quant>::of_thread()) {}

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

  /// Unpacks outputs [n, n + count) into a panel of the group. Missing outputs repeat the last.
  void fill_panel(std::size_t n, std::size_t count, const PanelGroup<Panel>& group, std::size_t panel) {
    using Block = typename Quant::Block;
    const std::size_t next = kTileSide * w_.row_bytes();
    for (std::size_t k = 0; k < w_.columns; k += kTileDepth) {
      const std::size_t blocks = blocks_at(k);
      for (std::size_t r = 0; r < kTileSide; ++r) {
        const std::byte* row = w_.row(n + std::min(r, count - 1)) + k / kElements * sizeof(Block);
        for (std::size_t line = 0; line < blocks * sizeof(Block); line += 64) prefetch(row, next + line);
        unpack_bytes<Quant>(reinterpret_cast<const Block*>(row), blocks, scratch_.unpacked[r]);
      }
      Tiles::fill(scratch_.unpacked, blocks, group.at(k / kTileDepth, panel));
    }
  }

  void multiply_group(std::size_t n, std::size_t outputs) {
    const std::size_t count = (outputs + kTileSide - 1) / kTileSide;
    scratch_.panels.resize(std::max(scratch_.panels.size(), count * depth_));
    const PanelGroup<Panel> group{.panels = scratch_.panels.data(), .count = count};
    for (std::size_t p = 0; p < count; ++p) {
      const std::size_t first = p * kTileSide;
      fill_panel(n + first, std::min(kTileSide, outputs - first), group, p);
    }
    for (std::size_t row = 0; row < m_; row += kRowsAtOnce) {
      const RowPairs<Numbers> rows = prepare(row, std::min(kRowsAtOnce, m_ - row));
      // GCC's tile loads do not declare that they read memory.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      scratch_.tiles.multiply(rows, group, w_.columns / kElements, [&](std::size_t panel, std::size_t pair) {
        const std::size_t first = panel * kTileSide;
        return PairOutputs{.y = y_ + (row + pair * kPairRows) * y_stride_ + n + first,
                           .stride = y_stride_,
                           .existing = PairOutputs::first(outputs - first)};
      });
    }
  }

  RowPairs<Numbers> prepare(std::size_t row, std::size_t rows) {
    scratch_.numbers.resize(std::max(scratch_.numbers.size(), depth_ * Tiles::kPairsAtOnce));
    const RowPairs<Numbers> all{.tiles = scratch_.rows, .numbers = scratch_.numbers.data(), .rows = rows};
    for (std::size_t pair = 0; pair < all.pairs(); ++pair) {
      const ActivationsOf<Quant> x = x_.from(row + pair * kPairRows);
      scratch_.rows[pair].fill(x, all.rows_of(pair));
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
  const std::size_t depth_;  // of a panel, in units of 256 elements of k
  TileScratch<Quant>& scratch_;
};

template <class Quant>
void multiply_by_tiles(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                       std::size_t n_begin, std::size_t n_end) {
  TileProduct<Quant>(listed, m, w, y, y_stride).outputs(n_begin, n_end);
}

constexpr auto kProducts = with_gguf_quants([]<class... Quant>() {
  return std::array<MultiplyByTiles, sizeof...(Quant)>{multiply_by_tiles<Quant>...};
});

}  // namespace

constinit const std::span<const MultiplyByTiles> kMultiplyByTiles = kProducts;

}  // namespace reprise::gpu
