#include "models/cuda/weights.h"

#include <algorithm>
#include <new>

#include "models/files/load_error.h"
#include "models/weight_tensors.h"
#include "traces/trace.h"

namespace reprise::models::cuda {
namespace {

constexpr std::size_t kRowsMultiple = 8;  // rows of y start at 16-byte boundaries

std::size_t rounded_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr std::size_t kStagingBytes = 64 << 20;
constexpr std::size_t kStagingAlignment = 256;

std::size_t on_alignment(std::size_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

/// Returns whether the bytes of `second` directly follow those of `first` in a mapped file.
bool follows(const Tensor& first, const Tensor& second) {
  return first.owned == nullptr && second.owned == nullptr &&
         first.bytes.data() + first.bytes.size() == second.bytes.data();
}

}  // namespace

void PackedUpload::add(Tensor tensor, const gc::DeviceWeight& to, std::size_t row) {
  Matrix matrix{.tensor = std::move(tensor), .to = to, .row = row};
  const std::size_t scale_bytes = on_alignment(matrix.tensor.scales.size());
  const std::size_t bytes = on_alignment(matrix.tensor.bytes.size()) + scale_bytes;
  if (bytes > kStagingBytes) return add_in_pieces(std::move(matrix));
  if (waiting_bytes_ + bytes > kStagingBytes) flush();
  matrix.scales_at = waiting_bytes_;
  matrix.data_at = waiting_bytes_ + scale_bytes;
  if (scale_bytes == 0 && !waiting_.empty() && follows(waiting_.back().tensor, matrix.tensor)) {
    matrix.data_at = waiting_.back().data_at + waiting_.back().tensor.bytes.size();
  }
  waiting_bytes_ = on_alignment(matrix.data_at + matrix.tensor.bytes.size());
  waiting_.push_back(std::move(matrix));
}

void PackedUpload::flush() {
  if (waiting_.empty()) return;
  static constexpr traces::ZoneSite kSite{"upload"};
  traces::Zone zone(kSite);
  if (zone.on()) zone.text(std::to_string(waiting_bytes_) + " bytes");
  reserve(waiting_bytes_);
  copy_together(waiting_);
  for (const Matrix& matrix : waiting_) pack(matrix, 0, view_of(matrix.tensor).rows);
  stream_.wait();  // the sources may be unmapped
  waiting_.clear();
  waiting_bytes_ = 0;
}

void PackedUpload::reserve(std::size_t bytes) {
  if (bytes <= staging_.size()) return;
  stream_.wait();
  staging_ = gc::DeviceBytes();
  staging_ = gc::DeviceBytes(bytes);
}

void PackedUpload::copy_together(std::span<const Matrix> matrices) {
  for (std::size_t i = 0; i < matrices.size();) {
    const Matrix& first = matrices[i];
    gc::copy_to_device(staging_.data() + first.scales_at, first.tensor.scales.data(),
                       first.tensor.scales.size(), stream_.handle());
    std::size_t bytes = first.tensor.bytes.size();
    for (++i; i < matrices.size() && matrices[i].data_at == first.data_at + bytes &&
              follows(matrices[i - 1].tensor, matrices[i].tensor);
         ++i) {
      bytes += matrices[i].tensor.bytes.size();
    }
    gc::copy_to_device(staging_.data() + first.data_at, first.tensor.bytes.data(), bytes, stream_.handle());
  }
}

void PackedUpload::pack(const Matrix& matrix, std::size_t first, std::size_t rows) {
  const gpu::WeightView from = view_of(matrix.tensor);
  matrix.to.format->pack({.format = from.format,
                          .data = staging_.data() + matrix.data_at,
                          .scales = reinterpret_cast<const float*>(staging_.data() + matrix.scales_at),
                          .rows = static_cast<int>(rows),
                          .columns = static_cast<int>(from.columns),
                          .first = static_cast<int>(first)},
                         matrix.to, static_cast<int>(matrix.row + first), stream_.handle());
}

void PackedUpload::add_in_pieces(Matrix matrix) {
  flush();
  const gpu::WeightView from = view_of(matrix.tensor);
  matrix.data_at = on_alignment(matrix.tensor.scales.size());
  const std::size_t piece_rows = std::clamp<std::size_t>(kStagingBytes / from.row_bytes(), 1, from.rows);
  reserve(matrix.data_at + piece_rows * from.row_bytes());
  gc::copy_to_device(staging_.data(), matrix.tensor.scales.data(), matrix.tensor.scales.size(),
                     stream_.handle());
  for (std::size_t first = 0; first < from.rows; first += piece_rows) {
    const std::size_t rows = std::min(piece_rows, from.rows - first);
    gc::copy_to_device(staging_.data() + matrix.data_at, from.row(first), rows * from.row_bytes(),
                       stream_.handle());
    pack(matrix, first, rows);
    stream_.wait();  // the source may be unmapped
  }
}

WeightStore::~WeightStore() {
  for (const Block& block : blocks_) arena_.give(block.data, block.bytes);
}

std::byte* WeightStore::take(std::size_t bytes) {
  std::byte* data = arena_.take_low(bytes);
  if (data == nullptr) throw std::bad_alloc();
  blocks_.push_back({data, bytes});
  return data;
}

const gc::DeviceUpload& WeightStore::upload_of(const std::string& name) const {
  const DType type = files_.stored_type(name);
  const gpu::WeightFormat* format = format_of(type);
  const gc::DeviceUpload* upload = format == nullptr ? nullptr : gc::find_upload(*format);
  if (upload == nullptr) {
    throw LoadError(files_.path(), name,
                    "the type " + std::string(info(type).name) + " cannot be computed with on a GPU");
  }
  return *upload;
}

std::size_t WeightStore::rows_of(const std::string& name) const {
  return files_.shape(name + ".weight").front();
}

void WeightStore::upload(Tensor tensor, const gc::DeviceUpload& how, const gc::DeviceWeight& to,
                         std::size_t row) {
  if (how.kept->pack != nullptr) return packed_.add(std::move(tensor), to, row);
  static constexpr traces::ZoneSite kSite{"upload"};
  traces::Zone zone(kSite);
  if (zone.on()) zone.text(std::to_string(tensor.bytes.size()) + " bytes");
  const auto columns = static_cast<std::size_t>(to.columns);
  upload_rows(tensor, how, columns,
              static_cast<std::byte*>(const_cast<void*>(to.data)) + how.kept->bytes(row, columns));
}

void WeightStore::upload_rows(const Tensor& tensor, const gc::DeviceUpload& how, std::size_t columns,
                              std::byte* to) {
  const gpu::WeightView from = view_of(tensor);
  if (how.convert == nullptr && columns == from.columns) {
    gc::copy_to_device(to, tensor.bytes.data(), tensor.bytes.size(), stream_.handle());
    stream_.wait();
    return;
  }
  const gpu::WeightView kept{.format = how.kept->format, .rows = from.rows, .columns = from.columns};
  std::vector<std::byte> converted(kept.bytes());
  if (how.convert != nullptr) {
    how.convert(from, converted.data());
  } else {
    std::copy_n(tensor.bytes.data(), converted.size(), converted.begin());
  }
  if (columns != from.columns || !tensor.column_order.empty()) {
    // Rows of bf16 can be permuted and padded element by element.
    std::vector<std::byte> wider(from.rows * columns * sizeof(gc::Bf16));  // zeros
    const auto* bf16_rows = reinterpret_cast<const gc::Bf16*>(converted.data());
    auto* ordered = reinterpret_cast<gc::Bf16*>(wider.data());
    for (std::size_t row = 0; row < from.rows; ++row) {
      for (std::size_t k = 0; k < from.columns; ++k) {
        const std::size_t column = tensor.column_order.empty() ? k : tensor.column_order[k];
        ordered[row * columns + column] = bf16_rows[row * from.columns + k];
      }
    }
    converted = std::move(wider);
  }
  gc::copy_to_device(to, converted.data(), converted.size(), stream_.handle());
  stream_.wait();
}

DeviceLinear WeightStore::linear(const std::vector<std::string>& names, Inputs inputs) {
  std::size_t columns = files_.shape(names.front() + ".weight").back();
  std::size_t rows = 0;
  bool biased = false;
  bool all_bf16 = true;
  for (const std::string& name : names) {
    rows += rows_of(name);
    biased = biased || files_.has(name + ".bias");
    all_bf16 = all_bf16 && upload_of(name + ".weight").kept->is_rows_of_bf16;
  }
  // Quantized blocks cannot be padded with zeros.
  if (inputs == Inputs::kFilledUp && all_bf16) {
    columns = rounded_up(columns, static_cast<std::size_t>(gc::kBf16OnDevice.columns_multiple));
  }
  DeviceLinear out;
  const std::size_t padded = rounded_up(rows, kRowsMultiple);
  out.weight = {.rows = static_cast<int>(padded), .columns = static_cast<int>(columns)};
  std::vector<float> bias(biased ? padded : 0);
  std::vector<std::uint32_t> order;
  std::size_t row = 0;
  for (std::size_t i = 0; i < names.size();) {
    const gc::DeviceFormat& format = *upload_of(names[i] + ".weight").kept;
    if (columns % static_cast<std::size_t>(format.columns_multiple) != 0) {
      throw LoadError(files_.path(), names[i],
                      std::to_string(columns) + " inputs: a GPU needs a multiple of " +
                          std::to_string(format.columns_multiple));
    }
    // Consecutive layers of one format form a part.
    std::size_t end = i;
    std::size_t count = 0;
    while (end < names.size() && upload_of(names[end] + ".weight").kept == &format) {
      count += rows_of(names[end++]);
    }
    if (end == names.size()) count = padded - row;
    const std::size_t bytes = format.bytes(count, columns);
    gc::DeviceWeight part{.format = &format,
                          .data = take(bytes),
                          .rows = static_cast<int>(count),
                          .columns = static_cast<int>(columns)};
    gc::fill(static_cast<std::byte*>(const_cast<void*>(part.data)), 0, bytes, stream_.handle());
    std::size_t in_part = 0;
    for (; i < end; ++i) {
      const std::string& name = names[i];
      out.layers.push_back({name, static_cast<int>(row + in_part)});
      Tensor tensor = files_.tensor(name + ".weight", ColumnOrder::kAny);
      if (format.pack != nullptr && tensor.column_order != order) {
        if (row + in_part != 0) {
          throw LoadError(files_.path(), name + ".weight",
                          "its columns are in another order than those of " + names.front() +
                              ".weight: a GPU multiplies by both at once");
        }
        order = tensor.column_order;
      }
      upload(std::move(tensor), upload_of(name + ".weight"), part, in_part);
      if (files_.has(name + ".bias")) {
        const std::vector<float> own = load_vector(files_, name + ".bias");
        std::copy(own.begin(), own.end(), bias.begin() + static_cast<std::ptrdiff_t>(row + in_part));
      }
      in_part += rows_of(name);
    }
    row += count;
    out.parts.push_back(part);
  }
  if (out.parts.size() == 1) {
    out.weight = out.parts.front();
  } else {
    for (gc::DeviceWeight& part : out.parts) part.part_of = out.weight.rows;
  }
  max_columns_ = std::max(max_columns_, out.weight.columns);
  if (biased) out.bias = vector(bias);
  if (!order.empty()) {
    max_ordered_ = std::max(max_ordered_, out.weight.columns);
    std::byte* order_on_gpu = take(order.size() * sizeof(std::uint32_t));
    gc::copy_to_device(order_on_gpu, order.data(), order.size() * sizeof(std::uint32_t), stream_.handle());
    stream_.wait();
    out.column_order = reinterpret_cast<const std::int32_t*>(order_on_gpu);
  }
  return out;
}

gc::ExpertWeights WeightStore::experts(const std::string& prefix, std::size_t count,
                                       const std::vector<std::string>& names) {
  const std::string first = prefix + "0" + names.front() + ".weight";
  const gc::DeviceFormat& format = *upload_of(first).kept;
  const std::size_t columns = files_.shape(first).back();
  std::size_t rows = 0;
  for (const std::string& name : names) rows += rows_of(prefix + "0" + name);
  if (columns % static_cast<std::size_t>(format.columns_multiple) != 0 ||
      rows % static_cast<std::size_t>(format.rows_together) != 0) {
    throw LoadError(files_.path(), first,
                    std::to_string(rows) + " x " + std::to_string(columns) + ": a GPU needs multiples of " +
                        std::to_string(format.rows_together) + " and " +
                        std::to_string(format.columns_multiple) + " for experts of this type");
  }
  gc::ExpertWeights out{.one = {.format = &format,
                                .data = nullptr,
                                .rows = static_cast<int>(rows),
                                .columns = static_cast<int>(columns)},
                        .bytes = format.bytes(rows, columns)};
  std::byte* data = take(count * out.bytes);
  out.one.data = data;
  gc::fill(data, 0, count * out.bytes, stream_.handle());
  // In file order: one matrix of all experts, then the next.
  std::size_t row = 0;
  for (const std::string& name : names) {
    for (std::size_t expert = 0; expert < count; ++expert) {
      gc::DeviceWeight own = out.one;
      own.data = data + expert * out.bytes;
      const std::string full = prefix + std::to_string(expert) + name;
      const gc::DeviceUpload& how = upload_of(full + ".weight");
      if (how.kept != &format) {
        throw LoadError(files_.path(), full + ".weight",
                        std::string(how.kept->format->name) + " beside " + std::string(format.format->name) +
                            " of " + first + ": a GPU has all experts in one type");
      }
      upload(files_.tensor(full + ".weight"), how, own, row);
    }
    row += rows_of(prefix + "0" + name);
  }
  return out;
}

const float* WeightStore::vector(const std::vector<float>& values) {
  std::byte* data = take(values.size() * sizeof(float));
  gc::copy_to_device(data, values.data(), values.size() * sizeof(float), stream_.handle());
  stream_.wait();
  return reinterpret_cast<const float*>(data);
}

}  // namespace reprise::models::cuda
