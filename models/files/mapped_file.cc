#include "models/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "models/files/load_error.h"

namespace reprise::models {

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const std::string name = path.string();
  // O_NONBLOCK: opening a pipe must not block; it is rejected below.
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw LoadError(name, "", std::string("cannot be opened: ") + std::strerror(errno));

  MappedFile file(name, descriptor, nullptr, 0);  // closes the descriptor if anything below throws
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw LoadError(name, "", "its size cannot be read");
  if (!S_ISREG(status.st_mode)) throw LoadError(name, "", "is not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > std::numeric_limits<std::size_t>::max() / 2) throw LoadError(name, "", "is too large to map");
  if (size == 0) return file;

  void* data = ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) throw LoadError(name, "", std::string("cannot be mapped: ") + std::strerror(errno));
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::span<const std::byte> MappedFile::bytes(std::uint64_t offset, std::uint64_t length,
                                             std::string_view item) const {
  if (offset > size_ || length > size_ - offset) {
    throw LoadError(path_, item,
                    "bytes " + std::to_string(offset) + " to " + std::to_string(offset + length) +
                        " do not lie in the file, which has " + std::to_string(size_));
  }
  return {data_ + offset, static_cast<std::size_t>(length)};
}

void MappedFile::check_not_shrunk() const {
  struct stat status {};
  if (descriptor_ < 0) return;
  if (::fstat(descriptor_, &status) != 0) throw LoadError(path_, "", "its size cannot be read");
  if (static_cast<std::uint64_t>(status.st_size) < size_) {
    throw LoadError(path_, "", "has shrunk since it was opened");
  }
}

}  // namespace reprise::models
