// NEON instructions as volatile asm, which the compiler cannot reorder.
//
// Dependent chains of multiplications keep several pipes busy only if independent instructions are
// interleaved with them, because processors look only a few dozen instructions ahead; the compiler's
// scheduling undoes that interleaving.

#pragma once

#include <arm_neon.h>

#include <cstddef>

namespace reprise::gpu {
namespace {

using SixteenBytes [[gnu::may_alias]] = int8x16_t;

template <class Register>
[[gnu::always_inline]] inline void load_here(Register& to, const void* from) {
  static_assert(sizeof(Register) == sizeof(SixteenBytes));
  asm volatile("ldr %q0, %1" : "=w"(to) : "m"(*static_cast<const SixteenBytes*>(from)));
}

/// Zeroes a register. MOVI of zero is free; a copy of another zero register would occupy a pipe that
/// multiplies.
[[gnu::always_inline]] inline void zero_here(int32x4_t& to) {
  asm volatile("movi %0.4s, #0" : "=w"(to));
}

[[gnu::always_inline]] inline void multiply_here(int32x4_t& sum, int8x16_t a, int8x16_t b) {
  asm volatile("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
}

/// sum[j] += dot product of the four bytes of output j in w and the four bytes of lane kLane of x.
template <std::size_t kLane>
[[gnu::always_inline]] inline void dot_here(int32x4_t& sum, int8x16_t w, int8x16_t x) {
  asm volatile("sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sum) : "w"(w), "w"(x), "i"(kLane));
}

[[gnu::always_inline]] inline void to_float_here(int32x4_t from, float32x4_t& to) {
  asm volatile("scvtf %0.4s, %1.4s" : "=w"(to) : "w"(from));
}

/// to *= by.
[[gnu::always_inline]] inline void scale_here(float32x4_t& to, float32x4_t by) {
  asm volatile("fmul %0.4s, %0.4s, %1.4s" : "+w"(to) : "w"(by));
}

/// sum = fma(a, b, sum).
[[gnu::always_inline]] inline void add_product_here(float32x4_t& sum, float32x4_t a, float32x4_t b) {
  asm volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
}
[[gnu::always_inline]] inline void add_product_here(int32x4_t& sum, int32x4_t a, int32x4_t b) {
  asm volatile("mla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
}

/// to = a * b.
[[gnu::always_inline]] inline void product_here(int32x4_t& to, int32x4_t a, int32x4_t b) {
  asm volatile("mul %0.4s, %1.4s, %2.4s" : "=w"(to) : "w"(a), "w"(b));
}

/// sum = product(), not reordered against other in_order() calls, so that the next operation on each sum
/// comes as late as possible after the last one.
template <class Register, class MakeProduct>
[[gnu::always_inline]] inline void in_order(MakeProduct product, Register& sum) {
  sum = product();
  asm volatile("" : "+w"(sum));
}

}  // namespace
}  // namespace reprise::gpu
