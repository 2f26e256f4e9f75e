#include "models/cuda/step.h"

#include "base/check.h"
#include "gpu/cuda/rows.h"

namespace reprise::models::cuda {

std::byte* Workspace::bytes(std::size_t count) {
  const std::size_t begin = next_;
  next_ += rounded(count);
  REPRISE_CHECK(next_ <= memory_.size(), "a step needs more memory than was made ready for it");
  return memory_.data() + begin;
}

void CudaStep::multiply(const gc::Bf16* x, const DeviceLinear& linear, void* y, gc::GemmOutput output) const {
  if (phase == Phase::kPrefill) {
    gemm.multiply(x, batch.rows, linear.weight, y, output, stream);
  } else {
    gc::decode_gemm(x, batch.rows, linear.weight, y, output, stream);
  }
  if (linear.bias == nullptr) return;
  if (output == gc::GemmOutput::kBf16) {
    gc::add_bias(static_cast<gc::Bf16*>(y), batch.rows, linear.weight.rows, linear.bias, stream);
  } else {
    gc::add_bias(static_cast<float*>(y), batch.rows, linear.weight.rows, linear.bias, stream);
  }
}

}  // namespace reprise::models::cuda
