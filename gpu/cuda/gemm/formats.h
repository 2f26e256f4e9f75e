#pragma once
// Weight formats on the GPU. A DeviceFormat is the layout of a weight in GPU memory and its kernels;
// formats.cc maps each file format to one. The model loader refuses other file formats by name. A new format
// needs kernels, a DeviceFormat in formats.cc, and kept_on_gpu in its row of gpu/weights/weight.h.

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"
#include "gpu/weights/weight.h"

namespace reprise::gpu::cuda {

struct DeviceFormat;

/// A weight matrix [rows, columns] in GPU memory, one row per output, in the layout of `format`.
struct DeviceWeight {
  const DeviceFormat* format = nullptr;
  const void* data = nullptr;
  int rows = 0;
  int columns = 0;
  int part_of = 0;  // rows of the whole weight if this is a part of one; 0: it is whole

  /// Returns the elements between rows of y: a part writes its columns of the whole output.
  int stride() const { return part_of == 0 ? rows : part_of; }
};

/// Rows of a tensor in GPU memory, in the layout of the file.
struct StoredRows {
  const WeightFormat* format = nullptr;
  const std::byte* data = nullptr;
  const float* scales = nullptr;  // all scales of the tensor, if stored separately
  int rows = 0;
  int columns = 0;
  int first = 0;  // index in the tensor of the first row
};

enum class GemmOutput {
  kBf16,    // y bf16 [m, rows]
  kF32,     // y f32 [m, rows]
  kAddF32,  // y f32 [m, rows] += product
};

struct NormedRows;
struct DeferredNormRows;
struct DeferredNormOutput;
struct GatedRows;

/// Fused GEMMs of a format (gpu/cuda/gemm/gemm.h).
struct FusedProducts {
  /// Elements of x up to which a fused norm pays: every block recomputes the norms of all rows, so more rows
  /// are normalized faster by a separate kernel.
  int max_normed;
  void (*normed)(const NormedRows& rows, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream);
  void (*gated)(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to, StreamHandle stream);
  void (*normed_gated)(const NormedRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                       StreamHandle stream);
  /// All three null: the format has no deferred-norm GEMMs.
  void (*to_stream)(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                    const DeferredNormOutput& next, StreamHandle stream);
  void (*unscaled)(const DeferredNormRows& rows, int m, const DeviceWeight& weight, void* y,
                   GemmOutput output, StreamHandle stream);
  void (*unscaled_gated)(const DeferredNormRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                         StreamHandle stream);
};

struct ExpertWeights;
struct RoutedRows;

/// Grouped GEMMs with the weights of experts (gpu/cuda/experts/experts.h).
struct ExpertProducts {
  void (*gated)(const Bf16* x, const ExpertWeights& weights, const RoutedRows& places, const GatedRows& to,
                StreamHandle stream);
  void (*product)(const Bf16* x, bool x_is_by_place, const ExpertWeights& weights, const RoutedRows& places,
                  void* y, GemmOutput output, StreamHandle stream);
};

struct DeviceFormat {
  const WeightFormat* format;
  int columns_multiple;  // columns must be a multiple of this
  int rows_together;     // rows that share memory; parts of a weight begin at multiples of this
  /// True for row-major bf16, which cuBLASLt can multiply in a prefill.
  bool is_rows_of_bf16;
  std::size_t (*bytes)(std::size_t rows, std::size_t columns);
  /// Converts rows of a tensor to rows `row`... of a weight; the caller has zeroed the padding. Null: rows
  /// are copied unchanged.
  void (*pack)(const StoredRows& from, const DeviceWeight& to, int row, StreamHandle stream);
  /// Writes the whole weight as row-major bf16, for a prefill.
  void (*expand)(const DeviceWeight& weight, Bf16* to, StreamHandle stream);
  /// decode_gemm() for this format.
  void (*decode)(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream);
  const FusedProducts* fused;  // null: none
  const ExpertProducts* experts;
  /// embed() for this format.
  void (*embed)(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y,
                StreamHandle stream);
};

extern const DeviceFormat kBf16OnDevice;
// Quantized weights keep their size in the file (gpu/cuda/gemm/quants/formats.cuh).
extern const DeviceFormat kQ8_0OnDevice;
extern const DeviceFormat kQ4_0OnDevice;
extern const DeviceFormat kQ4_KOnDevice;
extern const DeviceFormat kQ5_KOnDevice;
extern const DeviceFormat kQ6_KOnDevice;
extern const DeviceFormat kIQ4_XSOnDevice;
extern const DeviceFormat kF8OnDevice;

/// How weights of a file format are brought to the GPU.
struct DeviceUpload {
  const WeightFormat* stored;
  const DeviceFormat* kept;
  /// Converts the weight to row-major bf16 on the host. Null: the bytes are copied unchanged.
  void (*convert)(const WeightView& weight, std::byte* to);
};

/// Returns null if the format cannot be used on a GPU.
const DeviceUpload* find_upload(const WeightFormat& stored);

}  // namespace reprise::gpu::cuda
