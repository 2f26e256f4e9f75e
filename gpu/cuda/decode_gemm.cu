// decode_bf16 and its relatives: products of decoded rows with weights of bf16. Few rows are computed here
// (gpu/cuda/decode_skinny.cuh), more go through gpu/cuda/decode_tiles.cu.
#include "gpu/cuda/decode_bf16.cuh"
#include "gpu/cuda/decode_tiles.h"

namespace reprise::gpu::cuda {
namespace {

using product::Bf16Ring;

template <class Rows>
void launch_gated(const Rows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                  StreamHandle stream) {
  product::launch_skinny<Bf16Ring<32, product::GatedOutput>>(rows, m, weight,
                                                             product::GatedOutput(to, weight), stream);
}

}  // namespace

void decode_bf16(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                 StreamHandle stream) {
  if (tiles_suit(weight, m, false)) return decode_in_tiles(x, m, weight, y, kind, stream);
  product::with_output(y, weight, kind, [&](const auto& output) {
    product::launch_skinny_for<Bf16Ring>(product::PlainRows{x}, m, weight, output, stream);
  });
}

void decode_bf16_normed(const NormedRows& rows, int m, const DeviceWeight& weight, void* y, GemmOutput kind,
                        StreamHandle stream) {
  product::check_few(m);
  product::with_output(y, weight, kind, [&](const auto& output) {
    product::launch_skinny_for<Bf16Ring>(product::RowsToNorm(rows), m, weight, output, stream);
  });
}

void decode_bf16_gated(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to,
                       StreamHandle stream) {
  if (tiles_suit(weight, m, true)) return decode_in_tiles_gated(x, m, weight, to, stream);
  launch_gated(product::PlainRows{x}, m, weight, to, stream);
}

void decode_bf16_normed_gated(const NormedRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                              StreamHandle stream) {
  product::check_few(m);
  launch_gated(product::RowsToNorm(rows), m, weight, to, stream);
}

}  // namespace reprise::gpu::cuda
