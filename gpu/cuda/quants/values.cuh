#pragma once
// Quantised weights as bf16: the arithmetic by which whole numbers of a few bits and their scales become the weights that
// products are computed with. Included by CUDA sources alone.
//
// A prefill's weight is q * scale (+ offset), rounded to bf16. The scale is two bf16, whose sum is it to 16 bits; so the
// weight is the nearest bf16 to what the file says, or its neighbour. There is one function for it, value_of(). Decoded
// rows are multiplied by the numbers q, which are bf16 exactly, and their sums by the scales in f32
// (gpu/cuda/quants/scaled_sums.cuh).

#include <cuda_fp16.h>

#include "gpu/cuda/tensor_core.cuh"

namespace reprise::gpu::cuda::quants {

/// Two whole numbers as bf16, exactly.
using Pair = __nv_bfloat162;

/// What the numbers of a group are multiplied by, and what is added.
struct Factor {
  float scale;
  float offset;
};
/// The same in bf16, alike in both halves of each word.
struct Scale {
  std::uint32_t high;
  std::uint32_t low;
  std::uint32_t offset;
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

__device__ __forceinline__ Scale make_scale(const Factor& factor) {
  const std::uint32_t high = narrow(factor.scale, factor.scale);
  const float rest = __fsub_rn(factor.scale, widen_pair(high).x);
  return {high, narrow(rest, rest), narrow(factor.offset, factor.offset)};
}

template <bool kHasOffset>
__device__ __forceinline__ std::uint32_t value_of(Pair numbers, const Scale& scale) {
  const Pair low = as_pair(scale.low);
  const Pair rest = kHasOffset ? __hfma2(numbers, low, as_pair(scale.offset)) : __hmul2_rn(numbers, low);
  return bits_of(__hfma2(numbers, as_pair(scale.high), rest));
}

// -- whole numbers, from bits to bf16

constexpr std::uint32_t kTwice128 = 0x43004300;  // 128 in bf16, whose last bit counts one

/// (bits & mask) | more, which the compiler makes two instructions of where both are constants.
__device__ __forceinline__ std::uint32_t masked_or(std::uint32_t bits, std::uint32_t mask,
                                                   std::uint32_t more) {
  std::uint32_t both;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(both) : "r"(bits), "r"(mask), "r"(more));
  return both;
}

/// Numbers of up to 7 bits, where `mask` has ones, from bits 0 and 16 on, with 128 added.
__device__ __forceinline__ Pair few_bits(std::uint32_t bits, std::uint32_t mask) {
  return as_pair(masked_or(bits, mask, kTwice128));
}
template <int kZero>
__device__ __forceinline__ Pair less_zero(Pair numbers_and_128) {
  return __hsub2(numbers_and_128, as_pair(kTwice128 + kZero * 0x00010001U));
}
/// Signed bytes at bits 0 and 16; other bits are not looked at. A sign makes the subtrahend 256.
__device__ __forceinline__ Pair signed_bytes(std::uint32_t bytes) {
  return __hsub2(few_bits(bytes, 0x007f007f), few_bits(bytes, 0x00800080));
}

}  // namespace reprise::gpu::cuda::quants
