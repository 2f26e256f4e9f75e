// The fast product of quantised formats: whole numbers inside a block, one float expression for each block. This is
// its definition, and the portable version of it; every instruction set's own has the same bits.
// Included by the kernel sources, with internal linkage.
//
// y[m, n] is a sum over blocks in ascending order, begun at zero. A block (quant.h) of the weight and the same
// elements of x, rounded to int8 with one scale (int8_activations.h), give
//   I = sum_g group_scale(g) * sum_{k in g} w.q[k] * x.q[k]          whole numbers, int32
//   S = sum_g group_offset(g) * sum_{k in g} x.q[k]                  whole numbers, int32; where there are offsets
//   t = w.scale * float(I);  t = fma(w.offset, float(S), t);         float() rounds to nearest even
//   y = fma(x.scale, t, y)
// I and S are exact, so the order of their additions is free, and so is how the weight's numbers come to the
// multiplier: from the file's blocks, or unpacked. Nothing of this depends on m, on ranges, or on the path that a
// product takes for some m. (Where a result is NaN, its sign and payload are open.) A row of x that is rounded too
// coarsely by this is two rows (int8_residuals.h).
//
// |I| stays below 2^31, whatever the bytes of a file are: the largest is
//   Q8_0   32 * 128 * 127              < 2^19       Q2_K   256 *   3 * 127 * 15     < 2^21
//   Q4_*   32 *  15 * 127              < 2^16       Q3_K   256 *   4 * 127 * 32     < 2^22
//   Q5_*   32 *  31 * 127              < 2^17       Q4_K   256 *  15 * 127 * 63     < 2^25
//   IQ4_NL 32 * 127 * 127              < 2^19       Q5_K   256 *  31 * 127 * 63     < 2^26
//   MXFP4  32 *  12 * 127              < 2^16       Q6_K   256 *  32 * 127 * 128    < 2^27
//   |S|   256 * 127 * 63               < 2^21       IQ4_XS 256 * 127 * 127 * 32     < 2^27
// and a sum of any part of the products is not larger. (An unsigned weight, q + 128 of Q8_0 or q + 32 of Q6_K, times
// int8 fits as well: 256 * 63 * 127 * 128 < 2^28. Pairs of products of two int8 do not fit int16.)

#pragma once

#include <cmath>

#include "gpu/cpu/int8_activations.h"
#include "gpu/cpu/int8_residuals.h"
#include "gpu/cpu/quant.h"
#include "gpu/kernels.h"

namespace reprise::gpu {
namespace {

/// A block of a weight as whole numbers.
template <class Quant>
struct UnpackedBlock {
  static constexpr std::size_t kElements = Quant::kFormat.block_size;
  static constexpr std::size_t kGroups = kElements / Quant::kGroup;

  std::int8_t q[kElements];
  std::int16_t group_scales[kGroups];
  std::int16_t group_offsets[kGroups];  // zeros where there are none
  float scale;
  float offset;  // 0 where there are none
};

template <class Quant>
inline void unpack(const typename Quant::Block& from, UnpackedBlock<Quant>& to) {
  using Unpacked = UnpackedBlock<Quant>;
  for (std::size_t k = 0; k < Unpacked::kElements; k += 8) Quant::eight(from, k, to.q + k);
  to.scale = Quant::scale(from);
  to.offset = 0;
  if constexpr (Quant::kHasOffsets) to.offset = Quant::offset(from);
  for (std::size_t g = 0; g < Unpacked::kGroups; ++g) {
    to.group_scales[g] = static_cast<std::int16_t>(Quant::group_scale(from, g));
    to.group_offsets[g] = 0;
    if constexpr (Quant::kHasOffsets)
      to.group_offsets[g] = static_cast<std::int16_t>(Quant::group_offset(from, g));
  }
}

/// The form that a Quant's product wants x in: blocks as the weight's.
template <class Quant>
using ActivationsOf = Int8Rows<Quant::kFormat.block_size>;

/// What a block adds, from its whole numbers: the float part of the definition.
template <class Quant>
inline float add_block(float sum, float x_scale, float scale, float offset, std::int32_t products,
                       std::int32_t offsets) {
  float t = scale * static_cast<float>(products);
  if constexpr (Quant::kHasOffsets) t = std::fma(offset, static_cast<float>(offsets), t);
  return std::fma(x_scale, t, sum);
}

template <class Quant>
void int8_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                   std::size_t n_begin, std::size_t n_end) {
  using Unpacked = UnpackedBlock<Quant>;
  using X = ActivationsOf<Quant>;
  constexpr std::size_t kRowsAtOnce = 64;  // whose sums stand on the stack
  const std::size_t blocks = w.columns / Unpacked::kElements;
  const X all(listed, w.columns);
  for (std::size_t n = n_begin; n < n_end; ++n) {
    const auto* row = reinterpret_cast<const typename Quant::Block*>(w.row(n));
    for (std::size_t first = 0; first < m; first += kRowsAtOnce) {
      const std::size_t rows = m - first < kRowsAtOnce ? m - first : kRowsAtOnce;
      const X x = all.from(first);
      float sums[kRowsAtOnce] = {};
      for (std::size_t b = 0; b < blocks; ++b) {
        Unpacked block;
        unpack<Quant>(row[b], block);
        for (std::size_t i = 0; i < rows; ++i) {
          const std::int8_t* q = x.q(i) + b * Unpacked::kElements;
          const std::int16_t* q_sums = x.sums(i) + b * Unpacked::kElements / X::kSumOf;
          std::int32_t products = 0;
          std::int32_t offsets = 0;
          for (std::size_t g = 0; g < Unpacked::kGroups; ++g) {
            std::int32_t dot = 0;
            for (std::size_t k = g * Quant::kGroup; k < (g + 1) * Quant::kGroup; ++k)
              dot += block.q[k] * q[k];
            products += block.group_scales[g] * dot;
            for (std::size_t s = 0; Quant::kHasOffsets && s < Quant::kGroup / X::kSumOf; ++s) {
              offsets += block.group_offsets[g] * q_sums[g * (Quant::kGroup / X::kSumOf) + s];
            }
          }
          sums[i] = add_block<Quant>(sums[i], x.scales(i)[b], block.scale, block.offset, products, offsets);
        }
      }
      for (std::size_t i = 0; i < rows; ++i) y[(first + i) * y_stride + n] = sums[i];
    }
  }
}

/// The portable fast product.
template <class Quant>
constexpr Product int8_product() {
  return product_of_whole_numbers<Quant, int8_multiply<Quant>>();
}

}  // namespace
}  // namespace reprise::gpu
