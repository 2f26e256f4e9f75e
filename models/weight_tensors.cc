#include "models/weight_tensors.h"

#include <utility>

#include "gpu/kernels.h"
#include "models/model_files.h"

namespace reprise::models {

gpu::WeightView view_of(const Tensor& tensor) {
  const std::size_t columns = tensor.shape.back();
  return {.format = format_of(tensor.type),  // not null: ModelFiles::tensor() refuses unsupported types
          .rows = columns == 0 ? 0 : tensor.elements() / columns,
          .columns = columns,
          .data = tensor.bytes.data(),
          .scales = tensor.scales.data()};
}

std::shared_ptr<const void> owner_of(const Tensor& tensor) {
  if (tensor.owned_scales == nullptr) return tensor.owned;
  if (tensor.owned == nullptr) return tensor.owned_scales;
  return std::make_shared<std::pair<std::shared_ptr<const std::byte[]>, std::shared_ptr<const std::byte[]>>>(
      tensor.owned, tensor.owned_scales);
}

std::vector<float> load_vector(const ModelFiles& files, const std::string& name) {
  const Tensor tensor = files.tensor(name);
  const gpu::WeightView view = view_of(tensor);
  const gpu::FormatKernels& format = gpu::cpu_kernels(gpu::Isa::kPlain).format(*view.format);
  std::vector<float> values(tensor.elements());
  for (std::size_t row = 0; row < view.rows; ++row) {
    format.widen_row(view, row, values.data() + row * view.columns);
  }
  return values;
}

std::vector<float> load_conv_taps(const ModelFiles& files, const std::string& name) {
  const std::size_t taps = files.tensor(name).shape.back();
  const std::vector<float> stored = load_vector(files, name);
  const std::size_t channels = stored.size() / taps;
  std::vector<float> out(stored.size());
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t j = 0; j < taps; ++j) out[j * channels + c] = stored[c * taps + j];
  }
  return out;
}

}  // namespace reprise::models
