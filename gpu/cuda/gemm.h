#pragma once
// Products of activations with weights, y = x W^T, in two forms that differ in their bits: one for prefill,
// one for decode. gpu/kernels.h (matmul) is the specification; products are of bf16, sums f32.
//
// Exactness: in each form a row of y depends on its row of x and on W alone, not on how many rows there are.
// Decode has one kernel for every number of rows, whose sum over k has a fixed order. Prefill uses cuBLASLt
// with split-K forbidden; that its rows do not depend on their number is a measured fact and no promise, so
// admit() tries it for each weight, and one that fails goes through the decode form.
//
// Threading: a PrefillGemm is used by one thread. decode_gemm has no state.

#include <cstddef>
#include <memory>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

/// bf16 [rows, columns], one row an output; columns a multiple of 8.
struct DeviceMatrix {
  const Bf16* data = nullptr;
  int rows = 0;
  int columns = 0;
};

enum class GemmOutput {
  kBf16,    // y bf16 [m, rows]
  kF32,     // y f32 [m, rows]
  kAddF32,  // the same, added to what y holds
};

/// x bf16 [m, columns] -> y.
void decode_gemm(const Bf16* x, int m, const DeviceMatrix& weight, void* y, GemmOutput output,
                 StreamHandle stream);

class PrefillGemm {
 public:
  PrefillGemm();
  ~PrefillGemm();
  PrefillGemm(const PrefillGemm&) = delete;
  PrefillGemm& operator=(const PrefillGemm&) = delete;

  /// Rows that buffers of x and y must have for m rows: the rest holds anything and is overwritten.
  static int padded(int m) { return (m + kGrid - 1) / kGrid * kGrid; }

  /// x bf16 [padded(m), columns] -> y. kAddF32 adds to all padded rows.
  void multiply(const Bf16* x, int m, const DeviceMatrix& weight, void* y, GemmOutput output,
                StreamHandle stream);

  /// Whether the first rows of a product have the same bits for every number of rows up to `most`; remembers
  /// it for weights of this shape. To be called once for each shape before multiply(); waits for the GPU.
  bool admit(const DeviceMatrix& weight, GemmOutput output, int most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise::gpu::cuda
