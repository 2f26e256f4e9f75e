#include "models/weight_tensors.h"

#include "gpu/kernels.h"
#include "models/checkpoint.h"

namespace reprise::models {

gpu::WeightView view_of(const Tensor& tensor) {
  const std::size_t columns = tensor.shape.back();
  return {
      .format = format_of(tensor.type),  // not null: the checkpoint has refused what cannot be computed with
      .rows = columns == 0 ? 0 : tensor.elements() / columns,
      .columns = columns,
      .data = tensor.bytes.data()};
}

std::vector<float> load_vector(const Checkpoint& checkpoint, const std::string& name) {
  const Tensor tensor = checkpoint.tensor(name);
  const gpu::WeightView view = view_of(tensor);
  const gpu::FormatKernels& format = gpu::cpu_kernels(gpu::Isa::kPlain).format(*view.format);
  std::vector<float> values(tensor.elements());
  for (std::size_t row = 0; row < view.rows; ++row) {
    format.widen_row(view, row, values.data() + row * view.columns);
  }
  return values;
}

}  // namespace reprise::models
