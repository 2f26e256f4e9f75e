// Instantiates the tiled decode GEMM (tiled.cuh) and the grouped GEMMs of experts for bf16 weights.

#include "gpu/cuda/gemm/decode_gemm.h"

#include "gpu/cuda/experts/products.cuh"
#include "gpu/cuda/gemm/decode_bf16.cuh"

namespace reprise::gpu::cuda {
namespace {

using product::Bf16Tiles;

template <int kRanks, class Output>
void launch_for(const Bf16* x, int m, const DeviceWeight& weight, const Output& output, StreamHandle stream) {
  if (m <= 16) {
    product::launch_tiled<Bf16Tiles, 2, kRanks>(x, m, weight, output, stream);
  } else if (m <= 32) {
    product::launch_tiled<Bf16Tiles, 4, kRanks>(x, m, weight, output, stream);
  } else {
    product::launch_tiled<Bf16Tiles, 8, kRanks>(x, m, weight, output, stream);
  }
}

template <class Output>
void launch_by_outputs(const Bf16* x, int m, const DeviceWeight& weight, const Output& output,
                       StreamHandle stream) {
  if (product::has_enough_outputs(weight)) {
    launch_for<1>(x, m, weight, output, stream);
  } else {
    launch_for<product::kChains>(x, m, weight, output, stream);
  }
}

}  // namespace

bool can_use_tiled(const DeviceWeight& weight, int m, bool gated) {
  return !product::can_use_two_tiled(weight, m) && product::can_use_tiled_to(weight, m, gated);
}

void decode_in_tiles(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                     StreamHandle stream) {
  product::with_output(y, weight, kind,
                       [&](const auto& output) { launch_by_outputs(x, m, weight, output, stream); });
}

void decode_in_tiles_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                           StreamHandle stream) {
  launch_for<1>(x, m, weight, product::GatedOutput(to, weight), stream);
}

void decode_in_tiles_to_residual(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                                 const DeferredNormOutput& next, StreamHandle stream) {
  launch_by_outputs(x, m, weight, product::ResidualOutput{y, weight.rows, next}, stream);
}

void decode_in_tiles_unscaled(const DeferredNormRows& rows, int m, const DeviceWeight& weight, void* y,
                              GemmOutput kind, StreamHandle stream) {
  product::with_scaled_output(rows, y, weight, kind, [&](const auto& output) {
    launch_by_outputs(rows.x, m, weight, output, stream);
  });
}

void decode_in_tiles_unscaled_gated(const DeferredNormRows& rows, int m, const DeviceWeight& weight,
                                    const GatedRows& to, StreamHandle stream) {
  launch_for<1>(rows.x, m, weight,
                product::ScaledOutput(product::GatedOutput(to, weight), rows, weight.columns), stream);
}

constinit const ExpertProducts kBf16Experts =
    product::GroupedProducts<product::Bf16Ring, product::Bf16Tiles>::kProducts;

}  // namespace reprise::gpu::cuda
