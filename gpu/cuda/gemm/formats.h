#pragma once
// Weight formats on the GPU. A DeviceFormat is the layout of a weight in GPU memory and its kernels;
// formats.cc maps each file format to one; the model loader refuses others by name. A new format needs
// kernels, a DeviceFormat in formats.cc, and kept_on_gpu in its row of gpu/weights/weight.h.

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"
#include "gpu/weights/weight.h"

namespace reprise::gpu::cuda {

struct DeviceFormat;

/// A weight matrix [rows, columns] in GPU memory, one row per output.
struct DeviceWeight {
  const DeviceFormat* format = nullptr;
  const void* data = nullptr;
  int rows = 0;
  int columns = 0;
  int part_of = 0;  // rows of the whole weight if this is a part of one; 0: it is whole

  /// Returns the elements between rows of y, of which a part writes its own columns.
  int stride() const { return part_of == 0 ? rows : part_of; }
};

/// Rows of a tensor in GPU memory, in the file's layout.
struct StoredRows {
  const WeightFormat* format = nullptr;
  const std::byte* data = nullptr;
  const float* scales = nullptr;  // of the whole tensor; null: not stored separately
  int rows = 0;
  int columns = 0;
  int first = 0;  // index of the first row in the tensor
};

enum class GemmOutput {
  kBf16,    // bf16 [m, rows]
  kF32,     // f32 [m, rows]
  kAddF32,  // f32 [m, rows], added to
};

struct NormedRows;
struct DeferredNormRows;
struct DeferredNormOutput;
struct GatedRows;

/// Fused GEMMs of a format (gemm.h).
struct FusedProducts {
  /// Max elements of x for a fused norm: every block recomputes the norms of all rows, so more rows are
  /// normalized faster by a separate kernel.
  int max_normed;
  void (*normed)(const NormedRows& rows, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream);
  void (*gated)(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to, StreamHandle stream);
  void (*normed_gated)(const NormedRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                       StreamHandle stream);
  /// Null, all three: the format has no deferred-norm GEMMs.
  void (*to_residual)(const Bf16* x, int m, const DeviceWeight& weight, float* y,
                      const DeferredNormOutput& next, StreamHandle stream);
  void (*unscaled)(const DeferredNormRows& rows, int m, const DeviceWeight& weight, void* y,
                   GemmOutput output, StreamHandle stream);
  void (*unscaled_gated)(const DeferredNormRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                         StreamHandle stream);
};

struct ExpertWeights;
struct RoutedRows;

/// Grouped GEMMs with the weights of experts (experts/experts.h).
struct ExpertProducts {
  void (*gated)(const Bf16* x, const ExpertWeights& weights, const RoutedRows& tables, const GatedRows& to,
                StreamHandle stream);
  void (*product)(const Bf16* x, bool x_is_routed, const ExpertWeights& weights, const RoutedRows& tables,
                  void* y, GemmOutput output, StreamHandle stream);
};

struct DeviceFormat {
  const WeightFormat* format;
  int columns_multiple;  // divisor of columns
  int rows_together;     // rows that share memory; parts of a weight begin at multiples of it
  /// Row-major bf16, which cuBLASLt can multiply in a prefill.
  bool is_rows_of_bf16;
  std::size_t (*bytes)(std::size_t rows, std::size_t columns);
  /// Converts rows of a tensor to rows `row`... of a weight, whose padding the caller has zeroed. Null: rows
  /// are copied.
  void (*pack)(const StoredRows& from, const DeviceWeight& to, int row, StreamHandle stream);
  /// Writes the whole weight as row-major bf16.
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
// Formats that keep their size in the file (quants/formats.cuh).
extern const DeviceFormat kQ8_0OnDevice;
extern const DeviceFormat kQ4_0OnDevice;
extern const DeviceFormat kQ4_KOnDevice;
extern const DeviceFormat kQ5_KOnDevice;
extern const DeviceFormat kQ6_KOnDevice;
extern const DeviceFormat kIQ4_XSOnDevice;
extern const DeviceFormat kF8OnDevice;

struct DeviceUpload {
  const WeightFormat* stored;
  const DeviceFormat* kept;
  /// Converts the weight to row-major bf16 on the host. Null: the bytes are copied.
  void (*convert)(const WeightView& weight, std::byte* to);
};

/// Returns null if the format cannot be used on a GPU.
const DeviceUpload* find_upload(const WeightFormat& stored);

}  // namespace reprise::gpu::cuda
