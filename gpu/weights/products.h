#pragma once
// How the CPU multiplies by a weight of one format: one row of an instruction set's table (gpu/kernels.h).
//
// Exactness: an output row depends only on its row of x and on the weight; outputs may be split into any
// ranges. `exact` is bitwise identical in every table, and so is `fast` of a quantized format
// (gpu/cpu/formats/int8_product.h); `fast` of a float format is reproducible within one table only.
//
// Threading: thread-safe on disjoint outputs.

#include <cstddef>

#include "gpu/compute.h"
#include "gpu/weights/weight.h"

namespace reprise::gpu {

/// The layout in which a product reads activations. Products with the same object can share prepared
/// activations.
struct ActivationForm {
  /// Size and stride of a prepared row, a multiple of 4. Null: the product reads f32 x as it is.
  std::size_t (*row_bytes)(std::size_t columns);
  /// Prepares x [rows, columns] into `to`. Callers may prepare rows in several calls and regroup them
  /// (experts do), so a prepared row must not need an alignment above 4 bytes.
  void (*prepare)(const float* x, std::size_t rows, std::size_t columns, std::byte* to);
  /// Elements of x that share a scale, if x is quantized to int8; 0: it is not.
  std::size_t int8_block = 0;
};

inline constexpr ActivationForm kAsF32{.row_bytes = nullptr, .prepare = nullptr};

/// How to copy a weight into the order in which a product reads it: consecutive panels of `outputs` weight
/// rows.
struct Packing {
  std::size_t outputs;
  std::size_t (*panel_bytes)(std::size_t columns);
  /// Packs the rows from panel * outputs. `pack` chooses the contents of rows past the end.
  void (*pack)(const WeightView& w, std::size_t panel, std::byte* to);

  std::size_t panels(std::size_t rows) const { return (rows + outputs - 1) / outputs; }
  std::size_t bytes(std::size_t rows, std::size_t columns) const {
    return panels(rows) * panel_bytes(columns);
  }
};

struct Product {
  const ActivationForm* activations;
  /// y[i, n] = sum_k x[i, k] w[n, k] for i in [0, m), n in [n_begin, n_end); y_stride in floats. `x` is in
  /// the form `activations`; `w.packed` is set if there is a packing.
  void (*multiply)(const void* x, std::size_t m, const WeightView& w, float* y, std::size_t y_stride,
                   std::size_t n_begin, std::size_t n_end);
  std::size_t outputs_at_once = 8;   // tile or panel width: ranges should begin at multiples of it
  const Packing* packing = nullptr;  // null: reads the weight as it is stored
  std::size_t few_rows = 8;          // rows up to which a call takes the time to read its weights
};

struct FormatKernels {
  const WeightFormat* format;
  /// Converts a row of the weight to f32 in y[columns].
  void (*widen_row)(const WeightView& w, std::size_t row, float* y);
  Product exact;  // the reference: widened weights, f32 arithmetic in the order of additions of gpu/kernels.h
  Product fast;   // fastest of this instruction set; may be `exact`

  const Product& product(Compute compute) const { return is_precise(compute) ? exact : fast; }
  bool has_fast() const { return fast.multiply != exact.multiply; }
};

}  // namespace reprise::gpu
