#pragma once
// Loading weights into GPU memory: matrices in the GPU format of their file format (gpu/cuda/gemm/formats.h),
// several concatenated into one so that a layer needs few GEMMs; vectors as f32.
//
// Threading: used by one thread while a model is loaded. The memory belongs to the WeightStore and is freed
// with it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda/experts/experts.h"
#include "gpu/cuda/gemm/formats.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/memory/device_memory.h"
#include "gpu/cuda/memory/stream.h"
#include "models/model_files.h"

namespace reprise::models::cuda {

namespace gc = gpu::cuda;

/// Several linear layers of the model files as one, y = x W^T + bias, with their outputs concatenated.
struct DeviceLinear {
  /// The concatenated weight; rows are rounded up to a multiple of 8 with zeros. Has no format and data if
  /// `parts` differ in format.
  gc::DeviceWeight weight;
  std::vector<gc::DeviceWeight> parts;  // at least one: runs of layers in one format
  const float* bias = nullptr;          // [weight.rows]; null: none
  /// [weight.columns]: the input index of each column of the weight; null: the identity.
  const std::int32_t* column_order = nullptr;

  /// The original layers, which adapters change individually.
  struct Layer {
    std::string name;
    int first = 0;  // index of its first output
  };
  std::vector<Layer> layers{};

  /// Returns whether its GEMMs can fuse the norm of the inputs or the gate of the outputs.
  bool is_fused() const {
    return bias == nullptr && column_order == nullptr &&
           std::all_of(parts.begin(), parts.end(),
                       [](const gc::DeviceWeight& part) { return part.format->fused != nullptr; });
  }
  /// Requires: is_fused(). Returns the number of elements of x up to which a fused norm is faster.
  int max_normed() const {
    int most = parts.front().format->fused->max_normed;
    for (const gc::DeviceWeight& part : parts) most = std::min(most, part.format->fused->max_normed);
    return most;
  }
  /// defers_norm(): its GEMM can add to the residual and write the next deferred-norm input.
  /// reads_unscaled(): it can read such input (gpu/cuda/gemm/gemm.h).
  bool defers_norm() const {
    return is_fused() && parts.size() == 1 && parts.front().format->fused->to_residual != nullptr;
  }
  bool reads_unscaled() const {
    return is_fused() && std::all_of(parts.begin(), parts.end(), [](const gc::DeviceWeight& part) {
             return part.format->fused->unscaled != nullptr;
           });
  }
};

/// Measures the prefill GEMMs of a linear before their first use (PrefillGemm::admit).
struct Admission {
  gc::PrefillGemm& gemm;
  int max_rows;  // max rows of a prefill step
  bool precise;  // rows are sums of two bf16 terms; the GEMM of the second is added to the first

  void admit(const DeviceLinear& linear, gc::GemmOutput output) const {
    if (precise && output == gc::GemmOutput::kBf16) output = gc::GemmOutput::kF32;
    gemm.admit(linear.parts, output, max_rows);
    if (precise) gemm.admit(linear.parts, gc::GemmOutput::kAddF32, max_rows);
  }
};

/// Uploads matrices whose GPU format has its own layout (DeviceFormat::pack): copies them as stored to a
/// bounded staging buffer on the GPU, and packs them from there.
///
/// Matrices are batched, since a mixture of experts has tens of thousands of small ones: those that are
/// adjacent in a file are copied at once, and the stream is synchronized once per batch.
class PackedUpload {
 public:
  /// `stream` must outlive it.
  explicit PackedUpload(gc::Stream& stream) : stream_(stream) {}

  /// Packs the tensor into rows `row`... of `to`, which are zeroed, at the latest by the next flush(). The
  /// mapping of the model files must stay valid until then. Throws std::bad_alloc.
  void add(Tensor tensor, const gc::DeviceWeight& to, std::size_t row);
  /// Blocks until all added matrices are packed.
  void flush();
  /// flush(), and frees the staging buffer.
  void finish() {
    flush();
    staging_ = gc::DeviceBytes();
  }

 private:
  struct Matrix {
    Tensor tensor;
    gc::DeviceWeight to;
    std::size_t row;
    std::size_t data_at = 0;  // offset in the staging buffer
    std::size_t scales_at = 0;
  };

  void reserve(std::size_t bytes);
  void copy_together(std::span<const Matrix> matrices);
  void pack(const Matrix& matrix, std::size_t first, std::size_t rows);
  /// Uploads a matrix larger than the staging buffer, in chunks of rows.
  void add_in_pieces(Matrix matrix);

  gc::Stream& stream_;
  gc::DeviceBytes staging_;
  std::vector<Matrix> waiting_;
  std::size_t waiting_bytes_ = 0;  // of the staging buffer
};

/// Allocates the weights of a model in the GPU arena, uploads them, and frees them in its destructor.
class WeightStore {
 public:
  /// `files` and `arena` must outlive the store.
  WeightStore(const ModelFiles& files, gc::Arena& arena) : files_(files), arena_(arena) {}
  ~WeightStore();
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  /// kFilledUp: the number of inputs is rounded up to one that the GEMM kernels support.
  enum class Inputs { kAsTheyAre, kFilledUp };

  /// Uploads the matrices `names`, without ".weight", as one linear; all have the same number of inputs.
  /// kFilledUp: weight.columns is rounded up to a supported number, with zeros, if all are kept as bf16.
  /// Throws LoadError, also for a format that a GPU cannot use, for different column orders, and for an
  /// unsupported number of inputs; std::bad_alloc.
  DeviceLinear linear(const std::vector<std::string>& names, Inputs inputs = Inputs::kAsTheyAre);
  /// Uploads the weights of `count` experts: for each, the matrices `prefix` + its index + each of `names`,
  /// stacked. All have one format. Throws as linear() does.
  gc::ExpertWeights experts(const std::string& prefix, std::size_t count,
                            const std::vector<std::string>& names);
  const float* vector(const std::vector<float>& values);
  /// Returns the max columns of the linears whose inputs must be permuted; 0: none.
  int max_ordered() const { return max_ordered_; }
  int max_columns() const { return max_columns_; }
  /// Blocks until all uploads are complete.
  void finish() {
    packed_.finish();
    stream_.wait();
  }

 private:
  std::byte* take(std::size_t bytes);
  const gc::DeviceUpload& upload_of(const std::string& name) const;
  std::size_t rows_of(const std::string& name) const;
  /// Uploads to rows `row`... of `to`, at the latest by finish().
  void upload(Tensor tensor, const gc::DeviceUpload& how, const gc::DeviceWeight& to, std::size_t row);
  void upload_rows(const Tensor& tensor, const gc::DeviceUpload& how, std::size_t columns, std::byte* to);

  struct Block {
    std::byte* data;
    std::size_t bytes;
  };
  const ModelFiles& files_;
  gc::Arena& arena_;
  gc::Stream stream_;
  std::vector<Block> blocks_;
  PackedUpload packed_{stream_};
  int max_ordered_ = 0;
  int max_columns_ = 0;
};

}  // namespace reprise::models::cuda
