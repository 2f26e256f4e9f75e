#pragma once
// Quantised weights as bf16: the arithmetic by which whole numbers of a few bits and their scales become the weights that
// products are computed with. Included by CUDA sources alone.
//
// A weight is q * scale (+ offset), rounded to bf16. The scale is kept as two bf16, whose sum is it to 16 bits; so the
// weight is the nearest bf16 to what the file says, or its neighbour. There is one function for it, value_of(), whoever
// needs weights: a quantised weight has the same value in every kernel, and a product with it the bits of a product with
// those bf16.

#include <cuda_fp16.h>

#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda::quants {

/// Two whole numbers as bf16, exactly.
using Pair = __nv_bfloat162;

/// What the numbers of a group are multiplied by, and what is added: bf16, the same in both halves of each word.
struct Scale {
  std::uint32_t high;
  std::uint32_t low;
  std::uint32_t offset;
  std::uint32_t unused;  // 16 bytes are read at once
};

__device__ __forceinline__ Pair as_pair(std::uint32_t bits) {
  return *reinterpret_cast<const Pair*>(&bits);
}
__device__ __forceinline__ std::uint32_t bits_of(Pair pair) {
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ __forceinline__ float half_as_float(std::uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

__device__ __forceinline__ Scale make_scale(float scale, float offset) {
  const std::uint32_t high = narrow(scale, scale);
  const float rest = __fsub_rn(scale, widen_pair(high).x);
  return {high, narrow(rest, rest), narrow(offset, offset), 0};
}

template <bool kHasOffset>
__device__ __forceinline__ std::uint32_t value_of(Pair numbers, const Scale& scale) {
  const Pair low = as_pair(scale.low);
  const Pair rest = kHasOffset ? __hfma2(numbers, low, as_pair(scale.offset)) : __hmul2_rn(numbers, low);
  return bits_of(__hfma2(numbers, as_pair(scale.high), rest));
}

// -- whole numbers, from bits to bf16

constexpr std::uint32_t kTwice128 = 0x43004300;  // 128 in bf16, whose last bit counts one

/// Numbers of up to 7 bits, at bits 0 and 16 and nothing else there, less `zero`; `zero` in bf16 with 128 added.
__device__ __forceinline__ Pair few_bits(std::uint32_t numbers, std::uint32_t zero_and_128) {
  return __hsub2(as_pair(numbers | kTwice128), as_pair(zero_and_128));
}
/// Signed bytes at bits 0 and 16; other bits are not looked at. A sign makes the subtrahend 256.
__device__ __forceinline__ Pair signed_bytes(std::uint32_t bytes) {
  return __hsub2(as_pair((bytes & 0x007f007f) | kTwice128), as_pair((bytes & 0x00800080) | kTwice128));
}

}  // namespace reprise::gpu::cuda::quants
