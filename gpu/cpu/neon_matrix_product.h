// The fast product of quantised formats (int8_product.h) with SMMLA, for several rows of x: weights are unpacked once,
// a panel of outputs at a time, and multiplied by all rows. Included by the kernel sources for processors with
// FEAT_I8MM, with internal linkage.
//
// SMMLA multiplies two rows of x by two rows of w over eight k and adds to a 2x2 tile of int32 sums:
//   {x0 w0, x0 w1, x1 w0, x1 w1}
// neon_panels.h says how rows and outputs are paired for it, and when; neon_matrix_blocks.h how they lie then, and
// neon_matrix_tile.h in which order they are multiplied.

#pragma once

#include "gpu/cpu/neon_matrix_tile.h"
#include "gpu/cpu/neon_panels.h"

namespace reprise::gpu {
namespace {

/// What neon_panels.h asks for.
template <class Quant>
class MatrixKernel {
 public:
  static constexpr std::size_t kRowPairs = gpu::kRowPairs;
  static constexpr std::size_t kOutputPairs = gpu::kOutputPairs;
  static constexpr std::size_t kElements = PanelShape<Quant>::kElements;
  static constexpr std::size_t kDepth = 2048;
  using Rows = RowsBlock<Quant>;
  using Outputs = OutputsBlock<Quant>;

  MatrixKernel(RowList listed, const WeightView& w) : x_(listed, w.columns), w_(w) {}

  void interleave(std::size_t row, std::size_t other, std::size_t first, std::size_t blocks, Rows* to,
                  std::size_t pair) const {
    interleave_rows<Quant>(x_, row, other, first, blocks, to, pair);
  }
  void unpack(std::size_t n, std::size_t other, std::size_t first, std::size_t blocks, Outputs* to,
              std::size_t pair) const {
    const auto* a = reinterpret_cast<const typename Quant::Block*>(w_.row(n)) + first;
    const auto* b = reinterpret_cast<const typename Quant::Block*>(w_.row(other)) + first;
    const std::size_t row_blocks = w_.columns / kElements;
    for (std::size_t block = 0; block < blocks; ++block) {
      ask_ahead<2 * sizeof(*a), kIsLarge<Quant>>(a + 8 * row_blocks + first + 2 * block);
      unpack_pair<Quant>(a[block], b[block], to[block], pair);
    }
  }
  template <std::size_t kPairs>
  static void multiply(const Rows* x, const Outputs* w, std::size_t blocks, TileOutputs to) {
    MatrixTile<Quant, kPairs>::run(x, w, blocks, to);
  }

 private:
  const ActivationsOf<Quant> x_;
  const WeightView& w_;
};

template <class Quant>
void matrix_multiply(RowList listed, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                     std::size_t n_begin, std::size_t n_end) {
  const MatrixKernel<Quant> kernel(listed, w);
  PanelProduct<MatrixKernel<Quant>>(kernel, m, w.columns, y, y_stride).multiply(n_begin, n_end);
}

}  // namespace
}  // namespace reprise::gpu
