#include "models/cpu/linear.h"

#include "models/checkpoint.h"

namespace reprise::models {

gpu::WeightView view_of(const Tensor& tensor) {
  const std::size_t columns = tensor.shape.back();
  return {.format = format_of(tensor.type),  // the checkpoint gives no others
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

Linear::Linear(const Checkpoint& checkpoint, const std::string& name) {
  const Tensor tensor = checkpoint.tensor(name + ".weight");
  weight_ = gpu::HostWeight(view_of(tensor), tensor.owned);
  if (checkpoint.has(name + ".bias")) bias_ = load_vector(checkpoint, name + ".bias");
}

void Linear::apply(Step& step, const float* x, std::size_t rows, float* y) const {
  const gpu::Product& product = weight_.prepare(step.kernels, step.options.compute, step.threads);
  const gpu::ActivationForm& form = *product.activations;
  const std::size_t mark = step.scratch.mark();
  const void* prepared = x;
  if (form.prepare != nullptr) {
    std::byte* to = step.scratch.bytes(rows * form.row_bytes(inputs()));
    form.prepare(x, rows, inputs(), to);
    prepared = to;
  }
  step.threads.for_ranges(outputs(), product.outputs_at_once, [&](std::size_t begin, std::size_t end) {
    product.multiply(prepared, rows, weight_.view(), y, outputs(), begin, end);
    if (bias_.empty()) return;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t n = begin; n < end; ++n) y[row * outputs() + n] += bias_[n];
    }
  });
  step.scratch.reset(mark);
}

void Linear::row(const Step& step, std::size_t index, float* y) const {
  const gpu::WeightView& view = weight_.view();
  step.kernels.format(*view.format).widen_row(view, index, y);
}

}  // namespace reprise::models
