#pragma once
// How the CPU computes with a weight of one format: a row of an instruction set's table (gpu/kernels.h).
//
// Exactness: as gpu/kernels.h says. What a product makes of a row of x depends on that row and the weight alone:
// the rows are prepared one by one, and outputs may be cut into any ranges. `exact` has the same bits in every
// table; `fast` of a quantised format as well (gpu/cpu/int8_product.h), that of others within one.
//
// Threading: any thread, on disjoint outputs.

#include <cstddef>

#include "gpu/compute.h"
#include "gpu/weight.h"

namespace reprise::gpu {

/// What a product wants of the activations. Two products with the same form (the same object) may share what was
/// prepared.
struct ActivationForm {
  /// Of one prepared row, a multiple of 4: rows stand so far apart. Null: the form is x itself, as f32.
  std::size_t (*row_bytes)(std::size_t columns);
  /// x [rows, columns] -> to. Rows may be prepared in several calls and put together in another order (experts do
  /// so): nothing may count on more than 4 bytes of a row's alignment.
  void (*prepare)(const float* x, std::size_t rows, std::size_t columns, std::byte* to);
  /// Elements of x that share a scale where each is rounded to eight bits; 0: none is.
  std::size_t int8_block = 0;
};

inline constexpr ActivationForm kAsF32{.row_bytes = nullptr, .prepare = nullptr};

/// A copy of a weight in the order that a product reads it: panels of `outputs` rows of the weight, one panel
/// after another.
struct Packing {
  std::size_t outputs;
  std::size_t (*panel_bytes)(std::size_t columns);
  /// Panel p has the rows from p * outputs; those that do not exist are left to the packing.
  void (*pack)(const WeightView& w, std::size_t panel, std::byte* to);

  std::size_t panels(std::size_t rows) const { return (rows + outputs - 1) / outputs; }
  std::size_t bytes(std::size_t rows, std::size_t columns) const {
    return panels(rows) * panel_bytes(columns);
  }
};

struct Product {
  const ActivationForm* activations;
  /// y[m, n] = sum_k x[m, k] w[n, k] for n in [n_begin, n_end); y has rows of `y_stride`. x as `activations`
  /// prepared it; w with its packed copy where there is a packing.
  void (*multiply)(const void* x, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                   std::size_t n_begin, std::size_t n_end);
  std::size_t outputs_at_once = 8;   // ranges should begin at multiples of it: whole tiles, whole panels
  const Packing* packing = nullptr;  // null: the weight is read as it is stored
};

struct FormatKernels {
  const WeightFormat* format;
  /// A row of the weight, widened. y[columns].
  void (*widen_row)(const WeightView& w, std::size_t row, float* y);
  Product exact;  // the reference: weights widened, f32 arithmetic in the order of gpu/kernels.h
  Product fast;   // the fastest that the instruction set has; the exact one where that is it

  const Product& product(Compute compute) const { return is_precise(compute) ? exact : fast; }
  /// Whether the fast product is another than the exact one.
  bool has_fast() const { return fast.multiply != exact.multiply; }
};

}  // namespace reprise::gpu
