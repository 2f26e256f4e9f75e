#pragma once
// FileCalls: the system calls that a snapshot folder makes. Tests replace them: a call fails, is cut short, or is
// the last before the power goes.
//
// Each returns what the system call returns, with errno set where that is -1. `system()` is the process's own.
//
// Threading: any thread.

#include <sys/stat.h>
#include <sys/types.h>
#include <cstddef>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace reprise::protocol::snapshots {

class FileCalls {
 public:
  static const std::shared_ptr<FileCalls>& system();
  virtual ~FileCalls() = default;

  virtual int open(const std::string& path, int flags, mode_t mode);
  virtual int close(int file);
  virtual ssize_t read(int file, std::span<std::byte> to);
  virtual ssize_t write(int file, std::span<const std::byte> bytes);
  virtual int sync(int file);           // fsync
  virtual int sync_data(int file);      // fdatasync
  virtual int lock(int file, int how);  // flock
  virtual int status(int file, struct stat& about);
  virtual int status(const std::string& path, struct stat& about);  // lstat
  virtual int make_folder(const std::string& path, mode_t mode);
  virtual int rename(const std::string& from, const std::string& to);
  virtual int remove(const std::string& path);  // unlink
  virtual int set_times(const std::string& path, const timespec (&times)[2]);
  /// Appends the names in a folder, without "." and "..".
  virtual int list(const std::string& path, std::vector<std::string>& names);
};

}  // namespace reprise::protocol::snapshots
