#pragma once
// A whole file mapped read-only.
//
// bytes() keeps its address when the object is moved; its length is the file's length at open().
//
// If another process truncates the file, reading past the new end kills this process (SIGBUS).
// check_not_shrunk(), called before the bytes are read, throws a LoadError instead; the loader does so before
// it reads a file's tensors.
//
// Threading: const access is thread-safe.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace reprise::models {

class MappedFile {
 public:
  /// Maps a regular file, which may be empty. Throws LoadError if it cannot be opened.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }

  /// Returns bytes [offset, offset + length). Throws a LoadError with `item` if they are not all in the file.
  std::span<const std::byte> bytes(std::uint64_t offset, std::uint64_t length, std::string_view item) const;

  /// Throws LoadError if the file has become shorter than the mapping.
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
