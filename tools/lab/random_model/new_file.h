#pragma once
// A file that appears complete or not at all: written to a temporary path, renamed by finish(), and deleted
// without it.
//
// Throws std::runtime_error with the file's name, also if the file exists.

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
  /// Appends zeros, as a hole if the file system supports holes.
  void skip(std::uint64_t size) {
    if (size == 0) return;
    if (::fseeko(file_, static_cast<off_t>(size - 1), SEEK_CUR) != 0) fail();
    write("", 1);  // extends the file to its length
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
