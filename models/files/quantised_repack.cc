// The bytes of quantised matrices: elements of 4 bits as rows of blocks, scales as f32.

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/in_parallel.h"
#include "gpu/weight.h"
#include "models/files/gguf_layout.h"
#include "models/files/load_error.h"
#include "models/files/quantised_tensor.h"

namespace reprise::models {
namespace {

using gpu::Int4Block;
using Layout = QuantisedTensor::Layout;

constexpr std::size_t kWordElements = 8;  // of 4 bits in an i32
constexpr std::size_t kBlockWords = 4;    // of a block
constexpr std::size_t kBlockElements = kBlockWords * kWordElements;
constexpr std::size_t kRowsOfPart = 64;  // of a part: whole words of AWQ, whole cache lines
constexpr std::uint32_t kAwqPlace[kWordElements] = {0, 4, 1, 5, 2, 6, 3, 7};  // of column j in its word
constexpr std::size_t kF8Tile = 128;

float scale_at(const StoredTensor& scales, std::size_t index) {
  if (scales.type == DType::kF32) {
    float value;
    std::memcpy(&value, scales.bytes.data() + index * sizeof value, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, scales.bytes.data() + index * sizeof bits, sizeof bits);
  return scales.type == DType::kF16 ? widen_f16(bits) : widen_bf16(bits);
}

std::uint32_t word_at(const StoredTensor& words, std::size_t index) {
  std::uint32_t out;
  std::memcpy(&out, words.bytes.data() + index * sizeof out, sizeof out);
  return out;
}

class Repacker {
 public:
  Repacker(const QuantisedTensor& tensor, const TensorSource& source)
      : tensor_(tensor),
        rows_(tensor.shape[0]),
        columns_(tensor.shape[1]),
        groups_(columns_ / tensor.group_columns),
        path_(source.path_of(*tensor.elements)) {
    check_scales();
    find_order();
  }

  RepackedTensor run() {
    const std::size_t blocks = columns_ / kBlockElements;
    const std::size_t size = rows_ * blocks * sizeof(Int4Block);
    std::shared_ptr<std::byte[]> data(new std::byte[size]);
    in_parallel((rows_ + kRowsOfPart - 1) / kRowsOfPart, [&](std::size_t part) {
      const std::size_t first = part * kRowsOfPart;
      const std::size_t last = std::min(rows_, first + kRowsOfPart);
      for (std::size_t block = 0; block < blocks; ++block) {
        for (std::size_t row = first; row < last; ++row) {
          const Int4Block made = make_block(row, block);
          std::memcpy(data.get() + (row * blocks + block) * sizeof made, &made, sizeof made);
        }
      }
    });
    return {std::move(data), size, std::move(order_)};
  }

 private:
  // The zero point stands in the lowest bits of the scale, which a 16-bit number has not.
  void check_scales() const {
    if (tensor_.scales->type != DType::kF32) return;
    const std::size_t count = tensor_.scales->bytes.size() / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) {
      if ((word_at(*tensor_.scales, i) & Int4Block::kZeroMask) != 0) {
        throw LoadError(path_, tensor_.scales->name, "has scales of more than 16 bits, which are not read");
      }
    }
  }

  // Columns of a group brought together, each in the order it had.
  void find_order() {
    if (tensor_.groups == nullptr) return;
    std::vector<std::uint32_t> group(columns_);
    std::vector<std::size_t> sizes(groups_);
    bool in_order = true;
    for (std::size_t k = 0; k < columns_; ++k) {
      group[k] = word_at(*tensor_.groups, k);
      if (group[k] >= groups_) {
        throw LoadError(path_, tensor_.groups->name, "names a group that has no scales");
      }
      ++sizes[group[k]];
      in_order = in_order && group[k] == k / tensor_.group_columns;
    }
    if (in_order) return;
    if (std::any_of(sizes.begin(), sizes.end(),
                    [&](std::size_t size) { return size != tensor_.group_columns; })) {
      throw LoadError(path_, tensor_.groups->name, "has groups of different sizes, which are not read");
    }
    order_.resize(columns_);
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return group[a] < group[b]; });
  }

  Int4Block make_block(std::size_t row, std::size_t block) const {
    const std::size_t group = block * kBlockElements / tensor_.group_columns;
    Int4Block out;
    out.scale_and_zero = std::bit_cast<std::uint32_t>(scale_of(row, group)) | zero_of(row, group);
    for (std::size_t w = 0; w < kBlockWords; ++w) {
      const std::uint32_t word = word_of(row, block * kBlockElements + w * kWordElements);
      std::memcpy(out.elements + w * sizeof word, &word, sizeof word);
    }
    return out;
  }

  float scale_of(std::size_t row, std::size_t group) const {
    const bool by_outputs = tensor_.layout == Layout::kPackedRows;
    return scale_at(*tensor_.scales, by_outputs ? row * groups_ + group : group * rows_ + row);
  }

  std::uint32_t zero_of(std::size_t row, std::size_t group) const {
    constexpr std::uint32_t kMiddle = 8;
    if (tensor_.zeros == nullptr) return kMiddle;
    std::size_t place = row % kWordElements;
    std::size_t index = group * (rows_ / kWordElements) + row / kWordElements;
    if (tensor_.layout == Layout::kPackedRows) index = row / kWordElements * groups_ + group;
    if (tensor_.layout == Layout::kAwq) place = kAwqPlace[place];
    const std::uint32_t stored = word_at(*tensor_.zeros, index) >> (4 * place) & 15U;
    return stored + (tensor_.zeros_less_one ? 1 : 0);
  }

  /// Elements [column, column + 8) of a row, the first in the lowest bits.
  std::uint32_t word_of(std::size_t row, std::size_t column) const {
    if (order_.empty() && tensor_.layout == Layout::kGptq) {
      return word_at(*tensor_.elements, column / kWordElements * rows_ + row);
    }
    if (order_.empty() && tensor_.layout == Layout::kPackedRows) {
      return word_at(*tensor_.elements, (row * columns_ + column) / kWordElements);
    }
    std::uint32_t out = 0;
    for (std::size_t j = 0; j < kWordElements; ++j) {
      out |= element(row, order_.empty() ? column + j : order_[column + j]) << (4 * j);
    }
    return out;
  }

  std::uint32_t element(std::size_t row, std::size_t column) const {
    std::size_t index = 0;
    std::size_t place = column % kWordElements;
    switch (tensor_.layout) {
      case Layout::kAwq:
        index = column * (rows_ / kWordElements) + row / kWordElements;
        place = kAwqPlace[row % kWordElements];
        break;
      case Layout::kGptq:
        index = column / kWordElements * rows_ + row;
        break;
      default:
        index = (row * columns_ + column) / kWordElements;
    }
    return word_at(*tensor_.elements, index) >> (4 * place) & 15U;
  }

  const QuantisedTensor& tensor_;
  const std::size_t rows_;
  const std::size_t columns_;
  const std::size_t groups_;
  const std::string& path_;
  std::vector<std::uint32_t> order_;  // empty: as they are
};

}  // namespace

RepackedTensor repack(const QuantisedTensor& tensor, const TensorSource& source) {
  return Repacker(tensor, source).run();
}

WidenedScales widen_scales(const QuantisedTensor& tensor, const TensorSource& source, std::size_t first_row,
                           std::size_t rows) {
  const bool tiles = tensor.type == DType::kF8E4M3;
  const std::size_t tile_rows = tiles ? kF8Tile : 1;
  const std::size_t in_row = tiles ? (tensor.shape[1] + kF8Tile - 1) / kF8Tile : 1;
  if (first_row % tile_rows != 0) {
    throw LoadError(source.path_of(*tensor.scales), tensor.scales->name,
                    "a part of the matrix begins inside a tile of scales");
  }
  const std::size_t count = (rows + tile_rows - 1) / tile_rows * in_row;
  const bool one_for_all = tensor.scales->bytes.size() == info(tensor.scales->type).block_bytes;
  std::shared_ptr<std::byte[]> data(new std::byte[count * sizeof(float)]);
  for (std::size_t i = 0; i < count; ++i) {
    const float scale = scale_at(*tensor.scales, one_for_all ? 0 : first_row / tile_rows * in_row + i);
    std::memcpy(data.get() + i * sizeof scale, &scale, sizeof scale);
  }
  return {std::move(data), count * sizeof(float)};
}

}  // namespace reprise::models
