#include "models/files/tensor_source.h"

#include <algorithm>
#include <utility>

#include "models/files/load_error.h"

namespace reprise::models {

std::size_t TensorSource::add_file(MappedFile file) {
  files_.push_back(std::move(file));
  return files_.size() - 1;
}

void TensorSource::add_tensor(std::string name, DType type, Shape shape, std::size_t file,
                              std::uint64_t offset) {
  const MappedFile& mapped = files_.at(file);
  const std::optional<std::uint64_t> size = byte_size(type, shape);
  if (!size) {
    throw LoadError(
        mapped.path(), name,
        "shape " + to_string(shape) + " is not a possible size for " + std::string(info(type).name));
  }
  const std::span<const std::byte> bytes = mapped.bytes(offset, *size, name);
  if (!index_.emplace(name, tensors_.size()).second) {
    throw LoadError(mapped.path(), name, "there are two tensors of this name");
  }
  tensors_.push_back({std::move(name), type, std::move(shape), bytes, file});
}

void TensorSource::check_no_overlap() const {
  std::vector<const StoredTensor*> sorted;
  sorted.reserve(tensors_.size());
  for (const StoredTensor& tensor : tensors_) {
    if (!tensor.bytes.empty()) sorted.push_back(&tensor);
  }
  std::sort(sorted.begin(), sorted.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(a->file, a->bytes.data()) < std::pair(b->file, b->bytes.data());
  });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const StoredTensor& before = *sorted[i - 1];
    const StoredTensor& tensor = *sorted[i];
    if (before.file == tensor.file && before.bytes.data() + before.bytes.size() > tensor.bytes.data()) {
      throw LoadError(path_of(tensor), tensor.name, "overlaps " + before.name);
    }
  }
}

const StoredTensor* TensorSource::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace reprise::models
