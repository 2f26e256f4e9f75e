#pragma once
// Converts tensors of type F32, BF16 or F16 to floats.

#include <cstdint>
#include <cstring>
#include <vector>

#include "models/files/gguf_layout.h"
#include "models/model_files.h"

namespace reprise::models::test {

inline std::vector<float> values(const Tensor& tensor) {
  std::vector<float> out(tensor.elements());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (tensor.type == DType::kF32) {
      std::memcpy(&out[i], tensor.bytes.data() + 4 * i, 4);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + 2 * i, 2);
      out[i] = tensor.type == DType::kBF16 ? widen_bf16(bits) : widen_f16(bits);
    }
  }
  return out;
}

}  // namespace reprise::models::test
