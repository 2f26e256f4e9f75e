#include "gpu/cuda/gemm/formats.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "base/check.h"
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

/// The formats that a GPU has kernels for; kF8OnDevice also has its scales by rows.
constexpr const DeviceFormat* kDeviceFormats[] = {&kBf16OnDevice,   &kQ8_0OnDevice, &kQ4_0OnDevice,
                                                  &kQ4_KOnDevice,   &kQ5_KOnDevice, &kQ6_KOnDevice,
                                                  &kIQ4_XSOnDevice, &kF8OnDevice};

/// Formats that are not kept are expanded to bf16, larger than in the file.
DeviceUpload upload_of(const WeightFormat& stored) {
  const WeightFormat& format = &stored == &kF8RowFormat ? kF8TileFormat : stored;
  for (const DeviceFormat* kept : kDeviceFormats) {
    if (kept->format == &format) return {.stored = &stored, .kept = kept, .convert = nullptr};
  }
  REPRISE_CHECK(!stored.kept_on_gpu, "a format that a GPU keeps has no kernels for it");
  return {.stored = &stored, .kept = &kBf16OnDevice, .convert = round_to_bf16};
}

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
  static const auto kUploads = [] {
    std::array<DeviceUpload, std::size(kWeightFormats)> uploads;
    std::transform(std::begin(kWeightFormats), std::end(kWeightFormats), uploads.begin(),
                   [](const WeightFormat* format) { return upload_of(*format); });
    return uploads;
  }();
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
