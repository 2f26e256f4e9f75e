#pragma once
// A file that appears whole or not at all: written beside its place, moved there by finish(), and removed again
// where that is never called.
//
// Failure: std::runtime_error with the file's name, also for a file that is there already.
//
// Threading: one thread.

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::tools {

class NewFile {
 public:
  explicit NewFile(std::filesystem::path path) : path_(std::move(path)), part_(path_.string() + ".part") {
    if (std::filesystem::exists(path_)) throw std::runtime_error(path_.string() + " is there already");
    file_ = std::fopen(part_.c_str(), "wb");
    if (file_ == nullptr) fail();
  }
  ~NewFile() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(part_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, std::size_t size) {
    if (std::fwrite(data, 1, size, file_) != size) fail();
  }
  /// Zeros, which take no room where the file system has holes.
  void skip(std::uint64_t size) {
    if (size == 0) return;
    if (::fseeko(file_, static_cast<off_t>(size - 1), SEEK_CUR) != 0) fail();
    write("", 1);  // so that the file is as long
  }
  void finish() {
    if (std::fflush(file_) != 0) fail();
    std::filesystem::rename(part_, path_);
    std::fclose(file_);
    file_ = nullptr;
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(part_ + ": " + std::strerror(errno)); }

  std::filesystem::path path_;
  std::string part_;
  std::FILE* file_ = nullptr;
};

}  // namespace reprise::tools
