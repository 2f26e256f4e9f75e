#include "models/cuda/weights.h"

#include <algorithm>
#include <new>

#include "models/files/load_error.h"
#include "models/weight_tensors.h"
#include "traces/trace.h"

namespace reprise::models::cuda {
namespace {

constexpr std::size_t kRowsMultiple = 8;  // outputs: rows of y begin on 16 bytes

std::size_t rounded_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

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
  const DType type = checkpoint_.stored_type(name);
  const gpu::WeightFormat* format = format_of(type);
  const gc::DeviceUpload* upload = format == nullptr ? nullptr : gc::find_upload(*format);
  if (upload == nullptr) {
    throw LoadError(checkpoint_.path(), name,
                    "the type " + std::string(info(type).name) + " cannot be computed with on a GPU");
  }
  return *upload;
}

void WeightStore::upload(const Tensor& tensor, const gc::DeviceUpload& how, std::size_t columns,
                         std::byte* to) {
  static constexpr traces::ZoneSite kSite{"upload"};
  traces::Zone zone(kSite);
  if (zone.on()) zone.text(std::to_string(tensor.bytes.size()) + " bytes");
  const gpu::WeightView from = view_of(tensor);
  if (how.convert == nullptr && columns == from.columns) {
    gc::copy_to_device(to, tensor.bytes.data(), tensor.bytes.size(), stream_.handle());
    stream_.wait();  // the source may go
    return;
  }
  const gpu::WeightView kept{.format = how.kept->format, .rows = from.rows, .columns = from.columns};
  std::vector<std::byte> converted(kept.bytes());
  if (how.convert != nullptr) {
    how.convert(from, converted.data());
  } else {
    std::copy_n(tensor.bytes.data(), converted.size(), converted.begin());
  }
  if (columns != from.columns) {
    const gpu::WeightView filled{.format = how.kept->format, .rows = from.rows, .columns = columns};
    std::vector<std::byte> wider(filled.bytes());  // zeros
    for (std::size_t row = 0; row < from.rows; ++row) {
      std::copy_n(converted.data() + row * kept.row_bytes(), kept.row_bytes(),
                  wider.data() + row * filled.row_bytes());
    }
    converted = std::move(wider);
  }
  gc::copy_to_device(to, converted.data(), converted.size(), stream_.handle());
  stream_.wait();
}

DeviceLinear WeightStore::linear(const std::vector<std::string>& names, Inputs inputs) {
  const gc::DeviceFormat& format = *upload_of(names.front() + ".weight").kept;
  std::size_t rows = 0;
  bool biased = false;
  for (const std::string& name : names) {
    if (const gc::DeviceFormat* other = upload_of(name + ".weight").kept; other != &format) {
      throw LoadError(checkpoint_.path(), name + ".weight",
                      std::string(other->format->name) + " beside " + std::string(format.format->name) +
                          " of " + names.front() +
                          ".weight: a GPU multiplies by both at once, in one format");
    }
    rows += checkpoint_.shape(name + ".weight").front();
    biased = biased || checkpoint_.has(name + ".bias");
  }
  const auto multiple = static_cast<std::size_t>(format.columns_multiple);
  std::size_t columns = checkpoint_.shape(names.front() + ".weight").back();
  // Only elements that stand by themselves can be filled up with zeros.
  if (inputs == Inputs::kFilledUp && format.is_rows_of_bf16) columns = rounded_up(columns, multiple);
  if (columns % multiple != 0) {
    throw LoadError(checkpoint_.path(), names.front(),
                    std::to_string(columns) + " inputs: a GPU needs a multiple of " +
                        std::to_string(format.columns_multiple));
  }
  const std::size_t padded = rounded_up(rows, kRowsMultiple);
  const std::size_t row_bytes =
      gpu::WeightView{.format = format.format, .rows = padded, .columns = columns}.row_bytes();
  std::byte* data = take(padded * row_bytes);
  gc::fill(data + rows * row_bytes, 0, (padded - rows) * row_bytes, stream_.handle());
  std::vector<float> bias(biased ? padded : 0);
  std::size_t row = 0;
  std::vector<DeviceLinear::Layer> layers;
  for (const std::string& name : names) {
    layers.push_back({name, static_cast<int>(row)});
    upload(checkpoint_.tensor(name + ".weight"), upload_of(name + ".weight"), columns,
           data + row * row_bytes);
    if (checkpoint_.has(name + ".bias")) {
      const std::vector<float> part = load_vector(checkpoint_, name + ".bias");
      std::copy(part.begin(), part.end(), bias.begin() + static_cast<std::ptrdiff_t>(row));
    }
    row += checkpoint_.shape(name + ".weight").front();
  }
  return {.weight = {.format = &format,
                     .data = data,
                     .rows = static_cast<int>(padded),
                     .columns = static_cast<int>(columns)},
          .bias = biased ? vector(bias) : nullptr,
          .layers = std::move(layers)};
}

const float* WeightStore::vector(const std::vector<float>& values) {
  std::byte* data = take(values.size() * sizeof(float));
  gc::copy_to_device(data, values.data(), values.size() * sizeof(float), stream_.handle());
  stream_.wait();
  return reinterpret_cast<const float*>(data);
}

}  // namespace reprise::models::cuda
