#include "protocol/snapshots/file_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <string_view>

namespace reprise::protocol::snapshots {

const std::shared_ptr<FileCalls>& FileCalls::system() {
  static const auto calls = std::make_shared<FileCalls>();
  return calls;
}

int FileCalls::open(const std::string& path, int flags, mode_t mode) {
  return ::open(path.c_str(), flags, mode);
}
int FileCalls::close(int file) {
  return ::close(file);
}
ssize_t FileCalls::read(int file, std::span<std::byte> to) {
  return ::read(file, to.data(), to.size());
}
ssize_t FileCalls::write(int file, std::span<const std::byte> bytes) {
  return ::write(file, bytes.data(), bytes.size());
}
int FileCalls::sync(int file) {
  return ::fsync(file);
}
int FileCalls::sync_data(int file) {
  return ::fdatasync(file);
}
int FileCalls::lock(int file, int how) {
  return ::flock(file, how);
}
int FileCalls::status(int file, struct stat& about) {
  return ::fstat(file, &about);
}
int FileCalls::status(const std::string& path, struct stat& about) {
  return ::lstat(path.c_str(), &about);
}
int FileCalls::make_folder(const std::string& path, mode_t mode) {
  return ::mkdir(path.c_str(), mode);
}
int FileCalls::rename(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str());
}
int FileCalls::remove(const std::string& path) {
  return ::unlink(path.c_str());
}
int FileCalls::set_times(const std::string& path, const timespec (&times)[2]) {
  return ::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

int FileCalls::list(const std::string& path, std::vector<std::string>& names) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (!folder) return -1;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) return errno == 0 ? 0 : -1;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

}  // namespace reprise::protocol::snapshots
