#include "models/cpu/linear.h"

#include "models/model_files.h"
#include "models/weight_tensors.h"

namespace reprise::models::cpu {

Linear::Linear(const ModelFiles& files, const std::string& name, ColumnOrder order) {
  Tensor tensor = files.tensor(name + ".weight", order);
  weight_ = gpu::HostWeight(view_of(tensor), owner_of(tensor));
  column_order_ = std::move(tensor.column_order);
  if (files.has(name + ".bias")) bias_ = load_vector(files, name + ".bias");
  if (order == ColumnOrder::kAny) name_ = name;
}

const void* LinearInput::as(const gpu::ActivationForm& form, Step& step, std::size_t columns) {
  if (form.prepare == nullptr) return x_;
  for (const auto& [known, rows] : prepared_) {
    if (known == &form) return rows;
  }
  const std::size_t row_bytes = form.row_bytes(columns);
  std::byte* to = step.scratch.bytes(rows_ * row_bytes);
  step.threads.for_ranges(rows_, 1, [&](std::size_t begin, std::size_t end) {
    form.prepare(x_ + begin * columns, end - begin, columns, to + begin * row_bytes);
  });
  prepared_.emplace_back(&form, to);
  return to;
}

void Linear::apply(Step& step, const float* x, std::size_t rows, float* y) const {
  const std::size_t mark = step.scratch.mark();
  LinearInput input(x, rows);
  apply(step, input, y);
  step.scratch.reset(mark);
}

void Linear::apply(Step& step, LinearInput& x, float* y) const {
  apply_in(step, step.options.compute, x, y);
}

void Linear::apply_exactly(Step& step, LinearInput& x, float* y) const {
  apply_in(step, gpu::Compute::kF32, x, y);
}

void Linear::apply_in(Step& step, gpu::Compute compute, LinearInput& x, float* y) const {
  if (column_order_.empty()) {
    multiply(step, compute, x, y);
  } else {
    in_own_order(step, compute, x, y);
  }
  if (!step.adapters.empty() && !name_.empty()) {
    add_changes(step, name_, {.x = x.data(), .rows = x.rows(), .which = x.which()}, y);
  }
}

const gpu::Product& Linear::product(const Step& step) const {
  return weight_.prepare(step.kernels, step.options.compute, step.threads);
}

void Linear::in_own_order(Step& step, gpu::Compute compute, const LinearInput& x, float* y) const {
  const std::size_t mark = step.scratch.mark();
  float* moved = step.scratch.floats(x.rows() * inputs());
  for (std::size_t row = 0; row < x.rows(); ++row) {
    const float* from = x.data() + row * inputs();
    float* to = moved + row * inputs();
    for (std::size_t k = 0; k < inputs(); ++k) to[k] = from[column_order_[k]];
  }
  LinearInput own(moved, x.rows());
  multiply(step, compute, own, y);
  step.scratch.reset(mark);
}

void Linear::multiply(Step& step, gpu::Compute compute, LinearInput& x, float* y) const {
  const gpu::Product& product = weight_.prepare(step.kernels, compute, step.threads);
  const void* prepared = x.as(*product.activations, step, inputs());
  const auto multiply_range = [&](std::size_t begin, std::size_t end) {
    product.multiply(prepared, x.rows(), weight_.view(), y, outputs(), begin, end);
    if (bias_.empty()) return;
    for (std::size_t row = 0; row < x.rows(); ++row) {
      for (std::size_t n = begin; n < end; ++n) y[row * outputs() + n] += bias_[n];
    }
  };
  // With few rows a range costs only the time to read its weights; with many, each range reads x too, so
  // larger ones pay.
  step.threads.for_ranges(outputs(), product.outputs_at_once, multiply_range,
                          x.rows() <= product.few_rows ? 12 : 4);
}

void Linear::row(const Step& step, std::size_t index, float* y) const {
  const gpu::WeightView& view = weight_.view();
  const gpu::FormatKernels& format = step.kernels.format(*view.format);
  if (column_order_.empty()) return format.widen_row(view, index, y);
  std::vector<float> stored(inputs());
  format.widen_row(view, index, stored.data());
  for (std::size_t k = 0; k < inputs(); ++k) y[column_order_[k]] = stored[k];
}

}  // namespace reprise::models::cpu
