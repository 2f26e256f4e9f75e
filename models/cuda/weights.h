#pragma once
// Weights of a checkpoint on their way to the GPU: matrices in the format that theirs is kept as
// (gpu/cuda/formats.h), several joined into one so that a layer needs few products; vectors as f32.
//
// Threading: used by one thread while a model is loaded. The memory belongs to the WeightStore and ends with
// it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda/device_memory.h"
#include "gpu/cuda/experts.h"
#include "gpu/cuda/formats.h"
#include "gpu/cuda/gemm.h"
#include "gpu/cuda/stream.h"
#include "models/checkpoint.h"

namespace reprise::models::cuda {

namespace gc = gpu::cuda;

/// y = x W^T + bias of several layers of a checkpoint at once: their outputs stand one after another.
struct DeviceLinear {
  /// The whole: rows rounded up to a multiple of 8, the last ones zeros. Without format and data where its parts have
  /// several of them.
  gc::DeviceWeight weight;
  std::vector<gc::DeviceWeight> parts;  // at least one; their outputs stand one after another
  const float* bias = nullptr;          // [weight.rows]; null: none
  /// [weight.columns]: which input each column of the weight is of; null: its own.
  const std::int32_t* column_order = nullptr;

  /// The layers that it is of, for adapters, which change them one by one.
  struct Layer {
    std::string name;
    int first = 0;  // output
  };
  std::vector<Layer> layers{};

  /// Whether a product takes the norm of its inputs, or the gate of its outputs, on its way.
  bool is_fused() const {
    return bias == nullptr && column_order == nullptr &&
           std::all_of(parts.begin(), parts.end(),
                       [](const gc::DeviceWeight& part) { return part.format->fused != nullptr; });
  }
  /// Where it is fused: elements of x up to which it should take their norm.
  int most_normed() const {
    int most = parts.front().format->fused->most_normed;
    for (const gc::DeviceWeight& part : parts) most = std::min(most, part.format->fused->most_normed);
    return most;
  }
  /// Whether it can add to the stream and leave the next step's rows (gpu/cuda/gemm.h), and whether it can read them.
  bool leaves_rows() const {
    return is_fused() && parts.size() == 1 && parts.front().format->fused->to_stream != nullptr;
  }
  bool reads_unscaled() const {
    return is_fused() && std::all_of(parts.begin(), parts.end(), [](const gc::DeviceWeight& part) {
             return part.format->fused->unscaled != nullptr;
           });
  }
};

/// Tries the products of prefills before they are used (gpu/cuda/gemm.h).
struct Admission {
  gc::PrefillGemm& gemm;
  int most_rows;
  bool precise;  // the product of a row's second term is added to that of the first

  void admit(const DeviceLinear& linear, gc::GemmOutput output) const {
    if (precise && output == gc::GemmOutput::kBf16) output = gc::GemmOutput::kF32;
    gemm.admit(linear.parts, output, most_rows);
    if (precise) gemm.admit(linear.parts, gc::GemmOutput::kAddF32, most_rows);
  }
};

/// Brings matrices from files to a GPU that keeps them in an order of its own (gc::DeviceFormat::pack): as the file has them
/// into memory of a bounded size there, and from it into their places.
///
/// A mixture has tens of thousands of small ones: they are collected, those that lie one after another in a file are copied
/// at once, and the stream is waited for once for all of them.
class PackedUpload {
 public:
  /// The stream must outlive it.
  explicit PackedUpload(gc::Stream& stream) : stream_(stream) {}

  /// Into the weight's rows from `row` on, which have been zeroed: at the next flush() at the latest. The checkpoint's
  /// mapping must stay until then. Throws std::bad_alloc.
  void add(Tensor tensor, const gc::DeviceWeight& to, std::size_t row);
  /// Until all that was added is in its place.
  void flush();
  /// flush(), and gives its memory back.
  void finish() {
    flush();
    staging_ = gc::DeviceBytes();
  }

 private:
  struct Matrix {
    Tensor tensor;
    gc::DeviceWeight to;
    std::size_t row;
    std::size_t data_at = 0;  // in the staging memory
    std::size_t scales_at = 0;
  };

  void reserve(std::size_t bytes);
  void copy_together(std::span<const Matrix> matrices);
  void pack(const Matrix& matrix, std::size_t first, std::size_t rows);
  /// One that is larger than the staging memory.
  void add_in_turns(Matrix matrix);

  gc::Stream& stream_;
  gc::DeviceBytes staging_;
  std::vector<Matrix> waiting_;
  std::size_t waiting_bytes_ = 0;  // of staging memory
};

class WeightStore {
 public:
  /// Both must outlive the store.
  WeightStore(const Checkpoint& checkpoint, gc::Arena& arena) : checkpoint_(checkpoint), arena_(arena) {}
  ~WeightStore();
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  /// What becomes of inputs whose number suits no product.
  enum class Inputs { kAsTheyAre, kFilledUp };

  /// `names` without their ".weight"; all have the same inputs. Throws LoadError (also for a tensor in a format
  /// that has no product on a GPU, for columns that stand in different orders, and for a number of inputs that
  /// suits none; if they are filled up, weight.columns is the next that does, and the others' weights are zeros),
  /// std::bad_alloc.
  DeviceLinear linear(const std::vector<std::string>& names, Inputs inputs = Inputs::kAsTheyAre);
  /// Those of `count` experts, each the matrices `prefix` + its number + each of `names`, one below the other. All are in
  /// one format. Throws as linear() does.
  gc::ExpertWeights experts(const std::string& prefix, std::size_t count,
                            const std::vector<std::string>& names);
  const float* vector(const std::vector<float>& values);
  /// The most columns of a linear whose inputs are to be put in order; 0: none is.
  int most_ordered() const { return most_ordered_; }
  /// The most columns of any linear.
  int most_columns() const { return most_columns_; }
  /// Waits until all is there.
  void finish() {
    packed_.finish();
    stream_.wait();
  }

 private:
  std::byte* take(std::size_t bytes);
  const gc::DeviceUpload& upload_of(const std::string& name) const;
  std::size_t rows_of(const std::string& name) const;
  /// Into the weight's rows from `row` on, at finish() at the latest.
  void upload(Tensor tensor, const gc::DeviceUpload& how, const gc::DeviceWeight& to, std::size_t row);
  void upload_rows(const Tensor& tensor, const gc::DeviceUpload& how, std::size_t columns, std::byte* to);

  struct Block {
    std::byte* data;
    std::size_t bytes;
  };
  const Checkpoint& checkpoint_;
  gc::Arena& arena_;
  gc::Stream stream_;
  std::vector<Block> blocks_;
  PackedUpload packed_{stream_};
  int most_ordered_ = 0;
  int most_columns_ = 0;
};

}  // namespace reprise::models::cuda
