#pragma once
// The tensors of a model in any file format: named views into mapped files, and the files. The safetensors
// and GGUF readers fill it; names and values are as in the files.
//
// Invariants: names are unique; a view is inside one file and has exactly the bytes of its type and shape;
// shapes are outermost dimension first. Views are valid until the source is destroyed, also after a move.
//
// Threading: const access is thread-safe.

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
  std::size_t add_file(MappedFile file);

  /// Adds a tensor at `offset` of its file. Throws LoadError if the name exists, the last dimension is not
  /// whole blocks, or the bytes are not in the file.
  void add_tensor(std::string name, DType type, Shape shape, std::size_t file, std::uint64_t offset);

  /// Throws LoadError if two tensors of a file overlap.
  void check_no_overlap() const;

  const std::vector<MappedFile>& files() const { return files_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in file order

  const StoredTensor* find(std::string_view name) const;  // null: no such tensor

  const std::string& path_of(const StoredTensor& tensor) const { return files_[tensor.file].path(); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::vector<MappedFile> files_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> index_;  // name -> index in tensors_
};

}  // namespace reprise::models
