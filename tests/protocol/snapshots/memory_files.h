#pragma once
// MemoryFiles: a file system in memory, for tests of what failed calls and power failures leave behind.
//
// Contents are durable after sync() of the file, names after sync() of their folder, and a folder after sync() of the
// root. restart() loses everything else, as a power failure does.
//
// One call can be planned to fail, to be cut short, or to be the last before the power goes: then it and all after it
// fail, and nothing changes any more.
//
// Threading: any thread.

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "protocol/snapshots/file_calls.h"

namespace reprise::protocol::snapshots {

class MemoryFiles : public FileCalls {
 public:
  static constexpr const char* kRoot = "/store";
  static constexpr int kShort = -1;  // instead of an errno: half of the bytes are read or written
  static constexpr int kStop = -2;   // the power goes

  MemoryFiles() { folders_[kRoot]; }

  /// The call with this number, from 0, fails with `fault`.
  void plan(std::size_t call, int fault) {
    const std::lock_guard lock(mutex_);
    planned_ = call;
    fault_ = fault;
    calls_ = 0;
  }
  std::size_t calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  /// Drops what is not durable; with `names`, only contents: files have their names and what was synced of them.
  void restart(bool names) {
    const std::lock_guard lock(mutex_);
    stopped_ = false;
    planned_ = kNever;
    open_.clear();
    for (auto folder = folders_.begin(); folder != folders_.end();) {
      const bool stays = names || folder->first == kRoot || durable_folders_.contains(folder->first);
      folder = stays ? std::next(folder) : folders_.erase(folder);
    }
    for (auto& [path, folder] : folders_) {
      if (!names) folder.files = folder.durable;
      for (auto& [name, file] : folder.files) {
        file->bytes = file->durable;
        file->sharing = 0;
        file->alone = false;
      }
    }
  }

  int open(const std::string& path, int flags, mode_t) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return -1;
    Open opened;
    if (folders_.contains(path)) {
      opened.folder = path;
    } else {
      Folder* within = folder_of(path);
      if (within == nullptr || (flags & O_DIRECTORY) != 0) return error(ENOENT);
      std::shared_ptr<File>& file = within->files[name_of(path)];
      const bool is_new = file == nullptr;
      if (is_new && (flags & O_CREAT) == 0) {
        within->files.erase(name_of(path));
        return error(ENOENT);
      }
      if (!is_new && (flags & O_EXCL) != 0) return error(EEXIST);
      if (is_new) {
        file = std::make_shared<File>();
        file->used.tv_sec = ::time(nullptr);
        within->changed = ++ticks_;
      }
      opened.file = file;
    }
    open_[++last_] = opened;
    return last_;
  }
  int close(int number) override {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(number);
    if (found == open_.end()) return error(EBADF);
    if (found->second.holds == LOCK_SH) --found->second.file->sharing;
    if (found->second.holds == LOCK_EX) found->second.file->alone = false;
    open_.erase(found);
    return 0;
  }
  ssize_t read(int number, std::span<std::byte> to) override {
    const std::lock_guard lock(mutex_);
    const int fault = step();
    if (fault > 0) return error(fault);
    Open& opened = open_.at(number);
    std::size_t count = std::min(to.size(), opened.file->bytes.size() - opened.at);
    if (fault == kShort) count = (count + 1) / 2;
    std::copy_n(opened.file->bytes.begin() + static_cast<std::ptrdiff_t>(opened.at), count, to.begin());
    opened.at += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(int number, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    const int fault = step();
    if (fault > 0) return error(fault);
    Open& opened = open_.at(number);
    const std::size_t count = fault == kShort ? (bytes.size() + 1) / 2 : bytes.size();
    std::vector<std::byte>& all = opened.file->bytes;
    all.resize(std::max(all.size(), opened.at + count));
    std::copy_n(bytes.begin(), count, all.begin() + static_cast<std::ptrdiff_t>(opened.at));
    opened.at += count;
    return static_cast<ssize_t>(count);
  }
  int sync(int number) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return -1;
    const Open& opened = open_.at(number);
    if (opened.file) opened.file->durable = opened.file->bytes;
    if (opened.file) return 0;
    Folder& folder = folders_.at(opened.folder);
    folder.durable = folder.files;
    if (opened.folder != kRoot) return 0;
    for (const auto& [path, one] : folders_) durable_folders_.insert(path);
    return 0;
  }
  int sync_data(int number) override { return sync(number); }
  int lock(int number, int how) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return -1;
    Open& opened = open_.at(number);
    File& file = *opened.file;
    const bool shared = (how & LOCK_SH) != 0;
    if (file.alone || (!shared && file.sharing > 0)) return error(EWOULDBLOCK);
    if (shared) ++file.sharing;
    if (!shared) file.alone = true;
    opened.holds = shared ? LOCK_SH : LOCK_EX;
    return 0;
  }
  int status(int number, struct stat& about) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return -1;
    describe(*open_.at(number).file, about);
    return 0;
  }
  int status(const std::string& path, struct stat& about) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return -1;
    if (const auto folder = folders_.find(path); folder != folders_.end()) {
      about = {};
      about.st_mode = S_IFDIR | 0700;
      about.st_mtim.tv_nsec = folder->second.changed;
      return 0;
    }
    const std::shared_ptr<File> file = find(path);
    if (!file) return error(ENOENT);
    describe(*file, about);
    return 0;
  }
  int make_folder(const std::string& path, mode_t) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return -1;
    return folders_.try_emplace(path).second ? 0 : error(EEXIST);
  }
  int rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return -1;
    Folder* folder = folder_of(from);
    const std::shared_ptr<File> file = find(from);
    if (!file) return error(ENOENT);
    folder->files[name_of(to)] = file;
    folder->files.erase(name_of(from));
    folder->changed = ++ticks_;
    return 0;
  }
  int remove(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return -1;
    Folder* folder = folder_of(path);
    if (folder == nullptr || folder->files.erase(name_of(path)) == 0) return error(ENOENT);
    folder->changed = ++ticks_;
    return 0;
  }
  int set_times(const std::string& path, const timespec (&times)[2]) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return -1;
    const std::shared_ptr<File> file = find(path);
    if (!file) return error(ENOENT);
    file->used = times[1];
    return 0;
  }
  int list(const std::string& path, std::vector<std::string>& names) override {
    const std::lock_guard lock(mutex_);
    if (fails()) return -1;
    const auto folder = folders_.find(path);
    if (folder == folders_.end()) return error(ENOENT);
    for (const auto& [name, file] : folder->second.files) names.push_back(name);
    for (const auto& [other, one] : folders_) {
      if (other.starts_with(path + "/")) names.push_back(name_of(other));
    }
    return 0;
  }

 private:
  static constexpr std::size_t kNever = SIZE_MAX;
  struct File {
    std::vector<std::byte> bytes{}, durable{};
    timespec used{};
    int sharing = 0;  // holders of the lock
    bool alone = false;
  };
  using Files = std::map<std::string, std::shared_ptr<File>>;
  struct Folder {
    Files files{}, durable{};
    long changed = 0;
  };
  struct Open {
    std::shared_ptr<File> file{};  // null: a folder
    std::string folder{};
    std::size_t at = 0;
    int holds = 0;
  };

  static int error(int code) {
    errno = code;
    return -1;
  }
  static std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  static void describe(const File& file, struct stat& about) {
    about = {};
    about.st_mode = S_IFREG | 0600;
    about.st_size = static_cast<off_t>(file.bytes.size());
    about.st_mtim = file.used;
  }
  /// The fault of the call that begins: an errno, kShort, or 0.
  int step() {
    if (calls_++ == planned_) {
      if (fault_ != kStop) return fault_;
      stopped_ = true;
    }
    return stopped_ ? EIO : 0;
  }
  bool fails() {
    const int fault = step();
    if (fault > 0) errno = fault;
    return fault > 0;
  }
  Folder* folder_of(const std::string& path) {
    const auto found = folders_.find(path.substr(0, path.rfind('/')));
    return found == folders_.end() ? nullptr : &found->second;
  }
  std::shared_ptr<File> find(const std::string& path) {
    const Folder* folder = folder_of(path);
    if (folder == nullptr) return nullptr;
    const auto file = folder->files.find(name_of(path));
    return file == folder->files.end() ? nullptr : file->second;
  }

  std::mutex mutex_;  // guards the members below
  std::map<std::string, Folder> folders_;
  std::set<std::string> durable_folders_;
  std::map<int, Open> open_;
  int last_ = 2;
  long ticks_ = 0;
  std::size_t calls_ = 0, planned_ = kNever;
  int fault_ = 0;
  bool stopped_ = false;
};

}  // namespace reprise::protocol::snapshots
