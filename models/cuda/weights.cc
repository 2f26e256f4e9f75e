#include "models/cuda/weights.h"

#include <new>

#include "gpu/kernels.h"
#include "models/cpu/linear.h"
#include "models/files/load_error.h"

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

void WeightStore::upload(const Tensor& tensor, std::byte* to) {
  if (tensor.type == DType::kBF16) {
    gc::copy_to_device(to, tensor.bytes.data(), tensor.bytes.size(), stream_.handle());
  } else {
    const gpu::Matrix matrix = view_of(tensor);
    std::vector<float> row(matrix.columns);
    std::vector<std::uint16_t> halves(matrix.rows * matrix.columns);
    const gpu::Kernels& kernels = gpu::cpu_kernels(gpu::best_isa());
    for (std::size_t i = 0; i < matrix.rows; ++i) {
      kernels.widen_row(matrix, i, row.data());
      kernels.to_bf16(row.data(), halves.data() + i * matrix.columns, matrix.columns);
    }
    gc::copy_to_device(to, halves.data(), halves.size() * sizeof(std::uint16_t), stream_.handle());
  }
  stream_.wait();  // the source may go
}

DeviceLinear WeightStore::linear(const std::vector<std::string>& names) {
  std::size_t rows = 0;
  bool biased = false;
  for (const std::string& name : names) {
    rows += checkpoint_.shape(name + ".weight").front();
    biased = biased || checkpoint_.has(name + ".bias");
  }
  const std::size_t columns = checkpoint_.shape(names.front() + ".weight").back();
  if (columns % kRowsMultiple != 0) {
    throw LoadError(checkpoint_.path(), names.front(),
                    std::to_string(columns) + " inputs: a GPU needs a multiple of 8");
  }
  const std::size_t padded = rounded_up(rows, kRowsMultiple);
  const std::size_t row_bytes = columns * sizeof(std::uint16_t);
  std::byte* data = take(padded * row_bytes);
  gc::fill(data + rows * row_bytes, 0, (padded - rows) * row_bytes, stream_.handle());
  std::vector<float> bias(biased ? padded : 0);
  std::size_t row = 0;
  for (const std::string& name : names) {
    const Tensor tensor = checkpoint_.tensor(name + ".weight");
    upload(tensor, data + row * row_bytes);
    if (checkpoint_.has(name + ".bias")) {
      const std::vector<float> part = load_vector(checkpoint_, name + ".bias");
      std::copy(part.begin(), part.end(), bias.begin() + static_cast<std::ptrdiff_t>(row));
    }
    row += checkpoint_.shape(name + ".weight").front();
  }
  return {.weight = {.data = reinterpret_cast<const gc::Bf16*>(data),
                     .rows = static_cast<int>(padded),
                     .columns = static_cast<int>(columns)},
          .bias = biased ? vector(bias) : nullptr};
}

const float* WeightStore::vector(const std::vector<float>& values) {
  std::byte* data = take(values.size() * sizeof(float));
  gc::copy_to_device(data, values.data(), values.size() * sizeof(float), stream_.handle());
  stream_.wait();
  return reinterpret_cast<const float*>(data);
}

}  // namespace reprise::models::cuda
