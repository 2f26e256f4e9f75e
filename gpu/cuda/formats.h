#pragma once
// Weights on the GPU, and the table of what is computed with there: a line for each format of a checkpoint, and a
// DeviceFormat for each format that lies in the GPU's memory.
//
// A format without a line has no product here; who loads a model refuses it by name. A new one adds its kernels, a
// DeviceFormat and a line, all found through formats.cc.
//
// Threading: constants.

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/batch.h"
#include "gpu/cuda/stream.h"
#include "gpu/weight.h"

namespace reprise::gpu::cuda {

struct DeviceFormat;

/// [rows, columns] in the GPU's memory, one row an output, laid out as the format says.
struct DeviceWeight {
  const DeviceFormat* format = nullptr;
  const void* data = nullptr;
  int rows = 0;
  int columns = 0;
  int part_of = 0;  // rows of the weight that this is a part of; 0: it is whole

  /// From a row of the product to the next: that of a part stands among the outputs of the whole.
  int stride() const { return part_of == 0 ? rows : part_of; }
};

/// Rows of a tensor in the GPU's memory, as a file has them.
struct StoredRows {
  const WeightFormat* format = nullptr;
  const std::byte* data = nullptr;
  const float* scales = nullptr;  // all of the tensor's, where they lie apart
  int rows = 0;
  int columns = 0;
  int first = 0;  // the first of them in the tensor
};

enum class GemmOutput {
  kBf16,    // y bf16 [m, rows]
  kF32,     // y f32 [m, rows]
  kAddF32,  // the same, added to what y holds
};

struct NormedRows;
struct UnscaledRows;
struct NextRows;
struct GatedRows;

/// A format's products with what stands around them (gpu/cuda/gemm.h).
struct FusedProducts {
  /// Elements of x, in all its rows, up to which a product should take the norm on its way: each of its blocks reads all
  /// rows, which lasts longer than norms take where there are more.
  int most_normed;
  void (*normed)(const NormedRows& rows, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream);
  void (*gated)(const Bf16* x, int m, const DeviceWeight& weight, const GatedRows& to, StreamHandle stream);
  void (*normed_gated)(const NormedRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                       StreamHandle stream);
  /// Null, all three: it has none.
  void (*to_stream)(const Bf16* x, int m, const DeviceWeight& weight, float* y, const NextRows& next,
                    StreamHandle stream);
  void (*unscaled)(const UnscaledRows& rows, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                   StreamHandle stream);
  void (*unscaled_gated)(const UnscaledRows& rows, int m, const DeviceWeight& weight, const GatedRows& to,
                         StreamHandle stream);
};

struct ExpertWeights;
struct ExpertPlaces;

/// Its products with the weights of many experts (gpu/cuda/experts.h).
struct ExpertProducts {
  void (*gated)(const Bf16* x, const ExpertWeights& weights, const ExpertPlaces& places, const GatedRows& to,
                StreamHandle stream);
  void (*product)(const Bf16* x, bool x_is_by_place, const ExpertWeights& weights, const ExpertPlaces& places,
                  void* y, GemmOutput output, StreamHandle stream);
};

struct DeviceFormat {
  const WeightFormat* format;
  int columns_multiple;  // what columns must be a multiple of
  int rows_together;     // that share memory: parts of a weight begin at multiples of them
  /// Whether the elements are bf16, row by row: what cuBLASLt can multiply by in a prefill.
  bool is_rows_of_bf16;
  std::size_t (*bytes)(std::size_t rows, std::size_t columns);
  /// Rows of a tensor into those of a weight from `row` on; what it fills up with has been zeroed. Null: they are
  /// copied as they are.
  void (*pack)(const StoredRows& from, const DeviceWeight& to, int row, StreamHandle stream);
  /// The whole weight as rows of bf16, for a prefill.
  void (*expand)(const DeviceWeight& weight, Bf16* to, StreamHandle stream);
  /// decode_gemm() for this format.
  void (*decode)(const Bf16* x, int m, const DeviceWeight& weight, void* y, GemmOutput output,
                 StreamHandle stream);
  const FusedProducts* fused;  // null: it has none
  const ExpertProducts* experts;
  /// embed() for this format.
  void (*embed)(const std::int32_t* tokens, int rows, const DeviceWeight& table, float* y,
                StreamHandle stream);
};

extern const DeviceFormat kBf16OnDevice;
// Quantised weights keep the size that they have in files (gpu/cuda/quants/formats.cuh).
extern const DeviceFormat kQ8_0OnDevice;
extern const DeviceFormat kQ4_0OnDevice;
extern const DeviceFormat kQ4_KOnDevice;
extern const DeviceFormat kQ5_KOnDevice;
extern const DeviceFormat kQ6_KOnDevice;
extern const DeviceFormat kIQ4_XSOnDevice;
extern const DeviceFormat kF8OnDevice;

/// How a checkpoint's format comes to the GPU.
struct DeviceUpload {
  const WeightFormat* stored;
  const DeviceFormat* kept;
  /// The weight as rows of bf16, on the host. Null: its bytes go to the GPU as they are.
  void (*convert)(const WeightView& weight, std::byte* to);
};

/// Null: there is no product with it on a GPU.
const DeviceUpload* find_upload(const WeightFormat& stored);

}  // namespace reprise::gpu::cuda
