#pragma once
// Wrappers for mma, ldmatrix and cp.async.
//
// MMAs are m16n8k16, bf16 with f32 accumulators. Lane 4 * g + t holds
//   of A [16, 16]: a0 (g, 2t..), a1 (g + 8, 2t..), a2 (g, 2t + 8..), a3 (g + 8, 2t + 8..): two elements each
//   of B [16, 8]:  b0 (2t.., g), b1 (2t + 8.., g): two elements each
//   of C [16, 8]:  c0, c1 (g, 2t..), c2, c3 (g + 8, 2t..)

#include <cuda_bf16.h>

#include <cstdint>

#include "gpu/cuda/rows/batch.h"

namespace reprise::gpu::cuda {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

/// Starts a 16-byte copy to shared memory; bytes from `bytes` on, or all if not `present`, become zero.
__device__ __forceinline__ void copy_some(std::uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_chunk(std::uint32_t to, const void* from, bool present) {
  copy_some(to, from, present ? 16 : 0);
}
__device__ __forceinline__ void copy_chunk(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void end_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most kPending of this thread's copy groups are incomplete.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Loads four [8, 8] bf16 matrices; lanes 8 i ... 8 i + 7 give the row addresses of matrix i. A lane gets
/// elements (g, 2t) and (g, 2t + 1).
__device__ __forceinline__ void load_matrices(std::uint32_t (&m)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
/// As load_matrices(), transposed: elements (2t, g) and (2t + 1, g).
__device__ __forceinline__ void load_transposed(std::uint32_t (&m)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
/// As load_matrices(), two matrices; addresses of lanes 16 to 31 are ignored.
__device__ __forceinline__ void load_two_matrices(std::uint32_t (&m)[2], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(m[0]), "=r"(m[1])
               : "r"(address)
               : "memory");
}

/// c += a b
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// a b
__device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0F));
}

/// Rounds two f32 to nearest even; `first` in the low half.
__device__ __forceinline__ std::uint32_t narrow(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}
__device__ __forceinline__ Bf16 narrow(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ __forceinline__ float widen(Bf16 x) {
  return __uint_as_float(static_cast<std::uint32_t>(x) << 16);
}
__device__ __forceinline__ float2 widen_pair(std::uint32_t both) {
  return {__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000U)};
}

}  // namespace reprise::gpu::cuda
