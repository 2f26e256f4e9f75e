#pragma once
// Products of activations with weights, y = x W^T, in two forms that differ in their bits: one for prefill,
// one for decode. gpu/products.h is the specification; activations are bf16, sums f32.
//
// Exactness: in each form a row of y depends on its row of x and on W alone, not on how many rows there are.
// Decode has one kernel a format for every number of rows, whose sum over k has a fixed order. Prefill has kernels
// of its own where they are faster (gpu/cuda/prefill_products.h), and else uses
// cuBLASLt with split-K forbidden; that its rows do not depend on their number is a measured fact and no promise,
// so admit() tries it for each weight, and one that fails goes through the decode form. Weights that are no rows of
// bf16 are made such first, in memory that the PrefillGemm keeps for the largest of them.
//
// A weight may consist of parts in different formats, whose outputs stand one after another.
//
// Threading: a PrefillGemm is used by one thread. decode_gemm has no state.

#include <memory>
#include <span>
#include <string>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/formats.h"
#include "gpu/cuda/rows.h"
#include "gpu/cuda/stream.h"

namespace reprise::gpu::cuda {

/// x bf16 [m, columns] -> y.
void decode_gemm(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream);
/// The same of a weight in parts.
void decode_gemm(const Bf16* x, int m, std::span<const DeviceWeight> parts, void* y, GemmOutput output,
                 StreamHandle stream);
/// The same for weights of bf16.
void decode_bf16(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream);

// What stands before and after such a product, within it: one launch instead of two or three. The bits are those of
// norm_for_decode(), decode_gemm() and gate_rows(), one after another.

/// Rows of f32 whose norm a product takes.
struct NormedRows {
  const float* x;  // [m, columns]
  RowNorm norm;
  float factor;
  Bf16* kept = nullptr;  // [m, columns]: the normed rows, for those that want them too; null: nobody does
};
/// Every block takes the norms anew, so they are few.
inline constexpr int kMostNormedRows = 8;

/// Rows whose norm is left to the products that read them: these multiply their sums by what it divides by.
struct UnscaledRows {
  Bf16* x = nullptr;         // [m, columns]: the stream times the norm's weights
  float* squares = nullptr;  // [m, columns / 8]: of the stream, eight together; columns are a multiple of 32
  float eps = 0;             // of the norm
};
/// What a product that adds to the stream leaves of it for the next.
struct NextRows {
  UnscaledRows to;
  RowNorm norm;  // not centred
  float factor;
};

/// What gate_rows() makes of the product's outputs, bf16 [m, outputs / 2].
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

// The norm of a step between two products without a kernel of its own: who adds to the stream leaves UnscaledRows, who
// reads them scales its sums. Bits differ from those above, and are the same for every number of rows.

/// y f32 [m, weight.rows] += x W^T. Outputs are a multiple of 8.
void decode_bf16_to_stream(const Bf16* x, int m, const DeviceWeight& weight, float* y, const NextRows& next,
                           StreamHandle stream);
/// y as `output` says, kBf16 or kF32.
void decode_bf16_unscaled(const UnscaledRows& rows, int m, const DeviceWeight& weight, void* y,
                          GemmOutput output, StreamHandle stream);
void decode_bf16_unscaled_gated(const UnscaledRows& rows, int m, const DeviceWeight& weight,
                                const GatedRows& to, StreamHandle stream);

class PrefillGemm {
 public:
  PrefillGemm();
  ~PrefillGemm();
  PrefillGemm(const PrefillGemm&) = delete;
  PrefillGemm& operator=(const PrefillGemm&) = delete;

  /// Rows that buffers of x and y must have for m rows: the rest holds anything and is overwritten.
  static int padded(int m) { return (m + kGrid - 1) / kGrid * kGrid; }

  /// x bf16 [padded(m), columns] -> y. kAddF32 adds to all padded rows. Calls that share a PrefillGemm are in one stream.
  void multiply(const Bf16* x, int m, std::span<const DeviceWeight> parts, void* y, GemmOutput output,
                StreamHandle stream);
  void multiply(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                StreamHandle stream) {
    multiply(x, m, std::span(&weight, 1), y, output, stream);
  }

  /// Whether products of m rows with these weights take the gate behind them on their way: with the same bits. False for those
  /// that were not admitted.
  bool gates(std::span<const DeviceWeight> parts, int m) const;
  /// Where it does: both in one launch. All padded rows are written.
  void multiply_gated(const Bf16* x, int m, std::span<const DeviceWeight> parts, const GatedRows& to,
                      StreamHandle stream);

  /// Whether the first rows of a product have the same bits for every number of rows up to `most`; remembers
  /// it for weights of this shape. To be called once for each shape before multiply(); waits for the GPU.
  bool admit(std::span<const DeviceWeight> parts, GemmOutput output, int most);
  bool admit(const DeviceWeight& weight, GemmOutput output, int most) {
    return admit(std::span(&weight, 1), output, most);
  }

  /// Of the memory that it keeps.
  std::size_t bytes() const;

  /// What decides the bits of what was admitted: cuBLASLt's version, and the algorithms that it chose.
  std::string arithmetic() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise::gpu::cuda
