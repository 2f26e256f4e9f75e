#pragma once
// K or V row of one head and token (gpu/state/kv_rows.h) in kernels. Stored bits equal the CPU's. Rows of a
// page are kBytes apart.

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/rows/batch.h"
#include "gpu/state/kv_rows.h"

namespace reprise::gpu::cuda {

/// Quantized types.
template <KvType kKv, int kDim>
struct KvRow {
  static_assert(is_quantized(kKv));
  static constexpr int kBytes = static_cast<int>(kv_row_bytes(kKv, kDim));
  static constexpr int kBlocks = static_cast<int>(kv_blocks(kDim));
  static constexpr int kScales = kBlocks * static_cast<int>(sizeof(Bf16));  // bytes before the quants
  /// Max bytes of a load or store; divides all offsets of quants.
  static constexpr int kUnit = kScales < 8 ? kScales : 8;
  static_assert(kBytes % kUnit == 0 && kScales % kUnit == 0);

  /// Eight stored elements; for int4 the bytes also hold eight others.
  struct Eight {
    std::uint32_t numbers[2];
    Bf16 scale;
  };

  /// Reads elements 8 * chunk ... 8 * chunk + 7.
  static __device__ __forceinline__ Eight fetch(const std::byte* row, int chunk) {
    const std::byte* from =
        row + kScales + (kKv == KvType::kInt8 ? chunk * 8 : chunk / 4 * 16 + chunk % 2 * 8);
    Eight out;
    if constexpr (kUnit == 8) {
      const uint2 both = *reinterpret_cast<const uint2*>(from);
      out.numbers[0] = both.x;
      out.numbers[1] = both.y;
    } else if constexpr (kUnit == 4) {
      out.numbers[0] = reinterpret_cast<const std::uint32_t*>(from)[0];
      out.numbers[1] = reinterpret_cast<const std::uint32_t*>(from)[1];
    } else {
      const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
      out.numbers[0] = halves[0] | static_cast<std::uint32_t>(halves[1]) << 16;
      out.numbers[1] = halves[2] | static_cast<std::uint32_t>(halves[3]) << 16;
    }
    out.scale = reinterpret_cast<const Bf16*>(row)[chunk / 4];
    return out;
  }

  static __device__ __forceinline__ void widened(const Eight& eight, int chunk, float (&x)[8]) {
    const float scale = widen(eight.scale);
    const int shift = kKv == KvType::kInt4 ? chunk % 4 / 2 * 4 : 0;  // selects the low or high nibbles
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t bits = eight.numbers[i / 4] >> (i % 4 * 8 + shift);
      const int number =
          kKv == KvType::kInt8 ? static_cast<std::int8_t>(bits) : static_cast<int>(bits & 15U) - 8;
      x[i] = static_cast<float>(number) * scale;
    }
  }
  /// widened(), rounded to bf16.
  static __device__ __forceinline__ uint4 narrowed(const Eight& eight, int chunk) {
    float x[8];
    widened(eight, chunk, x);
    return make_uint4(narrow(x[0], x[1]), narrow(x[2], x[3]), narrow(x[4], x[5]), narrow(x[6], x[7]));
  }

  /// Called by all lanes of a warp: a lane has elements 8 * lane ... 8 * lane + 7, or zeros past the end of
  /// the row.
  static __device__ __forceinline__ void store(std::byte* row, int lane, const float (&x)[8]) {
    const Farthest far = farthest(lane, x);
    std::uint16_t scale = kNotANumber;
    if (far.all_finite) scale = scale_for(far.element);
    const float divisor = widen(scale);
    std::uint32_t numbers[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      int number = 1;
      if (far.all_finite) number = divisor == 0.0F ? 0 : bounded(static_cast<int>(rintf(x[i] / divisor)));
      const auto bits = static_cast<std::uint32_t>(kKv == KvType::kInt8 ? number : number + 8) & 0xffU;
      numbers[i / 4] |= bits << (i % 4 * 8);
    }
    const int block = lane / 4;
    if constexpr (kKv == KvType::kInt4) {
#pragma unroll
      for (std::uint32_t& four : numbers) four |= __shfl_xor_sync(0xffffffffU, four, 2) << 4;
    }
    if (block >= kBlocks) return;
    if (lane % 4 == 0) reinterpret_cast<Bf16*>(row)[block] = scale;
    if (kKv == KvType::kInt8) {
      put_eight_bytes(row + kScales + lane * 8, numbers);
    } else if (lane % 4 < 2) {
      put_eight_bytes(row + kScales + block * 16 + lane % 4 * 8, numbers);
    }
  }

 private:
  static constexpr std::uint16_t kNotANumber = 0x7fc0;

  struct Farthest {
    float element;  // of largest magnitude in a block, with its sign; the first of several
    bool all_finite;
  };
  static __device__ __forceinline__ Farthest farthest(int lane, const float (&x)[8]) {
    float far = 0.0F;
    int finite = 1;
#pragma unroll
    for (const float value : x) {
      if ((__float_as_uint(value) & 0x7f800000U) == 0x7f800000U) finite = 0;
      if (fabsf(value) > fabsf(far)) far = value;
    }
#pragma unroll
    for (int step = 1; step <= 2; step *= 2) {
      const float other = __shfl_xor_sync(0xffffffffU, far, step);
      finite &= __shfl_xor_sync(0xffffffffU, finite, step);
      const bool is_before = (lane & step) != 0;
      if (fabsf(other) > fabsf(far) || (is_before && fabsf(other) == fabsf(far))) far = other;
    }
    return {far, finite != 0};
  }
  /// int8: rounded up, so that no quant exceeds 127. int4: rounded to nearest.
  static __device__ __forceinline__ std::uint16_t scale_for(float far) {
    if constexpr (kKv == KvType::kInt8) {
      return static_cast<std::uint16_t>((__float_as_uint(fabsf(far) / 127.0F) + 0xffffU) >> 16);
    } else {
      const std::uint32_t bits = __float_as_uint(far / -8.0F);
      return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
    }
  }
  static __device__ __forceinline__ int bounded(int number) {
    return kKv == KvType::kInt8 ? max(-127, min(127, number)) : max(-8, min(7, number));
  }
  static __device__ __forceinline__ void put_eight_bytes(std::byte* to, const std::uint32_t (&bytes)[2]) {
    if constexpr (kUnit == 8) {
      *reinterpret_cast<uint2*>(to) = make_uint2(bytes[0], bytes[1]);
    } else if constexpr (kUnit == 4) {
      reinterpret_cast<std::uint32_t*>(to)[0] = bytes[0];
      reinterpret_cast<std::uint32_t*>(to)[1] = bytes[1];
    } else {
      auto* halves = reinterpret_cast<std::uint16_t*>(to);
#pragma unroll
      for (int i = 0; i < 4; ++i) halves[i] = static_cast<std::uint16_t>(bytes[i / 2] >> (i % 2 * 16));
    }
  }
};

__device__ __forceinline__ void put_fours(const float4& first, const float4& second, float (&x)[8]) {
  x[0] = first.x;
  x[1] = first.y;
  x[2] = first.z;
  x[3] = first.w;
  x[4] = second.x;
  x[5] = second.y;
  x[6] = second.z;
  x[7] = second.w;
}

template <int kDim>
struct KvRow<KvType::kF32, kDim> {
  static constexpr int kBytes = kDim * static_cast<int>(sizeof(float));

  struct Eight {
    float4 first;
    float4 second;
  };
  static __device__ __forceinline__ Eight fetch(const std::byte* row, int chunk) {
    const auto* fours = reinterpret_cast<const float4*>(row) + 2 * chunk;
    return {fours[0], fours[1]};
  }
  static __device__ __forceinline__ void widened(const Eight& eight, int, float (&x)[8]) {
    put_fours(eight.first, eight.second, x);
  }
  static __device__ __forceinline__ void store(std::byte* row, int lane, const float (&x)[8]) {
    if (lane < kDim / 8) put(row, lane, x);
  }
  /// Writes elements 8 * chunk ... 8 * chunk + 7; for one lane.
  static __device__ __forceinline__ void put(std::byte* row, int chunk, const float (&x)[8]) {
    auto* fours = reinterpret_cast<float4*>(row) + 2 * chunk;
    fours[0] = make_float4(x[0], x[1], x[2], x[3]);
    fours[1] = make_float4(x[4], x[5], x[6], x[7]);
  }
};

template <int kDim>
struct KvRow<KvType::kBF16, kDim> {
  static constexpr int kBytes = kDim * static_cast<int>(sizeof(Bf16));

  struct Eight {
    uint4 elements;
  };
  static __device__ __forceinline__ Eight fetch(const std::byte* row, int chunk) {
    return {reinterpret_cast<const uint4*>(row)[chunk]};
  }
  static __device__ __forceinline__ void widened(const Eight& eight, int, float (&x)[8]) {
    const std::uint32_t pairs[4] = {eight.elements.x, eight.elements.y, eight.elements.z, eight.elements.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 both = widen_pair(pairs[i]);
      x[2 * i] = both.x;
      x[2 * i + 1] = both.y;
    }
  }
  static __device__ __forceinline__ uint4 narrowed(const Eight& eight, int) {
    return eight.elements;
  }
  static __device__ __forceinline__ void store(std::byte* row, int lane, const float (&x)[8]) {
    if (lane >= kDim / 8) return;
    reinterpret_cast<uint4*>(row)[lane] =
        make_uint4(narrow(x[0], x[1]), narrow(x[2], x[3]), narrow(x[4], x[5]), narrow(x[6], x[7]));
  }
};

}  // namespace reprise::gpu::cuda
