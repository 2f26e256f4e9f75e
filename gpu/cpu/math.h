// Exponentials on vectors, bitwise identical on every instruction set and in every lane.

#pragma once

#include "gpu/cpu/lanes.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

/// e^x within 2 ulp. Below -87 the result is that of -87 (about 1e-38), above 88 that of 88.
/// Vector: Lanes or WideLanes.
template <class Vector>
inline Vector exp(Vector x) {
  x = min(max(x, Vector::set(-87.0F)), Vector::set(88.0F));
  const Vector shift = Vector::set(12582912.0F);  // 1.5 * 2^23: leaves the rounded integer in the low bits
  const Vector shifted = fma(x, Vector::set(1.44269504F), shift);
  const Vector n = shifted - shift;
  // x - n ln 2, with ln 2 in two parts
  Vector r = fma(n, Vector::set(-0.693145752F), x);
  r = fma(n, Vector::set(-1.42860677e-6F), r);
  Vector p = Vector::set(1.98412698e-4F);
  p = fma(p, r, Vector::set(1.38888889e-3F));
  p = fma(p, r, Vector::set(8.33333333e-3F));
  p = fma(p, r, Vector::set(4.16666667e-2F));
  p = fma(p, r, Vector::set(1.66666667e-1F));
  p = fma(p, r, Vector::set(0.5F));
  p = fma(p, r, Vector::set(1.0F));
  p = fma(p, r, Vector::set(1.0F));
  return scale_by_power(p, shifted);
}

template <class Vector>
inline Vector sigmoid(Vector x) {
  const Vector one = Vector::set(1.0F);
  return one / (one + exp<Vector>(Vector::set(0.0F) - x));
}
template <class Vector>
inline Vector silu(Vector x) {
  return x * sigmoid(x);
}

/// Within 3 ulp. (e^2x - 1) / (e^2x + 1), with e^2x - 1 = 2^n (e^r - 1) + (2^n - 1): nothing cancels near 0.
inline Lanes tanh(Lanes x) {
  x = min(max(x, Lanes::set(-10.0F)), Lanes::set(10.0F));  // tanh rounds to 1 from 9.02 on
  const Lanes twice = x + x;
  const Lanes shift = Lanes::set(12582912.0F);
  const Lanes shifted = fma(twice, Lanes::set(1.44269504F), shift);
  const Lanes n = shifted - shift;
  Lanes r = fma(n, Lanes::set(-0.693145752F), twice);
  r = fma(n, Lanes::set(-1.42860677e-6F), r);
  Lanes p = Lanes::set(1.98412698e-4F);
  p = fma(p, r, Lanes::set(1.38888889e-3F));
  p = fma(p, r, Lanes::set(8.33333333e-3F));
  p = fma(p, r, Lanes::set(4.16666667e-2F));
  p = fma(p, r, Lanes::set(1.66666667e-1F));
  p = fma(p, r, Lanes::set(0.5F));
  const Lanes less_one = fma(p * r, r, r);  // e^r - 1
  const Lanes power = scale_by_power(Lanes::set(1.0F), shifted);
  const Lanes difference = fma(power, less_one, power - Lanes::set(1.0F));
  return difference / (difference + Lanes::set(2.0F));
}

/// The tanh approximation: x/2 (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3).
inline Lanes gelu(Lanes x) {
  const Lanes cubed = fma(x * x, Lanes::set(0.0713548163F), Lanes::set(1.59576912F));
  return x * sigmoid(x * cubed);
}

/// log(1 + e^x) within 3 ulp: max(x, 0) + log(1 + u), u = e^-|x|, where log(1 + u) is 2 atanh(u / (2 + u)).
inline Lanes softplus(Lanes x) {
  const Lanes magnitude = max(x, Lanes::set(0.0F) - x);
  const Lanes u = exp(Lanes::set(0.0F) - magnitude);
  const Lanes s = u / (u + Lanes::set(2.0F));  // at most 1/3
  const Lanes square = s * s;
  Lanes p = Lanes::set(6.66666667e-2F);  // 1/15 ... 1/3; the remaining terms are less than 2e-9 of the sum
  p = fma(p, square, Lanes::set(7.69230769e-2F));
  p = fma(p, square, Lanes::set(9.09090909e-2F));
  p = fma(p, square, Lanes::set(1.11111111e-1F));
  p = fma(p, square, Lanes::set(1.42857143e-1F));
  p = fma(p, square, Lanes::set(2.0e-1F));
  p = fma(p, square, Lanes::set(3.33333333e-1F));
  p = fma(p, square, Lanes::set(1.0F));
  // (x + |x|) / 2 is max(x, 0), and propagates NaN.
  return fma(Lanes::set(0.5F), x + magnitude, (s + s) * p);
}

/// Scalar exp, with the bits of the vector function.
inline float exp_of(float x) {
  float values[8];
  exp(Lanes::set(x)).store(values);
  return values[0];
}

/// y = function(x, y) elementwise; the tail is padded with zeros. Two vectors at a time, because the
/// functions of this file are long dependency chains.
template <class Function>
inline void map(const float* x, float* y, std::size_t count, Function function) {
  std::size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const Lanes first = function(Lanes::load(x + i), Lanes::load(y + i));
    const Lanes second = function(Lanes::load(x + i + kLanes), Lanes::load(y + i + kLanes));
    first.store(y + i);
    second.store(y + i + kLanes);
  }
  for (; i + kLanes <= count; i += kLanes) function(Lanes::load(x + i), Lanes::load(y + i)).store(y + i);
  if (i < count) {
    store_some(function(load_some(x + i, count - i), load_some(y + i, count - i)), y + i, count - i);
  }
}

}  // namespace
}  // namespace reprise::gpu
