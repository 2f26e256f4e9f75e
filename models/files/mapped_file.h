#pragma once
// A file mapped read-only into memory, whole.
//
// Invariants: bytes() stays at the same address until the object is destroyed, also when the object is moved;
// its length is the file's length when it was opened.
//
// A file that another process truncates while it is mapped cannot be read safely: touching a page past the
// new end kills the process (SIGBUS). check_not_shrunk() turns that into a LoadError when it is called before
// the bytes are touched; the checkpoint does so before it reads a file's tensors.
//
// Threading: const access from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace reprise::models {

class MappedFile {
 public:
  /// Maps the regular file at `path`; an empty file gives no bytes. LoadError when it cannot be opened.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }

  /// The bytes [offset, offset + length); LoadError naming `item` when they are not all in the file.
  std::span<const std::byte> bytes(std::uint64_t offset, std::uint64_t length, std::string_view item) const;

  /// LoadError when the file is now shorter than the mapping.
  void check_not_shrunk() const;

 private:
  MappedFile(std::string path, int descriptor, const std::byte* data, std::uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), data_(data), size_(size) {}

  std::string path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace reprise::models
