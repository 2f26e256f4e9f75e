// Single instructions of NEON that stay in the order in which the source has them.
//
// Processors with several pipes for products look a few dozen instructions ahead. Chains of products that
// each wait for the last one keep these pipes busy only if other work stands between their links, which a
// compiler, that schedules for another processor or by the length of a chain, does not leave there.

#pragma once

#include <arm_neon.h>

#include <cstddef>

namespace reprise::gpu {
namespace {

/// Sixteen bytes of anything.
using SixteenBytes [[gnu::may_alias]] = int8x16_t;

template <class Register>
[[gnu::always_inline]] inline void load_here(Register& to, const void* from) {
  static_assert(sizeof(Register) == sizeof(SixteenBytes));
  asm volatile("ldr %q0, %1" : "=w"(to) : "m"(*static_cast<const SixteenBytes*>(from)));
}

/// A register of zeros of its own. Made by this instruction it costs nothing, where a copy of another zero
/// would be one more for the pipes that multiply.
[[gnu::always_inline]] inline void zero_here(int32x4_t& to) {
  asm volatile("movi %0.4s, #0" : "=w"(to));
}

[[gnu::always_inline]] inline void multiply_here(int32x4_t& sum, int8x16_t a, int8x16_t b) {
  asm volatile("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
}

/// sum += the four elements of each of w's outputs, times the four of x's lane.
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

/// sum = product(), where it stands. A compiler that moves products among those of other sums makes the
/// processor wait for its own results: each sum's next product should come as long after the last one as all
/// others do.
template <class Register, class MakeProduct>
[[gnu::always_inline]] inline void in_order(MakeProduct product, Register& sum) {
  sum = product();
  asm volatile("" : "+w"(sum));
}

}  // namespace
}  // namespace reprise::gpu
