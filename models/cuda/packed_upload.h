#pragma once
// Brings matrices from files to a GPU that keeps them in an order of its own (gc::DeviceFormat::pack): as the file has them
// into memory of a bounded size there, and from it into their places.
//
// A mixture has tens of thousands of small ones: they are collected, those that lie one after another in a file are copied
// at once, and the stream is waited for once for all of them.
//
// Threading: one thread, while a model is loaded.

#include <cstddef>
#include <span>
#include <vector>

#include "gpu/cuda/formats.h"
#include "gpu/cuda/stream.h"
#include "models/checkpoint.h"

namespace reprise::models::cuda {

namespace gc = gpu::cuda;

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

}  // namespace reprise::models::cuda
