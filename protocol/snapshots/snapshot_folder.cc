#include "protocol/snapshots/snapshot_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <new>
#include <utility>

namespace reprise::protocol::snapshots {
namespace {

IoTrouble trouble(const std::string& what) {
  const int code = errno;
  return {code, what + ": " + std::strerror(code)};
}

/// A file descriptor that is closed on destruction.
class OpenFile {
 public:
  explicit OpenFile(int number) : number_(number) {}
  ~OpenFile() {
    if (number_ >= 0) ::close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

bool read_fully(int file, std::byte* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::read(file, to, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_fully(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

/// Returns the names in a folder; empty if it cannot be read.
std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (!folder) return names;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

std::vector<RecordId> references_in(const std::string& path, std::uint64_t bytes) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::vector<std::byte> head(kRecordHead);
  if (!file || bytes < head.size() || !read_fully(file.number(), head.data(), head.size())) return {};
  if (stated_bytes(head).value_or(0) != bytes) return {};
  std::uint32_t count = 0;
  std::memcpy(&count, head.data() + 12, sizeof count);
  head.resize(kRecordHead + 16 * std::size_t{count});
  if (!read_fully(file.number(), head.data() + kRecordHead, head.size() - kRecordHead)) return {};
  auto read = read_head(head, bytes);
  return read.ok() ? std::move(read->references) : std::vector<RecordId>{};
}

std::optional<IoTrouble> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return std::nullopt;
  return trouble("cannot make " + path);
}

}  // namespace

FolderLock::FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}
FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

std::string SnapshotFolder::folder_path(const RecordId& folder) const {
  return path_ + "/" + folder.hex();
}
std::string SnapshotFolder::file_path(const RecordId& folder, FileKind kind, const RecordId& id) const {
  return folder_path(folder) + "/" + static_cast<char>(kind) + id.hex();
}

std::optional<IoTrouble> SnapshotFolder::prepare() const {
  for (std::size_t slash = path_.find('/', 1); slash != std::string::npos;
       slash = path_.find('/', slash + 1)) {
    if (auto failed = make_folder(path_.substr(0, slash)); failed && failed->code != EROFS) return failed;
  }
  return make_folder(path_);
}

std::optional<IoTrouble> SnapshotFolder::probe() const {
  const std::string path = path_ + "/probe" + std::to_string(::getpid());
  const OpenFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return trouble("cannot make " + path);
  const std::vector<std::byte> bytes(64u << 10);
  std::optional<IoTrouble> failed;
  if (!write_fully(file.number(), bytes) || ::fsync(file.number()) != 0)
    failed = trouble("cannot write " + path);
  ::unlink(path.c_str());
  return failed;
}

std::optional<FolderLock> SnapshotFolder::lock(int how) const {
  OpenFile file(::open((path_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || ::flock(file.number(), how | LOCK_NB) != 0) return std::nullopt;
  return FolderLock(file.release());
}
std::optional<FolderLock> SnapshotFolder::lock_shared() const {
  return lock(LOCK_SH);
}
std::optional<FolderLock> SnapshotFolder::lock_alone() const {
  return lock(LOCK_EX);
}

// -- records

Outcome<std::vector<std::byte>, Refused> SnapshotFolder::read(const RecordId& folder, FileKind kind,
                                                              const RecordId& id, std::uint64_t most) const {
  std::vector<std::byte> contents;
  const auto read = read_into(folder, kind, id, most, contents);
  if (!read.ok()) return read.error();
  contents.resize(read->size());
  return contents;
}

Outcome<std::span<const std::byte>, Refused> SnapshotFolder::read_into(const RecordId& folder, FileKind kind,
                                                                       const RecordId& id, std::uint64_t most,
                                                                       std::vector<std::byte>& buffer) const {
  const std::string path = file_path(folder, kind, id);
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) {
    const bool gone = errno == ENOENT;
    return Refused{gone ? Refusal::kMissing : Refusal::kIo, trouble("cannot open " + path).message};
  }
  struct stat about {};
  if (::fstat(file.number(), &about) != 0) return Refused{Refusal::kIo, trouble(path).message};
  const auto bytes = static_cast<std::uint64_t>(about.st_size);
  if (bytes > most) return Refused{Refusal::kSize, path + " is larger than a record can be"};
  if (buffer.size() < bytes) {
    buffer.clear();  // so that resize() copies nothing
    try {
      buffer.resize(bytes);
    } catch (const std::bad_alloc&) {
      return Refused{Refusal::kIo, "there is no memory to read " + path};
    }
  }
  if (!read_fully(file.number(), buffer.data(), bytes)) {
    return Refused{Refusal::kIo, trouble("cannot read " + path).message};
  }
  return std::span<const std::byte>(buffer).first(bytes);
}

std::optional<IoTrouble> SnapshotFolder::write(const RecordId& folder, FileKind kind, const RecordId& id,
                                               std::span<const std::byte> bytes) const {
  static std::atomic<std::uint64_t> last{0};  // relaxed: only makes names unique
  const std::string within = folder_path(folder);
  if (auto failed = make_folder(within)) return failed;
  const std::string temporary = within + "/t" + std::to_string(::getpid()) + "-" +
                                std::to_string(last.fetch_add(1, std::memory_order_relaxed));
  const std::string path = file_path(folder, kind, id);
  const auto fail = [&](const std::string& what) {
    IoTrouble failed = trouble(what);
    ::unlink(temporary.c_str());
    return failed;
  };
  {
    const OpenFile file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return trouble("cannot make " + temporary);
    if (!write_fully(file.number(), bytes)) return fail("cannot write " + temporary);
    if (::fdatasync(file.number()) != 0) return fail("cannot sync " + temporary);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail("cannot rename to " + path);
  return std::nullopt;
}

std::optional<IoTrouble> SnapshotFolder::sync(const RecordId& folder) const {
  const std::string path = folder_path(folder);
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file || ::fsync(file.number()) != 0) return trouble("cannot sync " + path);
  return std::nullopt;
}

bool SnapshotFolder::exists(const RecordId& folder, FileKind kind, const RecordId& id) const {
  return ::access(file_path(folder, kind, id).c_str(), F_OK) == 0;
}

void SnapshotFolder::touch(const RecordId& folder, FileKind kind, const RecordId& id,
                           std::chrono::seconds ahead) const {
  const std::string path = file_path(folder, kind, id);
  timespec used{};
  struct stat about {};
  if (::clock_gettime(CLOCK_REALTIME, &used) != 0 || ::lstat(path.c_str(), &about) != 0) return;
  used.tv_sec += ahead.count();
  if (about.st_mtim.tv_sec > used.tv_sec) return;
  const timespec times[2] = {used, used};
  static_cast<void>(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW));
}

void SnapshotFolder::remove(const RecordId& folder, FileKind kind, const RecordId& id) const {
  static_cast<void>(::unlink(file_path(folder, kind, id).c_str()));
}

// -- the whole folder

std::vector<RecordId> SnapshotFolder::records(const RecordId& folder, FileKind kind) const {
  std::vector<RecordId> found;
  for (const std::string& name : names_in(folder_path(folder))) {
    if (name.front() != static_cast<char>(kind)) continue;
    if (const auto id = RecordId::from_hex(name.substr(1))) found.push_back(*id);
  }
  return found;
}

std::int64_t SnapshotFolder::changed(const RecordId& folder) const {
  struct stat about {};
  if (::stat(folder_path(folder).c_str(), &about) != 0) return 0;
  return about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec;
}

std::vector<FolderFile> SnapshotFolder::scan() const {
  std::vector<FolderFile> files;
  for (const std::string& folder_name : names_in(path_)) {
    const auto folder = RecordId::from_hex(folder_name);
    if (!folder) continue;
    for (const std::string& name : names_in(path_ + "/" + folder_name)) {
      FolderFile file{.folder = *folder, .kind = static_cast<FileKind>(name.front()), .name = name};
      const auto id = RecordId::from_hex(name.substr(1));
      const bool is_record = file.kind == FileKind::kManifest || file.kind == FileKind::kChunk ||
                             file.kind == FileKind::kTurn || file.kind == FileKind::kName;
      const bool known = file.kind == FileKind::kTemporary || (id && is_record);
      const std::string path = path_ + "/" + folder_name + "/" + name;
      struct stat about {};
      if (!known || ::lstat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) continue;
      if (id) file.id = *id;
      file.bytes = static_cast<std::uint64_t>(about.st_size);
      file.used = about.st_mtim.tv_sec;
      if (file.kind == FileKind::kManifest) file.references = references_in(path, file.bytes);
      files.push_back(std::move(file));
    }
  }
  return files;
}

void SnapshotFolder::remove(const FolderFile& file) const {
  static_cast<void>(::unlink((folder_path(file.folder) + "/" + file.name).c_str()));
}

// -- collection

namespace {

// seconds a writer may take until its file is renamed or its mtime set
constexpr std::int64_t kMaxWriteTime = 600;

}  // namespace

Collection plan_collection(std::vector<FolderFile> files, const CollectionRules& rules) {
  using RecordPath = std::pair<RecordId, RecordId>;  // folder, record name
  Collection plan;
  std::map<RecordPath, std::uint32_t> holders;
  std::map<RecordPath, FolderFile*> chunks;
  std::vector<FolderFile*> roots;  // manifests and turns
  for (FolderFile& file : files) {
    plan.bytes_left += file.bytes;
    if (file.kind == FileKind::kManifest || file.kind == FileKind::kTurn) roots.push_back(&file);
    if (file.kind == FileKind::kChunk) chunks[{file.folder, file.id}] = &file;
  }
  for (const FolderFile* root : roots) {
    for (const RecordId& chunk : root->references) ++holders[{root->folder, chunk}];
  }
  const auto go = [&](FolderFile& file) {
    plan.bytes_left -= file.bytes;
    plan.going.push_back(std::move(file));
  };
  const auto drop = [&](FolderFile& root) {
    const RecordId folder = root.folder;
    const std::vector<RecordId> references = root.references;
    go(root);
    for (const RecordId& chunk : references) {
      if (--holders[{folder, chunk}] > 0) continue;
      const auto found = chunks.find({folder, chunk});
      if (found == chunks.end()) continue;
      go(*found->second);
      chunks.erase(found);
    }
  };
  for (FolderFile& file : files) {
    const bool ends = file.kind == FileKind::kTemporary || file.kind == FileKind::kName;
    if (ends && file.used + kMaxWriteTime < rules.now) go(file);
  }
  for (auto chunk = chunks.begin(); chunk != chunks.end();) {
    const bool wanted = holders.contains(chunk->first);
    if (!wanted) go(*chunk->second);
    chunk = wanted ? std::next(chunk) : chunks.erase(chunk);
  }
  std::sort(roots.begin(), roots.end(), [](const FolderFile* a, const FolderFile* b) {
    return std::tie(a->used, a->id) < std::tie(b->used, b->id);
  });
  for (FolderFile* root : roots) {
    const bool expired = rules.ttl.count() > 0 && root->used + rules.ttl.count() < rules.now;
    if (!expired && plan.bytes_left <= rules.max_bytes) break;
    if (root->kind == FileKind::kManifest) ++(expired ? plan.expired : plan.evicted);
    drop(*root);
  }
  return plan;
}

}  // namespace reprise::protocol::snapshots
