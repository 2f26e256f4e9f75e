// Dispatch of decode GEMMs with bf16 weights: wgmma, persistent, tiled, or the small-m kernel instantiated
// here. All are bitwise identical.

#include "gpu/cuda/gemm/decode_bf16.cuh"
#include "gpu/cuda/gemm/decode_gemm.h"

namespace reprise::gpu::cuda {
namespace {

using product::Bf16Ring;

/// Blocks of 16 rows of x (can_use_two_tiled()).
template <class Output>
void launch_pair(const Bf16* x, int m, const DeviceWeight& weight, const Output& output,
                 StreamHandle stream) {
  const product::PlainRows rows{x};
  if (weight.rows >= product::kWide) {
    product::launch_small_m<Bf16Ring<32, Output>, 2>(rows, m, weight, output, stream);
  } else {
    product::launch_small_m<Bf16Ring<16, Output>, 2>(rows, m, weight, output, stream);
  }
}

template <class Output>
void launch_few(const Bf16* x, int m, const DeviceWeight& weight, const Output& output, StreamHandle stream) {
  if (product::can_use_two_tiled(weight, m)) return launch_pair(x, m, weight, output, stream);
  product::launch_small_m_for<Bf16Ring>(product::PlainRows{x}, m, weight, output, stream);
}
template <class Output>
void launch_few_gated(const Bf16* x, int m, const DeviceWeight& weight, const Output& output,
                      StreamHandle stream) {
  if (product::can_use_two_tiled(weight, m)) return launch_pair(x, m, weight, output, stream);
  product::launch_small_m<Bf16Ring<32, Output>>(product::PlainRows{x}, m, weight, output, stream);
}

}  // namespace

void decode_bf16(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                 StreamHandle stream) {
  if (can_use_decode_wgmma(weight, m, kind)) {
    return decode_by_warpgroups(x, m, weight, static_cast<float*>(y), stream);
  }
  if (can_use_persistent(weight, m, kind)) {
    return decode_persistent(x, m, weight, static_cast<float*>(y), stream);
  }
  if (can_use_tiled(weight, m, false)) return decode_in_tiles(x, m, weight, y, kind, stream);
  product::with_output(y, weight, kind,
                       [&](const auto& output) { launch_few(x, m, weight, output, stream); });
}

void decode_bf16_normed(const NormedRows& rows, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                        StreamHandle stream) {
  product::check_few(m);
  product::with_output(y, weight, kind, [&](const auto& output) {
    product::launch_small_m_for<Bf16Ring>(product::RowsToNorm(rows), m, weight, output, stream);
  });
}

void decode_bf16_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                       StreamHandle stream) {
  if (can_use_tiled(weight, m, true)) return decode_in_tiles_gated(x, m, weight, to, stream);
  launch_few_gated(x, m, weight, product::GatedOutput(to, weight), stream);
}

void decode_bf16_normed_gated(const NormedRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                              StreamHandle stream) {
  product::check_few(m);
  const product::GatedOutput output(to, weight);
  product::launch_small_m<Bf16Ring<32, product::GatedOutput>>(product::RowsToNorm(rows), m, weight, output,
                                                              stream);
}

void decode_bf16_to_residual(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                             const DeferredNormOutput& next, StreamHandle stream) {
  REPRISE_CHECK(weight.rows % 8 == 0 && weight.part_of == 0,
                "the residual's width is not a multiple of 8, or the weight is part of another");
  if (can_use_tiled(weight, m, false)) return decode_in_tiles_to_residual(x, m, weight, y, next, stream);
  launch_few(x, m, weight, product::ResidualOutput{y, weight.rows, next}, stream);
}

void decode_bf16_unscaled(const DeferredNormRows& rows, int m, const DeviceWeight& weight, void* y,
                          GemmOutput kind, StreamHandle stream) {
  if (can_use_decode_wgmma(weight, m, kind)) {
    return decode_by_warpgroups(rows, m, weight, static_cast<float*>(y), stream);
  }
  if (can_use_persistent(weight, m, kind)) {
    return decode_persistent(rows, m, weight, static_cast<float*>(y), stream);
  }
  if (can_use_tiled(weight, m, false)) return decode_in_tiles_unscaled(rows, m, weight, y, kind, stream);
  product::with_scaled_output(rows, y, weight, kind,
                              [&](const auto& output) { launch_few(rows.x, m, weight, output, stream); });
}

void decode_bf16_unscaled_gated(const DeferredNormRows& rows, int m, const DeviceWeight& weight,
                                const GatedRows& to, StreamHandle stream) {
  if (can_use_tiled(weight, m, true)) return decode_in_tiles_unscaled_gated(rows, m, weight, to, stream);
  launch_few_gated(rows.x, m, weight,
                   product::ScaledOutput(product::GatedOutput(to, weight), rows, weight.columns), stream);
}

}  // namespace reprise::gpu::cuda
