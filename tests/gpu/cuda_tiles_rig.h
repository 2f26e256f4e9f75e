#pragma once
// Runs tiled prefills of recurrences on a GPU, and decoding after them: bitwise identical wherever a prompt
// is cut on the grid or ends, whatever states are exported inside it, and whatever it is batched with.
// Without a GPU the tests skip.

#include <cstddef>
#include <string>
#include <vector>

#include "gpu/cuda/rows/batch.h"
#include "tests/gpu/cuda_scan_rig.h"

namespace reprise::gpu::test {

using cuda::BatchTile;
using cuda::SlotExports;

class CudaTiles : public CudaScan {
 protected:
  // more tiles than are carried at once; the last is partial
  static constexpr int kPrompt = 9 * cuda::kGrid + 22;
  static constexpr int kDecoded = 3;  // tokens after it
  static constexpr int kOurs = kPrompt + kDecoded;
  static constexpr int kLonger = 2 * cuda::kGrid + 5;  // rows of another prompt, after ours
  static constexpr int kShorter = 7;                   // rows of a third, after that
  static constexpr int kInputs = kOurs + kLonger + kShorter;

  /// Calls launch(batch, exports) for a prefill. `exports`: a slot or null per tile, or empty.
  template <class Launch>
  void prefill(const std::vector<BatchSlice>& slices, const std::vector<std::byte*>& exports,
               const Launch& launch) {
    std::vector<BatchTile> tiles;
    std::vector<std::int32_t> first_tiles;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      first_tiles.push_back(static_cast<std::int32_t>(tiles.size()));
      for (std::int32_t row = 0; row < slices[i].rows; row += cuda::kGrid) {
        tiles.push_back({.slice = static_cast<std::int32_t>(i), .first = row});
      }
    }
    const DeviceBytes on_tiles = upload(tiles);
    const DeviceBytes on_first = upload(first_tiles);
    const DeviceBytes on_exports = upload(exports);
    run(slices, [&](Batch batch) {
      batch.tiles = on_tiles.as<BatchTile>();
      batch.tile_count = static_cast<int>(tiles.size());
      const SlotExports wanted{.tiles = exports.empty() ? nullptr : on_exports.as<std::byte*>(),
                               .first_tiles = on_first.as<std::int32_t>()};
      launch(batch, wanted);
      stream_->wait();
    });
  }

  /// launch(batch, exports, first, y) reads inputs from row `first` of kInputs; y is [kInputs, width].
  /// Returns the outputs of kPrompt rows in one slice and kDecoded after them, with the final slot.
  template <class Y, class Launch>
  Result<Y> same_on_the_grid(const std::vector<float>& slot, std::size_t width, const Launch& launch) {
    const auto piece = [&](std::byte* on_slot, const DeviceBytes& y, int first, int end,
                           const std::vector<std::byte*>& exports = {}) {
      prefill({{.first_row = 0, .rows = end - first, .stored = first, .slot = on_slot, .pages = nullptr}},
              exports, [&](const Batch& batch, const SlotExports& wanted) {
                launch(batch, wanted, static_cast<std::size_t>(first), y.as<Y>() + first * width);
              });
    };
    // Prefills the prompt in slices that end at `ends`.
    const auto cut = [&](const std::vector<int>& ends) {
      DeviceBytes on_slot = upload(slot);
      const DeviceBytes y = upload(std::vector<Y>(kInputs * width));
      int first = 0;
      for (const int end : ends) {
        piece(on_slot.data(), y, first, end);
        first = end;
      }
      return Result<Y>{download<Y>(y, static_cast<std::size_t>(first) * width),
                       download<float>(on_slot, slot.size())};
    };
    const Result<Y> whole = cut({kPrompt});
    const auto same = [&](const Result<Y>& other, const std::string& what) {
      EXPECT_TRUE(same_bits(other.y, whole.y)) << what;
      EXPECT_TRUE(same_bits(other.slot, whole.slot)) << what;
    };
    same(cut({64, kPrompt}), "cut at 64");
    same(cut({128, 320, kPrompt}), "cut at 128 and 320");
    same(cut({64, 128, 192, 256, 320, 384, 448, 512, 576, kPrompt}), "cut everywhere");
    for (const int end : {1, 63, 64, 65, 137}) {
      const std::vector<Y> y = cut({end}).y;
      EXPECT_TRUE(same_bits(y, {whole.y.begin(), whole.y.begin() + static_cast<std::ptrdiff_t>(y.size())}))
          << "ends at " << end;
    }
    expect_exports(slot, whole, cut, piece, width);
    expect_beside_others(slot, whole, launch, width);

    DeviceBytes on_slot = upload(slot);
    const DeviceBytes y = upload(std::vector<Y>(kInputs * width));
    piece(on_slot.data(), y, 0, kPrompt);
    for (int row = kPrompt; row < kOurs; ++row) {
      run({{.first_row = 0, .rows = 1, .stored = row, .slot = on_slot.data(), .pages = nullptr}},
          [&](const Batch& batch) {
            launch(batch, SlotExports{}, static_cast<std::size_t>(row), y.as<Y>() + row * width);
          });
    }
    return {download<Y>(y, kOurs * width), download<float>(on_slot, slot.size())};
  }

 private:
  template <class Y, class Cut, class Piece>
  void expect_exports(const std::vector<float>& slot, const Result<Y>& whole, const Cut& cut,
                      const Piece& piece, std::size_t width) {
    std::vector<std::byte*> exports((kPrompt + cuda::kGrid - 1) / cuda::kGrid, nullptr);
    std::vector<DeviceBytes> kept;
    const std::vector<std::size_t> tiles = {0, 2, 7, 8};
    for (const std::size_t tile : tiles) {
      kept.push_back(upload(std::vector<float>(slot.size())));
      exports[tile] = kept.back().data();
    }
    DeviceBytes on_slot = upload(slot);
    const DeviceBytes y = upload(std::vector<Y>(kInputs * width));
    piece(on_slot.data(), y, 0, kPrompt, exports);
    EXPECT_TRUE(same_bits(download<Y>(y, kPrompt * width), whole.y)) << "with exports";
    EXPECT_TRUE(same_bits(download<float>(on_slot, slot.size()), whole.slot)) << "with exports";
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const std::vector<float> ended = cut({static_cast<int>(tiles[i] + 1) * cuda::kGrid}).slot;
      EXPECT_TRUE(same_bits(download<float>(kept[i], slot.size()), ended)) << "behind tile " << tiles[i];
    }
  }

  template <class Y, class Launch>
  void expect_beside_others(const std::vector<float>& slot, const Result<Y>& whole, const Launch& launch,
                            std::size_t width) {
    DeviceBytes on_slot = upload(slot);
    DeviceBytes longer = upload(std::vector<float>(slot.size(), 0.25F));
    DeviceBytes shorter = upload(std::vector<float>(slot.size(), 0.5F));
    const DeviceBytes y = upload(std::vector<Y>(kInputs * width));
    const BatchSlice others[] = {
        {.first_row = kOurs, .rows = kLonger, .stored = 64, .slot = longer.data(), .pages = nullptr},
        {.first_row = kOurs + kLonger,
         .rows = kShorter,
         .stored = 0,
         .slot = shorter.data(),
         .pages = nullptr}};
    prefill({others[0],
             {.first_row = 0, .rows = kPrompt, .stored = 0, .slot = on_slot.data(), .pages = nullptr},
             others[1]},
            {}, [&](const Batch& batch, const SlotExports& wanted) {
              launch(batch, wanted, std::size_t{0}, y.template as<Y>());
            });
    EXPECT_TRUE(same_bits(download<Y>(y, kPrompt * width), whole.y)) << "beside others";
    EXPECT_TRUE(same_bits(download<float>(on_slot, slot.size()), whole.slot)) << "beside others";
  }
};

}  // namespace reprise::gpu::test
