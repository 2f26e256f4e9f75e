// Weights in blocks of 256 by AMX's product of bytes, with the bits of the definition (int8_product.h). Included by
// amx_bytes.cc, with internal linkage.
//
// The scale of a group goes into its numbers, so that the tiles add up all groups of a block: scale * q is a whole number
// of at most 13 bits, two planes of bytes
//   scale * q = low + 128 high,   low from 0 to 127, high from -32 to 32
// and I = sum low x + 128 sum high x, exactly. The float part is once for 256 elements.

#pragma once

#include <vector>

#include "gpu/cpu/amx_small_blocks.h"
#include "gpu/cpu/int8_panels.h"

namespace reprise::gpu {
namespace {

template <class Quant>
class LargeBlockTiles {
 public:
  static constexpr TileConfig kConfig{64};
  static constexpr std::size_t kSteps = kTileDepth / 64;  // of k, an instruction each
  // What the offsets are multiplied by are sums of x over sixteen or 32 elements; two of them are a word.
  static constexpr std::size_t kOffsetWords = Quant::kHasOffsets ? kTileDepth / Quant::kGroup / 2 : 0;

  /// A block of sixteen outputs.
  struct Panel {
    alignas(64) std::uint32_t planes[2][kTileDepth / 4][kTileSide];  // low and high: four k of each output
    alignas(64) std::uint32_t group_offsets[kOffsetWords + 1][kTileSide];
    alignas(64) float scales[kTileSide];
    alignas(64) float offsets[kTileSide];
  };
  /// What belongs to the same block of the rows of x.
  struct Numbers {
    std::int16_t sums[kPairRows][kOffsetWords == 0 ? 1 : 2 * kOffsetWords];
    float scales[kPairRows];
  };

  static void fill(const BytesOfRow (&rows)[kTileSide], std::size_t, Panel& to) {
    for (std::size_t r = 0; r < kTileSide; ++r) {
      to.scales[r] = rows[r].scale;
      to.offsets[r] = rows[r].offset;
    }
    alignas(64) std::uint32_t words[2][kTileSide][kTileSide];  // of all rows: [word % 16][output]
    turn_words([&](std::size_t r) { return rows[r].words; }, words[0]);
    if constexpr (Quant::kHasOffsets && Quant::kGroup == 32) {
      // A word has one offset twice: two of them in one.
      for (std::size_t p = 0; p < kOffsetWords; ++p) {
        const __m512i first = load_bits(words[0][8 + 2 * p]);
        const __m512i second = load_bits(words[0][8 + 2 * p + 1]);
        store_bits(_mm512_mask_blend_epi16(kOddHalves, first, second), to.group_offsets[p]);
      }
    } else if constexpr (Quant::kHasOffsets) {
      turn_words([&](std::size_t r) { return rows[r].words + 16; }, words[1]);
      std::memcpy(to.group_offsets, words[1], kOffsetWords * sizeof(to.group_offsets[0]));
    }
    for (std::size_t word = 0; word < kTileDepth / 4; word += kTileSide) {
      __m512i numbers[kTileSide];  // [word][output]: four k
      for (std::size_t r = 0; r < kTileSide; ++r) numbers[r] = load_halves(rows[r].q + 4 * word);
      transpose(numbers);
      constexpr std::size_t kLines = Quant::kGroup / 4;  // of a group
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

  // L1 keeps 16 KB of rows, 8 of sums, two panels and their totals; with three pairs it would not.
  static constexpr std::size_t kPairsAtOnce = 2;

  /// As SmallBlockTiles'. A block of k of all rows stays in L1 while that of each panel passes.
  template <class OutputsOf>
  void multiply(const RowPairs<Numbers>& x, const PanelGroup<Panel>& panels, std::size_t blocks,
                OutputsOf outputs_of) {
    const std::size_t pairs = x.pairs();
    totals_.resize(std::max(totals_.size(), panels.count * pairs));
    std::size_t turn = 0;
    Unit stored{};    // whose sums are in memory
    Unit in_tiles{};  // whose sums are in the tiles; at first nobody's
    in_tiles.sums = sums_ + kUnits - 1;
    for (std::size_t k = 0; k < blocks; ++k) {
      for (std::size_t p = 0; p < panels.count; ++p) {
        for (std::size_t pair = 0; pair < pairs; ++pair, turn = (turn + 1) % kUnits) {
          float* const totals = totals_[p * pairs + pair].of[0];
          const Unit unit{
              .numbers = &x.at(k, pair),
              .rows = x.rows_of(pair),
              .panel = &panels.at(k, p),
              .sums = sums_ + turn,
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
  static constexpr std::size_t kUnits = 2;             // whose sums are in memory, or on their way there

  /// A block of a pair of tiles of rows by a panel.
  struct Unit {
    const Numbers* numbers;
    std::size_t rows;  // 0: there is none
    const Panel* panel;
    Sums* sums;
    const float* totals;  // of the blocks before
    __mmask16 continued;  // none at the begin of k
    PairOutputs outputs;  // the totals, with this block; of the last one y
  };

  static constexpr __mmask32 kOddHalves = 0xaaaaaaaaU;

  /// Of a group of sixteen outputs, each twice: the scale, and what it makes of the number that stands for zero.
  struct GroupScales {
    __m512i scales, zeros;

    explicit GroupScales(__m512i words)
        : scales(_mm512_mask_blend_epi16(kOddHalves, words, _mm512_slli_epi32(words, 16))),
          zeros(_mm512_mullo_epi16(scales, _mm512_set1_epi16(Bytes<Quant>::kZero))) {}
  };
  struct Planes {
    __m512i low, high;
  };

  /// Four numbers of each of sixteen outputs. The high plane is bits 7 to 14 of scale * q, sign and all: it has 13 bits.
  static Planes split(__m512i numbers, const GroupScales& by) {
    const __m512i even_bytes = _mm512_set1_epi16(0xff);
    const __m512i even =
        _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_and_si512(numbers, even_bytes), by.scales), by.zeros);
    const __m512i odd =
        _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_srli_epi16(numbers, 8), by.scales), by.zeros);
    constexpr int kChoose = 0xca;  // by the bits of the first: those of the second, or of the third
    const __m512i low = _mm512_ternarylogic_epi32(even_bytes, even, _mm512_slli_epi16(odd, 8), kChoose);
    const __m512i high =
        _mm512_ternarylogic_epi32(even_bytes, _mm512_srli_epi16(even, 7), _mm512_slli_epi16(odd, 1), kChoose);
    return {.low = _mm512_and_si512(low, _mm512_set1_epi8(127)), .high = high};
  }

  /// Both planes by both tiles of rows, or by the first alone, from element k on. A tile of the unit in front is stored
  /// right before this one takes it: by then its sums are there. The float part of the one in front of that stands among
  /// the tiles' instructions, because they fill the window within which the processor finds what it can do meanwhile.
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

  /// The float part of a fourth of a unit's rows.
  [[gnu::always_inline]] static void add_up(const Unit& unit, std::size_t part) {
    constexpr std::size_t kRows = kPairRows / kSteps;
    const std::size_t begin = kRows * part;
    if (unit.rows <= begin) return;
    const Numbers& x = *unit.numbers;
    const Panel& panel = *unit.panel;
    const auto& [low, high] = *unit.sums;
    const __m512 scales = _mm512_load_ps(panel.scales);
    [[maybe_unused]] const __m512 offset_scales = _mm512_load_ps(panel.offsets);
    [[maybe_unused]] __m512i group_offsets[kOffsetWords + 1];  // not read again for every row
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

}  // namespace
}  // namespace reprise::gpu
