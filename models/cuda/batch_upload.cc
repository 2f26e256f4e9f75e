// Building the batch description of a step and copying it to the GPU.

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "gpu/cuda/memory/device_memory.h"
#include "models/cuda/model.h"

namespace reprise::models::cuda {
namespace {

constexpr int kMinLongest = 1024;        // in prefill
constexpr int kMinDecodedLongest = 256;  // one attention split

/// Assigns consecutive offsets to arrays.
class Packer {
 public:
  template <class T>
  std::size_t assign(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += Workspace::rounded(count * sizeof(T));
    return at;
  }
  template <class T>
  std::size_t assign(const std::vector<T>& values) {
    return assign<T>(values.size());
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace

gc::QueryRing ring_of(const PromptTail& tail) {
  return {.rows = tail.rows(),
          .window = static_cast<std::int32_t>(tail.window()),
          .row_bytes = static_cast<std::int32_t>(tail.token_bytes())};
}

BatchUpload::Made BatchUpload::make(std::span<const Slice> slices, Phase phase) {
  std::vector<gc::BatchSlice> batch_slices;
  std::vector<gc::BatchTile> tiles;
  struct Pages {
    std::size_t first;  // index in the page list of all slices
    std::size_t count;
  };
  std::vector<Pages> pages;  // one per slice
  std::size_t page_count = 0;
  std::vector<std::int32_t> row_slice;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> picked;
  std::vector<gc::QueryRing> rings;
  std::vector<std::byte*> exports;  // [tiles]
  std::vector<std::int32_t> first_tiles;
  const bool has_rings =
      std::any_of(slices.begin(), slices.end(), [](const Slice& slice) { return slice.tail != nullptr; });
  std::size_t all_rows = 0;
  for (const Slice& slice : slices) all_rows += slice.tokens.size();
  batch_slices.reserve(slices.size());
  pages.reserve(slices.size());
  picked.reserve(slices.size());
  for (auto* of_rows : {&row_slice, &tokens, &positions}) of_rows->reserve(all_rows);
  int longest = 0;
  for (const Slice& slice : slices) {
    const gpu::Sequence& sequence = *slice.sequence;
    const auto rows = static_cast<int>(slice.tokens.size());
    const auto stored = static_cast<int>(sequence.stored());
    REPRISE_CHECK(rows > 0 && (phase == Phase::kPrefill || rows == 1),
                  "a slice has no rows, or several while decoding");
    REPRISE_CHECK(phase == Phase::kDecode || stored % gc::kGrid == 0,
                  "a prefill slice does not start at a multiple of kGrid");
    REPRISE_CHECK(static_cast<std::size_t>(stored + rows) <= sequence.pages().size() * gpu::kPageTokens,
                  "a slice has fewer pages than its tokens need");
    const auto index = static_cast<std::int32_t>(batch_slices.size());
    const auto first = static_cast<std::int32_t>(tokens.size());
    pages.push_back({page_count, static_cast<std::size_t>((stored + rows + gc::kGrid - 1) / gc::kGrid)});
    page_count += pages.back().count;
    batch_slices.push_back(
        {.first_row = first, .rows = rows, .stored = stored, .slot = sequence.slot_data(), .pages = nullptr});
    if (phase == Phase::kPrefill) {
      const std::size_t first_tile = tiles.size();
      for (int row = 0; row < rows; row += gc::kGrid) tiles.push_back({.slice = index, .first = row});
      exports.resize(tiles.size(), nullptr);
      first_tiles.push_back(static_cast<std::int32_t>(first_tile));
      for (const SlotExport& one : slice.exports) {
        REPRISE_CHECK(one.after > 0 && one.after % gc::kGrid == 0 && one.after < slice.tokens.size(),
                      "a checkpoint position is outside its slice or off the grid");
        exports[first_tile + one.after / gc::kGrid - 1] = one.slot;
      }
    }
    for (int i = 0; i < rows; ++i) {
      row_slice.push_back(index);
      tokens.push_back(slice.tokens[static_cast<std::size_t>(i)]);
      positions.push_back(static_cast<std::int32_t>(sequence.logical()) + i);
    }
    longest = std::max(longest, stored + rows);
    if (has_rings) rings.push_back(slice.tail == nullptr ? gc::QueryRing{} : ring_of(*slice.tail));
    if (slice.logits == Slice::Logits::kNone) continue;
    for (int i = slice.logits == Slice::Logits::kAll ? 0 : rows - 1; i < rows; ++i)
      picked.push_back(first + i);
  }

  const auto slices_rows = static_cast<int>(tokens.size());
  if (phase == Phase::kPrefill) {
    const auto padded = static_cast<std::size_t>(gc::PrefillGemm::padded(static_cast<int>(tokens.size())));
    row_slice.resize(padded, gc::kNoSlice);
    tokens.resize(padded, 0);
    positions.resize(padded, 0);
  }

  Packer packer;
  const std::size_t slices_at = packer.assign(batch_slices);
  const std::size_t tiles_at = packer.assign(tiles);
  const std::size_t row_slice_at = packer.assign(row_slice);
  const std::size_t tokens_at = packer.assign(tokens);
  const std::size_t positions_at = packer.assign(positions);
  const std::size_t picked_at = packer.assign(picked);
  const std::size_t rings_at = packer.assign(rings);
  const std::size_t exports_at = packer.assign(exports);
  const std::size_t first_tiles_at = packer.assign(first_tiles);
  // Last, so that the other offsets do not depend on it. There may be thousands of pages, so they are written
  // directly to the staging buffer.
  const std::size_t pages_at = packer.assign<std::byte*>(page_count);
  longest = std::max(phase == Phase::kDecode ? kMinDecodedLongest : kMinLongest,
                     static_cast<int>(std::bit_ceil(static_cast<unsigned>(longest))));
  const std::size_t max_pages = batch_slices.size() * static_cast<std::size_t>(longest / gc::kGrid);
  const std::size_t max_bytes = pages_at + Workspace::rounded(max_pages * sizeof(std::byte*));
  const std::size_t capacity = std::max(packer.bytes(), max_bytes <= kMaxRecorded ? max_bytes : 0);
  if (capacity > staging_.size()) {
    const std::size_t size = std::bit_ceil(capacity);
    staging_ = gc::PinnedBytes(size);
    device_ = gc::DeviceBytes(size);
    ++moves_;
  }
  std::byte* device = device_.data();
  auto* addresses = reinterpret_cast<std::byte**>(staging_.data() + pages_at);
  for (std::size_t i = 0; i < batch_slices.size(); ++i) {
    slices[i].sequence->page_addresses({addresses + pages[i].first, pages[i].count});
    batch_slices[i].pages = reinterpret_cast<std::byte* const*>(device + pages_at) + pages[i].first;
  }
  const auto put = [&](const auto& values, std::size_t at) {
    if (!values.empty()) std::memcpy(staging_.data() + at, values.data(), values.size() * sizeof(values[0]));
  };
  put(batch_slices, slices_at);
  put(tiles, tiles_at);
  put(row_slice, row_slice_at);
  put(tokens, tokens_at);
  put(positions, positions_at);
  put(picked, picked_at);
  put(rings, rings_at);
  put(exports, exports_at);
  put(first_tiles, first_tiles_at);
  const auto rows = static_cast<int>(tokens.size());
  return {
      .batch = {.slices = reinterpret_cast<const gc::BatchSlice*>(device + slices_at),
                .tiles = reinterpret_cast<const gc::BatchTile*>(device + tiles_at),
                .row_slice = reinterpret_cast<const std::int32_t*>(device + row_slice_at),
                .tokens = reinterpret_cast<const std::int32_t*>(device + tokens_at),
                .positions = reinterpret_cast<const std::int32_t*>(device + positions_at),
                .slice_count = static_cast<int>(batch_slices.size()),
                .tile_count = static_cast<int>(tiles.size()),
                .rows = rows,
                .longest = longest},
      .size = {.rows = rows,
               .tiles = static_cast<int>(tiles.size()),
               .longest = longest,
               .slices_rows = slices_rows},
      .picked = reinterpret_cast<const std::int32_t*>(device + picked_at),
      .picked_rows = static_cast<int>(picked.size()),
      .rings = has_rings ? reinterpret_cast<const gc::QueryRing*>(device + rings_at) : nullptr,
      .exports = {.tiles = tiles.empty() ? nullptr : reinterpret_cast<std::byte* const*>(device + exports_at),
                  .first_tiles = reinterpret_cast<const std::int32_t*>(device + first_tiles_at)},
      .bytes = packer.bytes(),
      .max_bytes = max_bytes};
}

void BatchUpload::copy_to_gpu(std::size_t bytes, gc::StreamHandle stream) const {
  REPRISE_CHECK(bytes <= staging_.size(), "the step's description is larger than its staging buffer");
  if (bytes <= gc::kMaxSmallBytes) {
    gc::copy_small_to_device(device_.data(), staging_.data(), bytes, stream);
  } else {
    gc::copy_to_device(device_.data(), staging_.data(), bytes, stream);
  }
}

}  // namespace reprise::models::cuda
