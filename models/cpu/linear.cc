#include "models/cpu/linear.h"

#include "models/checkpoint.h"
#include "models/files/load_error.h"

namespace reprise::models {

namespace {

constexpr std::size_t kOutputsAtOnce = 8;  // ranges of outputs are whole tiles of the kernels

}  // namespace

gpu::Matrix view_of(const Tensor& tensor) {
  gpu::Matrix matrix;
  switch (tensor.type) {
    case DType::kF32:
      matrix.type = gpu::ElementType::kF32;
      break;
    case DType::kF16:
      matrix.type = gpu::ElementType::kF16;
      break;
    default:
      matrix.type = gpu::ElementType::kBF16;
      break;  // the checkpoint gives no others
  }
  matrix.columns = tensor.shape.back();
  matrix.rows = matrix.columns == 0 ? 0 : tensor.elements() / matrix.columns;
  matrix.data = tensor.bytes.data();
  return matrix;
}

std::vector<float> load_vector(const Checkpoint& checkpoint, const std::string& name) {
  const Tensor tensor = checkpoint.tensor(name);
  const gpu::Matrix matrix = view_of(tensor);
  std::vector<float> values(tensor.elements());
  for (std::size_t row = 0; row < matrix.rows; ++row) {
    gpu::cpu_kernels(gpu::Isa::kPlain).widen_row(matrix, row, values.data() + row * matrix.columns);
  }
  return values;
}

Linear::Linear(const Checkpoint& checkpoint, const std::string& name) {
  const Tensor tensor = checkpoint.tensor(name + ".weight");
  weight_ = view_of(tensor);
  owner_ = tensor.owned;
  if (checkpoint.has(name + ".bias")) bias_ = load_vector(checkpoint, name + ".bias");
}

void Linear::apply(Step& step, const float* x, std::size_t rows, float* y) const {
  const gpu::Kernels& kernels = step.kernels;
  const bool in_bf16 = step.options.compute == gpu::Compute::kAuto &&
                       weight_.type == gpu::ElementType::kBF16 && kernels.matmul_bf16 != nullptr;
  const std::size_t mark = step.scratch.mark();
  std::uint16_t* high = nullptr;
  std::uint16_t* low = nullptr;
  if (in_bf16) {
    high = step.scratch.halves(rows * inputs());
    low = step.scratch.halves(rows * inputs());
    kernels.split_bf16(x, high, low, rows * inputs());
  }
  step.threads.for_ranges(outputs(), kOutputsAtOnce, [&](std::size_t begin, std::size_t end) {
    if (in_bf16) {
      kernels.matmul_bf16(high, low, rows, weight_, y, outputs(), begin, end);
    } else {
      kernels.matmul(x, rows, weight_, y, outputs(), begin, end);
    }
    if (bias_.empty()) return;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t n = begin; n < end; ++n) y[row * outputs() + n] += bias_[n];
    }
  });
  step.scratch.reset(mark);
}

}  // namespace reprise::models
