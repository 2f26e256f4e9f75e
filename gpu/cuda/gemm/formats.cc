#include "gpu/cuda/gemm/formats.h"

#include <vector>

#include "gpu/cuda/gemm/decode_gemm.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/rows/embedding.h"
#include "gpu/kernels.h"

namespace reprise::gpu::cuda {
namespace {

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
    {.stored = &kQ8_0Format, .kept = &kQ8_0OnDevice, .convert = nullptr},
    {.stored = &kQ4_0Format, .kept = &kQ4_0OnDevice, .convert = nullptr},
    {.stored = &kQ4_KFormat, .kept = &kQ4_KOnDevice, .convert = nullptr},
    {.stored = &kQ5_KFormat, .kept = &kQ5_KOnDevice, .convert = nullptr},
    {.stored = &kQ6_KFormat, .kept = &kQ6_KOnDevice, .convert = nullptr},
    {.stored = &kIQ4_XSFormat, .kept = &kIQ4_XSOnDevice, .convert = nullptr},
    {.stored = &kF8TileFormat, .kept = &kF8OnDevice, .convert = nullptr},
    {.stored = &kF8RowFormat, .kept = &kF8OnDevice, .convert = nullptr},
    // without kernels of their own: expanded to bf16
    {.stored = &kInt4Format, .kept = &kBf16OnDevice, .convert = round_to_bf16},
    {.stored = &kQ4_1Format, .kept = &kBf16OnDevice, .convert = round_to_bf16},
    {.stored = &kQ5_0Format, .kept = &kBf16OnDevice, .convert = round_to_bf16},
    {.stored = &kQ5_1Format, .kept = &kBf16OnDevice, .convert = round_to_bf16},
    {.stored = &kQ2_KFormat, .kept = &kBf16OnDevice, .convert = round_to_bf16},
    {.stored = &kQ3_KFormat, .kept = &kBf16OnDevice, .convert = round_to_bf16},
    {.stored = &kIQ4_NLFormat, .kept = &kBf16OnDevice, .convert = round_to_bf16},
    {.stored = &kMXFP4Format, .kept = &kBf16OnDevice, .convert = round_to_bf16},
};

std::size_t bytes_of_bf16(std::size_t rows, std::size_t columns) {
  return rows * columns * sizeof(Bf16);
}
void copy_bf16(const DeviceWeight& weight, Bf16* to, StreamHandle stream) {
  copy_on_device(to, weight.data, bytes_of_bf16(weight.rows, weight.columns), stream);
}

constexpr FusedProducts kFusedBf16{.max_normed = 8192,
                                   .normed = decode_bf16_normed,
                                   .gated = decode_bf16_gated,
                                   .normed_gated = decode_bf16_normed_gated,
                                   .to_residual = decode_bf16_to_residual,
                                   .unscaled = decode_bf16_unscaled,
                                   .unscaled_gated = decode_bf16_unscaled_gated};

}  // namespace

constinit const DeviceFormat kBf16OnDevice{.format = &kBF16Format,
                                           .columns_multiple = 8,  // 16-byte aligned rows
                                           .rows_together = 1,
                                           .is_rows_of_bf16 = true,
                                           .bytes = bytes_of_bf16,
                                           .pack = nullptr,
                                           .expand = copy_bf16,
                                           .decode = decode_bf16,
                                           .fused = &kFusedBf16,
                                           .experts = &kBf16Experts,
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

void decode_gemm(const Bf16* x, int m, std::span<const DeviceWeight> parts, void* y, GemmOutput output,
                 StreamHandle stream) {
  const std::size_t element = output == GemmOutput::kBf16 ? sizeof(Bf16) : sizeof(float);
  auto* to = static_cast<std::byte*>(y);
  for (const DeviceWeight& part : parts) {
    decode_gemm(x, m, part, to, output, stream);
    to += static_cast<std::size_t>(part.rows) * element;
  }
}

void embed(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y, StreamHandle stream) {
  table.format->embed(tokens, rows, table, y, stream);
}

}  // namespace reprise::gpu::cuda
