#pragma once
// Runs recurrences with chunked prefill on a GPU: in one batch, tile by tile, reordered and with other
// sequences, and a decoded token after it. Without a GPU the tests skip.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gpu/cuda/rows/batch.h"
#include "tests/gpu/cuda_scan_rig.h"

namespace reprise::gpu::test {

/// Sequences whose rows are concatenated; each has the rows of its prefill, then one decoded row.
struct ChunkSequences {
  std::vector<int> prefills;              // rows of each prefill
  std::vector<std::vector<float>> slots;  // initial states
  std::size_t width;                      // elements per row of outputs

  std::size_t count() const { return prefills.size(); }
  int first_row(std::size_t sequence) const {
    int row = 0;
    for (std::size_t i = 0; i < sequence; ++i) row += prefills[i] + 1;
    return row;
  }
  int rows() const { return first_row(count()); }
};

struct ChunkResult {
  std::vector<float> y;                   // [rows, width]; zero for rows not computed
  std::vector<std::vector<float>> slots;  // after the prefills
  // states after tiles: [sequence, whole tile except a final one]
  std::vector<std::vector<std::vector<float>>> exported;
};

class CudaChunks : public CudaScan {
 protected:
  struct Part {
    std::size_t sequence;
    int begin;
    int end;  // rows of the sequence
  };

  /// Calls launch(batch, exports, y [rows, width]) for each batch.
  template <class Launch>
  ChunkResult run_batches(const ChunkSequences& sequences, const std::vector<std::vector<Part>>& batches,
                          bool tiled, const Launch& launch) {
    std::vector<DeviceBytes> slots;
    for (const std::vector<float>& slot : sequences.slots) slots.push_back(upload(slot));
    const std::size_t size = sequences.slots[0].size();
    const auto outputs = static_cast<std::size_t>(sequences.rows()) * sequences.width;
    const DeviceBytes y = upload(std::vector<float>(outputs, 0.0F));
    ChunkResult result;
    result.exported.resize(sequences.count());
    for (const std::vector<Part>& parts : batches) {
      std::vector<BatchSlice> slices;
      std::vector<cuda::BatchTile> tiles;
      std::vector<std::byte*> wanted;
      std::vector<std::pair<std::size_t, DeviceBytes>> exported;  // by sequence
      for (const Part& part : parts) {
        for (int row = 0; tiled && row < part.end - part.begin; row += cuda::kGrid) {
          tiles.push_back({.slice = static_cast<std::int32_t>(slices.size()), .first = row});
          wanted.push_back(nullptr);
          if (part.begin + row + cuda::kGrid >= part.end) continue;
          exported.emplace_back(part.sequence, DeviceBytes(size * sizeof(float)));
          wanted.back() = exported.back().second.data();
        }
        slices.push_back({.first_row = sequences.first_row(part.sequence) + part.begin,
                          .rows = part.end - part.begin,
                          .stored = part.begin,
                          .slot = slots[part.sequence].data(),
                          .pages = nullptr});
      }
      const DeviceBytes on_slices = upload(slices);
      const DeviceBytes on_tiles = upload(tiles);
      const DeviceBytes on_wanted = upload(wanted);
      std::vector<std::int32_t> first_tiles;
      for (std::size_t i = 0; i < tiles.size(); ++i) {
        if (tiles[i].first == 0) first_tiles.push_back(static_cast<std::int32_t>(i));
      }
      const DeviceBytes on_first_tiles = upload(first_tiles);
      launch(Batch{.slices = on_slices.as<BatchSlice>(),
                   .tiles = on_tiles.as<cuda::BatchTile>(),
                   .row_slice = nullptr,
                   .tokens = nullptr,
                   .positions = nullptr,
                   .slice_count = static_cast<int>(slices.size()),
                   .tile_count = static_cast<int>(tiles.size()),
                   .rows = sequences.rows(),
                   .longest = sequences.rows()},
             cuda::SlotExports{.tiles = tiled ? on_wanted.as<std::byte*>() : nullptr,
                               .first_tiles = on_first_tiles.as<std::int32_t>()},
             y.as<float>());
      stream_->wait();
      for (const auto& [sequence, bytes] : exported) {
        result.exported[sequence].push_back(download<float>(bytes, size));
      }
    }
    result.y = download<float>(y, outputs);
    for (const DeviceBytes& slot : slots) result.slots.push_back(download<float>(slot, size));
    return result;
  }

  /// Checks that results do not depend on tiling, order and slicing, and that states exported after tiles
  /// equal those of slices that end there.
  template <class Launch>
  ChunkResult prefill(const ChunkSequences& sequences, const Launch& launch) {
    std::vector<Part> whole;
    for (std::size_t i = 0; i < sequences.count(); ++i) whole.push_back({i, 0, sequences.prefills[i]});
    ChunkResult result = run_batches(sequences, {whole}, true, launch);
    std::vector<std::vector<Part>> in_two(2);
    for (std::size_t i = sequences.count(); i-- > 0;) {
      const int cut = std::min(sequences.prefills[i], cuda::kGrid);
      in_two[0].push_back({i, 0, cut});
      if (cut < sequences.prefills[i]) in_two[1].push_back({i, cut, sequences.prefills[i]});
    }
    if (in_two[1].empty()) in_two.pop_back();
    const ChunkResult other = run_batches(sequences, in_two, true, launch);
    EXPECT_TRUE(same_bits(other.y, result.y)) << "cut and in another order";
    for (std::size_t i = 0; i < sequences.count(); ++i) {
      EXPECT_TRUE(same_bits(other.slots[i], result.slots[i])) << "cut and in another order, sequence " << i;
    }
    for (std::size_t i = 0; i < sequences.count(); ++i) {
      std::vector<std::vector<Part>> tiles;
      for (int row = 0; row < sequences.prefills[i]; row += cuda::kGrid) {
        tiles.push_back({{i, row, std::min(row + cuda::kGrid, sequences.prefills[i])}});
        const ChunkResult so_far = run_batches(sequences, tiles, true, launch);
        const bool is_last = row + cuda::kGrid >= sequences.prefills[i];
        const auto tile = static_cast<std::size_t>(row / cuda::kGrid);
        EXPECT_TRUE(same_bits(so_far.slots[i], is_last ? result.slots[i] : result.exported[i].at(tile)))
            << "sequence " << i << " alone, tile " << tile;
        if (!is_last) continue;
        const auto rows_of = [&](const ChunkResult& one) {
          const auto first = static_cast<std::size_t>(sequences.first_row(i)) * sequences.width;
          const auto length = static_cast<std::size_t>(sequences.prefills[i]) * sequences.width;
          return std::vector<float>(one.y.begin() + static_cast<std::ptrdiff_t>(first),
                                    one.y.begin() + static_cast<std::ptrdiff_t>(first + length));
        };
        EXPECT_TRUE(same_bits(rows_of(so_far), rows_of(result))) << "sequence " << i << " alone";
      }
    }
    return result;
  }

  /// Decodes a row of each sequence after the prefills.
  template <class Launch>
  ChunkResult decode(const ChunkSequences& sequences, const ChunkResult& before, const Launch& launch) {
    ChunkSequences later = sequences;
    later.slots = before.slots;
    std::vector<Part> parts;
    for (std::size_t i = 0; i < sequences.count(); ++i) {
      parts.push_back({i, sequences.prefills[i], sequences.prefills[i] + 1});
    }
    return run_batches(later, {parts}, false, launch);
  }

  /// Prefills in every way, decodes a token each, and compares with in.run() on the CPU. Returns the
  /// prefills' results.
  template <class Inputs, class Launch>
  ChunkResult compare(const Inputs& in, const ChunkSequences& sequences, const Launch& launch) {
    const ChunkResult prefilled = prefill(sequences, launch);
    const ChunkResult decoded = decode(sequences, prefilled, launch);
    std::vector<float> y(prefilled.y.size(), 0.0F);
    std::vector<float> y_of_tokens = y;
    for (std::size_t i = 0; i < sequences.count(); ++i) {
      const std::string what = "sequence " + std::to_string(i);
      const auto first = static_cast<std::size_t>(sequences.first_row(i));
      const auto end = first + static_cast<std::size_t>(sequences.prefills[i]);
      std::vector<float> state = sequences.slots[i];
      std::size_t row = first;
      for (const std::vector<float>& exported : prefilled.exported[i]) {
        in.run(state, row, row + cuda::kGrid, y);
        expect_near(exported, state, 1e-4F, what + ", the state behind a tile");
        row += cuda::kGrid;
      }
      in.run(state, row, end, y);
      expect_near(prefilled.slots[i], state, 1e-4F, what + ", the state");
      in.run(state, end, end + 1, y_of_tokens);
      expect_near(decoded.slots[i], state, 1e-4F, what + ", the state after a token");
    }
    expect_near(prefilled.y, y, 1e-4F, "y");
    expect_near(decoded.y, y_of_tokens, 1e-4F, "y of tokens");
    return prefilled;
  }
};

}  // namespace reprise::gpu::test
