// Finding the tensors of a quantised matrix, and judging their shapes. The bytes are in quantised_repack.cc.

#include "models/files/quantised_tensor.h"

#include <cstring>

#include "models/files/load_error.h"

namespace reprise::models {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::size_t kInWord = 8;  // elements of 4 bits in an i32
constexpr std::size_t kBlockColumns = 32;
constexpr std::size_t kTile = 128;  // rows and columns of an FP8 scale

using Layout = QuantisedTensor::Layout;

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
  /// The scheme's name with it.
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

  /// Of the elements' columns, by the scales that a row of outputs has.
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

QuantisedTensor find_fp8(const Finder& finder, const StoredTensor& weight) {
  if (weight.shape.size() != 2) finder.fail(weight, "is quantised, and no matrix");
  const std::uint64_t rows = weight.shape[0];
  const std::uint64_t columns = weight.shape[1];
  const StoredTensor* scales = finder.find(".weight_scale_inv");
  if (scales == nullptr) scales = &finder.need(".weight_scale");
  finder.expect_scales(*scales);
  QuantisedTensor out{.layout = Layout::kFp8,
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

/// AWQ and GPTQ: rows of inputs.
QuantisedTensor find_by_inputs(const Finder& finder, const StoredTensor& words) {
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
  QuantisedTensor out{.layout = awq ? Layout::kAwq : Layout::kGptq,
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

/// compressed-tensors: rows of outputs.
QuantisedTensor find_packed(const Finder& finder, const StoredTensor& words) {
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
  QuantisedTensor out{.layout = Layout::kPackedRows,
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

}  // namespace

std::uint64_t QuantisedTensor::stored_bytes() const {
  std::uint64_t out = elements->bytes.size() + scales->bytes.size();
  if (zeros != nullptr) out += zeros->bytes.size();
  if (groups != nullptr) out += groups->bytes.size();
  return out;
}

std::optional<QuantisedTensor> find_quantised(const TensorSource& source, std::string_view name,
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

}  // namespace reprise::models
