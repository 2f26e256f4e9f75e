#include "gpu/cuda/formats.h"

#include <vector>

#include "gpu/cuda/gemm.h"
#include "gpu/cuda/rows.h"
#include "gpu/kernels.h"

namespace reprise::gpu::cuda {
namespace {

/// Each element rounded to the nearest bf16.
void round_to_bf16(const WeightView& weight, std::byte* to) {
  const Kernels& kernels = cpu_kernels(best_isa());
  const FormatKernels& format = kernels.format(*weight.format);
  std::vector<float> row(weight.columns);
  auto* halves = reinterpret_cast<std::uint16_t*>(to);
  for (std::size_t i = 0; i < weight.rows; ++i, halves += weight.columns) {
    format.widen_row(weight, i, row.data());
    kernels.to_bf16(row.data(), halves, weight.columns);
  }
}

constexpr DeviceUpload kUploads[] = {
    {.stored = &kBF16Format, .kept = &kBf16OnDevice, .convert = nullptr},
    {.stored = &kF16Format, .kept = &kBf16OnDevice, .convert = round_to_bf16},
    {.stored = &kF32Format, .kept = &kBf16OnDevice, .convert = round_to_bf16},
};

constexpr FusedProducts kFusedBf16{
    .normed = decode_bf16_normed, .gated = decode_bf16_gated, .normed_gated = decode_bf16_normed_gated};

}  // namespace

constinit const DeviceFormat kBf16OnDevice{.format = &kBF16Format,
                                           .columns_multiple = 8,  // rows begin on 16 bytes
                                           .is_rows_of_bf16 = true,
                                           .decode = decode_bf16,
                                           .fused = &kFusedBf16,
                                           .embed = embed_bf16};

const DeviceUpload* find_upload(const WeightFormat& stored) {
  for (const DeviceUpload& upload : kUploads) {
    if (upload.stored == &stored) return &upload;
  }
  return nullptr;
}

void decode_gemm(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream) {
  weight.format->decode(x, m, weight, y, output, stream);
}

void embed(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y, StreamHandle stream) {
  table.format->embed(tokens, rows, table, y, stream);
}

}  // namespace reprise::gpu::cuda
