#pragma once
// What a checkpoint offers, whatever its format: named tensors as views into mapped files, plus the files
// themselves. The loaders of safetensors and GGUF fill one; names and values are as the file has them.
//
// Invariants: names are unique; every view lies in one of the files and has exactly the bytes that its type
// and shape ask for; shapes are outermost dimension first for both formats. Views stay valid, also when the
// source is moved, until it is destroyed.
//
// Threading: const access from any thread.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/files/dtype.h"
#include "models/files/mapped_file.h"

namespace reprise::models {

struct StoredTensor {
  std::string name;
  DType type = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;  // row-major; aligned only as far as the file aligns it
  std::size_t file = 0;              // index into TensorSource::files()
};

class TensorSource {
 public:
  /// Takes the file in and returns its index.
  std::size_t add_file(MappedFile file);

  /// Places a tensor at `offset` of its file. LoadError for a name that is already there, a size that does
  /// not fit the type's blocks, or bytes that are not in the file.
  void add_tensor(std::string name, DType type, Shape shape, std::size_t file, std::uint64_t offset);

  /// LoadError when two tensors of a file share a byte.
  void check_no_overlap() const;

  const std::vector<MappedFile>& files() const { return files_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in file order

  const StoredTensor* find(std::string_view name) const;  // null: no such tensor

  /// Path of the file that holds the tensor.
  const std::string& path_of(const StoredTensor& tensor) const { return files_[tensor.file].path(); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::vector<MappedFile> files_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> index_;  // name -> place in tensors_
};

}  // namespace reprise::models
