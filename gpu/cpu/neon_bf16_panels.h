// The bf16 product of neon_bf16_product.h for many rows of x: the same instruction in the same order, so the same bits,
// from operands that are paired beforehand (neon_panels.h). Included by the kernel source for processors with
// FEAT_BF16, with internal linkage.

#pragma once

#include "gpu/cpu/neon_bf16_product.h"
#include "gpu/cpu/neon_panels.h"

namespace reprise::gpu {
namespace {

/// What neon_panels.h asks for.
class Bf16Kernel {
 public:
  static constexpr std::size_t kRowPairs = 4;
  static constexpr std::size_t kOutputPairs = 4;
  static constexpr std::size_t kElements = 8;
  static constexpr std::size_t kDepth = 1024;
  struct alignas(16) Rows {
    std::uint16_t parts[4][kRowPairs]
                       [8];  // four k of the high parts of two rows, the next four, then the low parts
  };
  struct alignas(16) Outputs {
    std::uint16_t parts[2][kOutputPairs][8];  // four k of two outputs, the next four
  };

  Bf16Kernel(const void* activations, const WeightView& w)
      : x_(activations, w.columns), w_(static_cast<const std::uint16_t*>(w.data)), columns_(w.columns) {}

  void interleave(std::size_t row, std::size_t other, std::size_t first, std::size_t blocks, Rows* to,
                  std::size_t pair) const {
    const std::uint16_t* a = x_.row(row) + 16 * first;
    const std::uint16_t* b = x_.row(other) + 16 * first;
    for (std::size_t block = 0; block < blocks; ++block, a += 16, b += 16, ++to) {
      store(pair_rows(vld1q_u16(a), vld1q_u16(b)), to->parts[0][pair], to->parts[1][pair]);
      store(pair_rows(vld1q_u16(a + 8), vld1q_u16(b + 8)), to->parts[2][pair], to->parts[3][pair]);
    }
  }
  void unpack(std::size_t n, std::size_t other, std::size_t first, std::size_t blocks, Outputs* to,
              std::size_t pair) const {
    for (std::size_t block = first; block < first + blocks; ++block, ++to) {
      const std::uint16_t* a = w_ + n * columns_ + 8 * block;
      const std::uint16_t* b = w_ + other * columns_ + 8 * block;
      const std::size_t left = columns_ - 8 * block;
      const auto load = [&](const std::uint16_t* p) { return left >= 8 ? vld1q_u16(p) : load_some(p, left); };
      store(pair_rows(load(a), load(b)), to->parts[0][pair], to->parts[1][pair]);
    }
  }
  template <std::size_t kPairs>
  [[gnu::noinline]] static void multiply(const Rows* x, const Outputs* w, std::size_t blocks,
                                         TileOutputs to) {
    float32x4_t sums[kPairs][kOutputPairs];
    const auto for_each = [](auto work) __attribute__((always_inline)) {
      for_each_index<kOutputPairs>([&](auto j) __attribute__((always_inline)) {
        for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) { work(i, j); });
      });
    };
    for_each([&](auto i, auto j) __attribute__((always_inline)) { sums[i][j] = to.load(i, j); });
    for (std::size_t b = 0; b < blocks; ++b, ++x, ++w) {
      for_each_index<4>([&](auto part) __attribute__((always_inline)) {
        bfloat16x8_t left[kPairs];
        for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) {
          left[i] = load_four(x->parts[part][i]);
        });
        for_each_index<kOutputPairs>([&](auto j) __attribute__((always_inline)) {
          const bfloat16x8_t right = load_four(w->parts[part % 2][j]);
          for_each_index<kPairs>([&](auto i) __attribute__((always_inline)) {
            in_order(
                [&]() __attribute__((always_inline)) { return vbfmmlaq_f32(sums[i][j], left[i], right); },
                sums[i][j]);
          });
        });
      });
    }
    for_each([&](auto i, auto j) __attribute__((always_inline)) { to.store(i, j, sums[i][j]); });
  }

 private:
  static void store(const RowPair& pair, std::uint16_t* first, std::uint16_t* second) {
    vst1q_u16(first, vreinterpretq_u16_bf16(pair.first));
    vst1q_u16(second, vreinterpretq_u16_bf16(pair.second));
  }
  [[gnu::always_inline]] static bfloat16x8_t load_four(const std::uint16_t* from) {
    return vreinterpretq_bf16_u16(vld1q_u16(from));
  }

  const Activations x_;
  const std::uint16_t* w_;
  const std::size_t columns_;
};

/// Up to so many rows the weight is better multiplied as it comes. The bits are the same.
inline constexpr std::size_t kFewBf16Rows = 8;

void multiply_bf16(const void* activations, std::size_t m, const WeightView& w, float* y,
                   std::size_t y_stride, std::size_t n_begin, std::size_t n_end) {
  if (m <= kFewBf16Rows) return multiply_bf16_rows(activations, m, w, y, y_stride, n_begin, n_end);
  const Bf16Kernel kernel(activations, w);
  PanelProduct<Bf16Kernel>(kernel, m, w.columns, y, y_stride).multiply(n_begin, n_end);
}

}  // namespace
}  // namespace reprise::gpu
