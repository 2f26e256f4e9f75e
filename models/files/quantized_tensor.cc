#include "models/files/quantized_tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/in_parallel.h"
#include "gpu/weights/weight.h"
#include "models/files/gguf_layout.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::size_t kInWord = 8;  // 4-bit elements per i32
constexpr std::size_t kBlockColumns = 32;
constexpr std::size_t kTile = 128;  // rows and columns per FP8 scale

using Layout = QuantizedTensor::Layout;

class Finder {
 public:
  Finder(const TensorSource& source, std::string_view name, const QuantScheme& scheme)
      : source_(source), base_(name.substr(0, name.size() - kWeight.size())), scheme_(scheme) {}

  const StoredTensor* find(std::string_view end) const { return source_.find(base_ + std::string(end)); }
  const StoredTensor& need(std::string_view end) const {
    const StoredTensor* found = find(end);
    if (found == nullptr)
      throw LoadError(source_.files().front().path(), base_ + std::string(end), "is missing");
    return *found;
  }
  [[noreturn]] void fail(const StoredTensor& tensor, const std::string& reason) const {
    throw LoadError(source_.path_of(tensor), tensor.name, reason);
  }
  /// Throws a LoadError that includes the scheme's name.
  [[noreturn]] void refuse(const StoredTensor& tensor, const std::string& what) const {
    fail(tensor, what + " (" + scheme_.name + ") is not read");
  }
  void expect(const StoredTensor& tensor, const Shape& shape) const {
    if (tensor.shape != shape) {
      fail(tensor, "expected shape " + to_string(shape) + ", found " + to_string(tensor.shape));
    }
  }
  void expect_words(const StoredTensor& tensor) const {
    if (tensor.type != DType::kI32 || tensor.shape.size() != 2) {
      fail(tensor, "expected a matrix of I32, found " + to_string(tensor.shape) + " of " +
                       std::string(info(tensor.type).name));
    }
  }
  void expect_scales(const StoredTensor& tensor) const {
    if (tensor.type != DType::kF16 && tensor.type != DType::kBF16 && tensor.type != DType::kF32) {
      fail(tensor, "scales of the type " + std::string(info(tensor.type).name) + " are not read");
    }
  }

  /// Returns the number of columns per scale, from the number of scales per output.
  std::size_t group_columns(const StoredTensor& scales, std::uint64_t columns, std::uint64_t groups) const {
    if (columns % kBlockColumns != 0) {
      fail(scales,
           std::to_string(columns) + " columns are not whole blocks of " + std::to_string(kBlockColumns));
    }
    if (groups == 0 || columns % groups != 0 || columns / groups % kBlockColumns != 0) {
      fail(scales, std::to_string(groups) + " groups of " + std::to_string(columns) +
                       " columns: only groups of multiples of " + std::to_string(kBlockColumns) +
                       " are read");
    }
    return columns / groups;
  }

  const QuantScheme& scheme() const { return scheme_; }

 private:
  const TensorSource& source_;
  const std::string base_;
  const QuantScheme& scheme_;
};

QuantizedTensor find_fp8(const Finder& finder, const StoredTensor& weight) {
  if (weight.shape.size() != 2) finder.fail(weight, "is quantised, and no matrix");
  const std::uint64_t rows = weight.shape[0];
  const std::uint64_t columns = weight.shape[1];
  const StoredTensor* scales = finder.find(".weight_scale_inv");
  if (scales == nullptr) scales = &finder.need(".weight_scale");
  finder.expect_scales(*scales);
  QuantizedTensor out{.layout = Layout::kFp8,
                      .type = DType::kF8E4M3Rows,
                      .shape = weight.shape,
                      .elements = &weight,
                      .scales = scales};
  const std::uint64_t count = element_count(scales->shape).value_or(0);
  const bool by_row = scales->shape == Shape{rows} || scales->shape == Shape{rows, 1};
  const QuantScheme& scheme = finder.scheme();
  if (scheme.tile_rows == 0) {
    if (by_row || count == 1) return out;
    finder.fail(*scales,
                "expected one scale, or " + std::to_string(rows) + ", found " + to_string(scales->shape));
  }
  if (scheme.tile_rows != kTile || scheme.tile_columns != kTile) {
    if (by_row && scheme.tile_rows == 1 && scheme.tile_columns >= columns) return out;
    finder.refuse(*scales, "a scale for each tile of " + std::to_string(scheme.tile_rows) + " x " +
                               std::to_string(scheme.tile_columns) + " elements");
  }
  finder.expect(*scales, {(rows + kTile - 1) / kTile, (columns + kTile - 1) / kTile});
  out.type = DType::kF8E4M3;
  return out;
}

/// AWQ and GPTQ, which store a row per input.
QuantizedTensor find_by_inputs(const Finder& finder, const StoredTensor& words) {
  finder.expect_words(words);
  const bool awq = finder.scheme().method == QuantScheme::Method::kAwq;
  const std::uint64_t columns = words.shape[0] * (awq ? 1 : kInWord);
  const std::uint64_t rows = words.shape[1] * (awq ? kInWord : 1);
  const StoredTensor& scales = finder.need(".scales");
  finder.expect_scales(scales);
  if (scales.shape.size() != 2) finder.fail(scales, "is no matrix");
  const std::uint64_t groups = scales.shape[0];
  finder.expect(scales, {groups, rows});
  if (rows % kInWord != 0) finder.fail(words, std::to_string(rows) + " outputs are not whole words");
  QuantizedTensor out{.layout = awq ? Layout::kAwq : Layout::kGptq,
                      .type = DType::kInt4,
                      .shape = {rows, columns},
                      .elements = &words,
                      .scales = &scales,
                      .zeros = finder.find(".qzeros"),
                      .groups = awq ? nullptr : finder.find(".g_idx"),
                      .group_columns = finder.group_columns(scales, columns, groups),
                      .zeros_less_one = finder.scheme().zeros_less_one};
  if (out.zeros != nullptr) {
    finder.expect_words(*out.zeros);
    finder.expect(*out.zeros, {groups, rows / kInWord});
  }
  if (out.groups != nullptr) {
    if (out.groups->type != DType::kI32) finder.fail(*out.groups, "is not of I32");
    finder.expect(*out.groups, {columns});
  }
  return out;
}

/// compressed-tensors, which store a row per output.
QuantizedTensor find_packed(const Finder& finder, const StoredTensor& words) {
  if (words.type == DType::kU8) finder.refuse(words, "NVFP4 or MXFP4");
  if (finder.find(".meta") != nullptr) finder.refuse(words, "2:4 sparsity");
  finder.expect_words(words);
  const StoredTensor& described = finder.need(".weight_shape");
  if (described.type != DType::kI64 || described.shape != Shape{2})
    finder.fail(described, "expected two of I64");
  std::int64_t sizes[2];
  std::memcpy(sizes, described.bytes.data(), sizeof sizes);
  if (sizes[0] < 1 || sizes[1] < 1 || sizes[0] > (1ll << 40) || sizes[1] > (1ll << 40)) {
    finder.fail(described, "is no shape");
  }
  const auto rows = static_cast<std::uint64_t>(sizes[0]);
  const auto columns = static_cast<std::uint64_t>(sizes[1]);
  if (words.shape[0] == rows && words.shape[1] == (columns + 3) / 4) finder.refuse(words, "int8");
  finder.expect(words, {rows, (columns + kInWord - 1) / kInWord});
  const StoredTensor& scales = finder.need(".weight_scale");
  finder.expect_scales(scales);
  if (scales.shape.size() != 2) finder.fail(scales, "is no matrix");
  finder.expect(scales, {rows, scales.shape[1]});
  QuantizedTensor out{.layout = Layout::kPackedRows,
                      .type = DType::kInt4,
                      .shape = {rows, columns},
                      .elements = &words,
                      .scales = &scales,
                      .zeros = finder.find(".weight_zero_point"),
                      .groups = finder.find(".weight_g_idx"),
                      .group_columns = finder.group_columns(scales, columns, scales.shape[1])};
  if (out.zeros != nullptr) {
    finder.expect_words(*out.zeros);
    finder.expect(*out.zeros, {(rows + kInWord - 1) / kInWord, scales.shape[1]});
  }
  if (out.groups != nullptr) {
    if (out.groups->type != DType::kI32) finder.fail(*out.groups, "is not of I32");
    finder.expect(*out.groups, {columns});
  }
  return out;
}

// Conversion: 4-bit elements to rows of blocks, scales to f32.

using gpu::Int4Block;

constexpr std::size_t kBlockWords = 4;
static_assert(kBlockColumns == kBlockWords * kInWord);
constexpr std::size_t kRowsOfPart = 64;  // rows per thread part: whole AWQ words and cache lines
constexpr std::uint32_t kAwqIndex[kInWord] = {0, 4, 1, 5, 2, 6, 3, 7};  // index in the word of column j

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
  Repacker(const QuantizedTensor& tensor, const TensorSource& source)
      : tensor_(tensor),
        rows_(tensor.shape[0]),
        columns_(tensor.shape[1]),
        groups_(columns_ / tensor.group_columns),
        path_(source.path_of(*tensor.elements)) {
    check_scales();
    find_order();
  }

  RepackedTensor run() {
    const std::size_t blocks = columns_ / kBlockColumns;
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
  // Int4Block has the zero point in the low bits of the f32 scale, so the scale must be a 16-bit float.
  void check_scales() const {
    if (tensor_.scales->type != DType::kF32) return;
    const std::size_t count = tensor_.scales->bytes.size() / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) {
      if ((word_at(*tensor_.scales, i) & Int4Block::kZeroMask) != 0) {
        throw LoadError(path_, tensor_.scales->name, "has scales of more than 16 bits, which are not read");
      }
    }
  }

  // Makes the columns of each group contiguous, in their original order.
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
    const std::size_t group = block * kBlockColumns / tensor_.group_columns;
    Int4Block out;
    out.scale_and_zero = std::bit_cast<std::uint32_t>(scale_of(row, group)) | zero_of(row, group);
    for (std::size_t w = 0; w < kBlockWords; ++w) {
      const std::uint32_t word = word_of(row, block * kBlockColumns + w * kInWord);
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
    std::size_t nibble = row % kInWord;
    std::size_t index = group * (rows_ / kInWord) + row / kInWord;
    if (tensor_.layout == Layout::kPackedRows) index = row / kInWord * groups_ + group;
    if (tensor_.layout == Layout::kAwq) nibble = kAwqIndex[nibble];
    const std::uint32_t stored = word_at(*tensor_.zeros, index) >> (4 * nibble) & 15U;
    return stored + (tensor_.zeros_less_one ? 1 : 0);
  }

  /// Returns elements [column, column + 8) of a row, the first in the lowest bits.
  std::uint32_t word_of(std::size_t row, std::size_t column) const {
    if (order_.empty() && tensor_.layout == Layout::kGptq) {
      return word_at(*tensor_.elements, column / kInWord * rows_ + row);
    }
    if (order_.empty() && tensor_.layout == Layout::kPackedRows) {
      return word_at(*tensor_.elements, (row * columns_ + column) / kInWord);
    }
    std::uint32_t out = 0;
    for (std::size_t j = 0; j < kInWord; ++j) {
      out |= element(row, order_.empty() ? column + j : order_[column + j]) << (4 * j);
    }
    return out;
  }

  std::uint32_t element(std::size_t row, std::size_t column) const {
    std::size_t index = 0;
    std::size_t nibble = column % kInWord;
    switch (tensor_.layout) {
      case Layout::kAwq:
        index = column * (rows_ / kInWord) + row / kInWord;
        nibble = kAwqIndex[row % kInWord];
        break;
      case Layout::kGptq:
        index = column / kInWord * rows_ + row;
        break;
      default:
        index = (row * columns_ + column) / kInWord;
    }
    return word_at(*tensor_.elements, index) >> (4 * nibble) & 15U;
  }

  const QuantizedTensor& tensor_;
  const std::size_t rows_;
  const std::size_t columns_;
  const std::size_t groups_;
  const std::string& path_;
  std::vector<std::uint32_t> order_;  // column order; empty: unchanged
};

}  // namespace

std::uint64_t QuantizedTensor::stored_bytes() const {
  std::uint64_t out = elements->bytes.size() + scales->bytes.size();
  if (zeros != nullptr) out += zeros->bytes.size();
  if (groups != nullptr) out += groups->bytes.size();
  return out;
}

std::optional<QuantizedTensor> find_quantized(const TensorSource& source, std::string_view name,
                                              const QuantScheme& scheme) {
  if (!name.ends_with(kWeight)) return std::nullopt;
  const Finder finder(source, name, scheme);
  if (const StoredTensor* weight = finder.find(kWeight)) {
    if (weight->type == DType::kF8E4M3) return find_fp8(finder, *weight);
    if (weight->type == DType::kI8 || weight->type == DType::kU8) {
      finder.refuse(*weight, "a weight of " + std::string(info(weight->type).name));
    }
    return std::nullopt;
  }
  const bool by_inputs =
      scheme.method == QuantScheme::Method::kAwq || scheme.method == QuantScheme::Method::kGptq;
  if (const StoredTensor* words = by_inputs ? finder.find(".qweight") : nullptr) {
    return find_by_inputs(finder, *words);
  }
  const bool packed = scheme.method == QuantScheme::Method::kPacked;
  if (const StoredTensor* words = packed ? finder.find(".weight_packed") : nullptr) {
    return find_packed(finder, *words);
  }
  return std::nullopt;
}

RepackedTensor repack(const QuantizedTensor& tensor, const TensorSource& source) {
  return Repacker(tensor, source).run();
}

WidenedScales widen_scales(const QuantizedTensor& tensor, const TensorSource& source, std::size_t first_row,
                           std::size_t rows) {
  const bool tiles = tensor.type == DType::kF8E4M3;
  const std::size_t tile_rows = tiles ? kTile : 1;
  const std::size_t in_row = tiles ? (tensor.shape[1] + kTile - 1) / kTile : 1;
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
