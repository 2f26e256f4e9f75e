#pragma once
// Two formats that no file has, added to a table of kernels like the others: one in blocks with a scale each,
// whose fast GEMM quantizes the activations and reads a packed copy; one with separate scales.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gpu/cpu/formats/formats.h"
#include "gpu/kernels.h"
#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {

inline constexpr std::size_t kBlock = 32;

/// 32 integers and their bf16 scale.
struct TestBlock {
  std::uint16_t scale;
  std::int8_t values[kBlock];
};

inline constexpr WeightFormat kTestBlocks{
    .name = "TEST8", .block_size = kBlock, .block_bytes = sizeof(TestBlock), .alignment = alignof(TestBlock)};

/// Integers, with separate f32 scales for tiles of two rows by sixteen columns.
inline constexpr WeightFormat kTestTiles{.name = "TEST8_TILES",
                                         .block_size = 16,
                                         .block_bytes = 16,
                                         .alignment = 1,
                                         .scales = {.rows = 2, .columns = 16, .bytes = sizeof(float)}};

namespace {

inline Lanes widened(const std::int8_t* values, float scale) {
  float eight[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) eight[i] = static_cast<float>(values[i]);
  return Lanes::load(eight) * Lanes::set(scale);
}

struct TestBlocksReader {
  using Row = const TestBlock*;
  static Row row(const WeightView& w, std::size_t n) { return reinterpret_cast<Row>(w.row(n)); }
  static Lanes load(Row row, std::size_t k) {
    const TestBlock& block = row[k / kBlock];
    return widened(block.values + k % kBlock, bf16_to_f32(block.scale));
  }
};

struct TestTilesReader {
  struct Row {
    const std::int8_t* values;
    const float* scales;
  };
  static Row row(const WeightView& w, std::size_t n) {
    return {reinterpret_cast<const std::int8_t*>(w.row(n)), reinterpret_cast<const float*>(w.scale_row(n))};
  }
  static Lanes load(Row row, std::size_t k) { return widened(row.values + k, row.scales[k / 16]); }
};

// Prepared row: its scale, then its elements.
constexpr ActivationForm kWholeRowsToInt8{
    .row_bytes = [](std::size_t columns) { return sizeof(float) + columns; },
    .prepare =
        [](const float* x, std::size_t rows, std::size_t columns, std::byte* to) {
          for (std::size_t row = 0; row < rows; ++row, x += columns, to += sizeof(float) + columns) {
            float largest = 0;
            for (std::size_t k = 0; k < columns; ++k) largest = std::max(largest, std::abs(x[k]));
            const float scale = largest / 127.0F;
            std::memcpy(to, &scale, sizeof(scale));
            for (std::size_t k = 0; k < columns; ++k) {
              const float value = scale == 0 ? 0 : std::nearbyint(x[k] / scale);
              to[sizeof(float) + k] = static_cast<std::byte>(static_cast<std::int8_t>(value));
            }
          }
        },
    .int8_block = std::numeric_limits<std::size_t>::max() / 2};  // any row

// Panels of four outputs: for each block of columns, f32 scales, then elements.
constexpr std::size_t kPanel = 4;
struct PanelBlock {
  float scales[kPanel];
  std::int8_t values[kPanel][kBlock];
};

constexpr Packing kPanels{
    .outputs = kPanel,
    .panel_bytes = [](std::size_t columns) { return columns / kBlock * sizeof(PanelBlock); },
    .pack =
        [](const WeightView& w, std::size_t panel, std::byte* to) {
          auto* blocks = reinterpret_cast<PanelBlock*>(to);
          for (std::size_t b = 0; b < w.columns / kBlock; ++b) {
            for (std::size_t j = 0; j < kPanel; ++j) {
              const std::size_t n = std::min(panel * kPanel + j, w.rows - 1);
              const TestBlock& from = reinterpret_cast<const TestBlock*>(w.row(n))[b];
              blocks[b].scales[j] = bf16_to_f32(from.scale);
              std::memcpy(blocks[b].values[j], from.values, kBlock);
            }
          }
        }};

void multiply_panels(const void* x, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                     std::size_t n_begin, std::size_t n_end) {
  const std::size_t blocks = w.columns / kBlock;
  const auto* panels = static_cast<const PanelBlock*>(w.packed);
  for (std::size_t i = 0; i < m; ++i) {
    const std::byte* row = static_cast<const std::byte*>(x) + i * (sizeof(float) + w.columns);
    float scale;
    std::memcpy(&scale, row, sizeof(scale));
    const auto* values = reinterpret_cast<const std::int8_t*>(row + sizeof(float));
    for (std::size_t n = n_begin; n < n_end; ++n) {
      float sum = 0;
      for (std::size_t b = 0; b < blocks; ++b) {
        const PanelBlock& block = panels[n / kPanel * blocks + b];
        std::int32_t dot = 0;
        for (std::size_t k = 0; k < kBlock; ++k) dot += block.values[n % kPanel][k] * values[b * kBlock + k];
        sum = std::fma(static_cast<float>(dot), block.scales[n % kPanel], sum);
      }
      y[i * y_stride + n] = sum * scale;
    }
  }
}

constexpr auto kTestFormats = with_fast(std::to_array<FormatKernels>({
                                            widened_format<TestBlocksReader>(kTestBlocks),
                                            widened_format<TestTilesReader>(kTestTiles),
                                        }),
                                        kTestBlocks,
                                        {.activations = &kWholeRowsToInt8,
                                         .multiply = multiply_panels,
                                         .outputs_at_once = kPanel,
                                         .packing = &kPanels});

}  // namespace

/// This machine's kernels with the two formats added.
inline const Kernels& table_with_test_formats() {
  static const std::vector<FormatKernels> formats = [] {
    const std::span<const FormatKernels> own = cpu_kernels(best_isa()).formats;
    std::vector<FormatKernels> all(own.begin(), own.end());
    all.insert(all.end(), kTestFormats.begin(), kTestFormats.end());
    return all;
  }();
  static const Kernels table = [] {
    Kernels out = cpu_kernels(best_isa());
    out.formats = formats;
    return out;
  }();
  return table;
}

struct TestWeight {
  std::vector<TestBlock> blocks;     // of kTestBlocks
  std::vector<std::int8_t> numbers;  // of kTestTiles
  std::vector<float> scales;
  std::vector<float> values;  // [rows, columns]
  WeightView view;

  TestWeight(Random& random, const WeightFormat& format, std::size_t rows, std::size_t columns)
      : values(rows * columns) {
    const auto number = [&] { return static_cast<std::int8_t>(static_cast<int>(random.size(0, 255)) - 128); };
    view = {.format = &format, .rows = rows, .columns = columns};
    if (&format == &kTestBlocks) {
      blocks.resize(values.size() / kBlock);
      for (std::size_t i = 0; i < values.size(); ++i) {
        TestBlock& block = blocks[i / kBlock];
        if (i % kBlock == 0) block.scale = static_cast<std::uint16_t>(random.size(0x3c00, 0x3dff));
        block.values[i % kBlock] = number();
        values[i] = static_cast<float>(block.values[i % kBlock]) * from_bf16(block.scale);
      }
      view.data = blocks.data();
    } else {
      const std::size_t across = (columns + 15) / 16;
      scales = random.between((rows + 1) / 2 * across, 0.01F, 0.1F);
      for (std::size_t i = 0; i < values.size(); ++i) {
        numbers.push_back(number());
        const std::size_t tile = i / columns / 2 * across + i % columns / 16;
        values[i] = static_cast<float>(numbers.back()) * scales[tile];
      }
      view.data = numbers.data();
      view.scales = scales.data();
    }
  }
};

}  // namespace reprise::gpu::test
