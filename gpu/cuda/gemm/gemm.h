#pragma once
// GEMMs of activations with weights, y = x W^T, bf16 activations and f32 accumulators, in a prefill form and
// a decode form whose bits differ. gpu/weights/products.h is the specification. A weight may consist of parts
// in different formats; their outputs are concatenated.
//
// Bits: in each form a row of y depends only on its row of x and on W, not on m. All decode kernels of a
// format sum over k in one order. A prefill uses the kernels of prefill_products.h where they are faster,
// else cuBLASLt without split-K, on weights expanded to row-major bf16. cuBLASLt does not promise
// independence of m, so admit() measures it for each weight; a weight that fails uses the decode form.
//
// Threading: a PrefillGemm is used by one thread.

#include <memory>
#include <span>
#include <string>

#include "gpu/cuda/gemm/formats.h"
#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"
#include "gpu/cuda/rows/rows.h"

namespace reprise::gpu::cuda {

/// y = x W^T for x bf16 [m, columns].
void decode_gemm(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream);
void decode_gemm(const Bf16* x, int m, std::span<const DeviceWeight> parts, void* y, GemmOutput output,
                 StreamHandle stream);
void decode_bf16(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream);

// GEMMs fused with the norm before them and the gate after them. Bitwise identical to norm_for_decode(),
// decode_gemm() and gate_rows() in sequence.

/// f32 rows before an RMSNorm, which the GEMM applies.
struct NormedRows {
  const float* x;  // [m, columns]
  RowNorm norm;
  float factor;
  Bf16* kept = nullptr;  // [m, columns]: receives the normalized rows; null: not needed
};
/// Every block recomputes the norms, so a fused norm pays only for few rows.
inline constexpr int kMaxNormedRows = 8;

/// GEMM input with a deferred RMSNorm: `x` is the residual times the norm's weights and factor; the consumer
/// multiplies row i of its accumulators by 1 / sqrt(mean(squares of row i) + eps) before its epilogue.
struct DeferredNormRows {
  Bf16* x = nullptr;  // [m, columns]
  // [m, columns / 8]: sums of squares of 8 residual elements; columns are a multiple of 32
  float* squares = nullptr;
  float eps = 0;
};
/// Deferred-norm input of the next GEMM, written by a GEMM that adds to the residual.
struct DeferredNormOutput {
  DeferredNormRows to;
  RowNorm norm;  // RMSNorm
  float factor;
};

/// Gated epilogue: gate_rows() of the GEMM's outputs, bf16 [m, outputs / 2].
struct GatedRows {
  Bf16* y;
  GateFunction act;
  float gate_factor;
};

void decode_bf16_normed(const NormedRows& rows, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                        StreamHandle stream);
void decode_bf16_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                       StreamHandle stream);
void decode_bf16_normed_gated(const NormedRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                              StreamHandle stream);

// RMSNorm without a kernel of its own: the GEMM that adds to the residual writes DeferredNormRows, the GEMM
// that reads them scales its accumulators. The bits differ from the separate norm's and do not depend on m.

/// y f32 [m, weight.rows] += x W^T, and `next` from the sum. Requires: weight.rows is a multiple of 8.
void decode_bf16_to_residual(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                             const DeferredNormOutput& next, StreamHandle stream);
/// `output` is kBf16 or kF32.
void decode_bf16_unscaled(const DeferredNormRows& rows, int m, const DeviceWeight& weight, void* y,
                          GemmOutput output, StreamHandle stream);
void decode_bf16_unscaled_gated(const DeferredNormRows& rows, int m, const DeviceWeight& weight,
                                const GatedRows& to, StreamHandle stream);

class PrefillGemm {
 public:
  PrefillGemm();
  ~PrefillGemm();
  PrefillGemm(const PrefillGemm&) = delete;
  PrefillGemm& operator=(const PrefillGemm&) = delete;

  /// Returns the rows that buffers of x and y must have for m rows. Padding rows of x may hold anything;
  /// those of y are overwritten.
  static int padded(int m) { return (m + kGrid - 1) / kGrid * kGrid; }

  /// y = x W^T for x bf16 [padded(m), columns]; kAddF32 adds to padding rows too. All calls must use one
  /// stream.
  void multiply(const Bf16* x, int m, std::span<const DeviceWeight> parts, void* y, GemmOutput output,
                StreamHandle stream);
  void multiply(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                StreamHandle stream) {
    multiply(x, m, std::span(&weight, 1), y, output, stream);
  }

  /// Returns whether multiply_gated() is available for these weights and m rows, bitwise as multiply() and
  /// gate_rows(). False for weights that were not admitted.
  bool gates(std::span<const DeviceWeight> parts, int m) const;
  /// Writes all padded rows. Requires: gates(parts, m).
  void multiply_gated(const Bf16* x, int m, std::span<const DeviceWeight> parts, const GatedRows& to,
                      StreamHandle stream);

  /// Measures whether the first rows of a GEMM are bitwise identical for every m up to `most`; call it once
  /// per shape before multiply(). Blocks until the GPU is done.
  bool admit(std::span<const DeviceWeight> parts, GemmOutput output, int max_rows);
  bool admit(const DeviceWeight& weight, GemmOutput output, int max_rows) {
    return admit(std::span(&weight, 1), output, max_rows);
  }

  /// Returns the GPU memory it holds, in bytes.
  std::size_t bytes() const;

  /// Returns what determines the bits of admitted weights: cuBLASLt's version and algorithms.
  std::string arithmetic() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise::gpu::cuda
