#include "protocol/snapshots/snapshot_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <new>
#include <set>
#include <utility>

namespace reprise::protocol::snapshots {
namespace {

constexpr int kRead = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
constexpr int kMake = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;

IoTrouble trouble(const std::string& what) {
  const int code = errno;
  return {code, what + ": " + std::strerror(code)};
}

/// Repeats a call while signals interrupt it.
template <class Call>
auto uninterrupted(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

/// A file descriptor that is closed on destruction.
class OpenFile {
 public:
  OpenFile(FileCalls& calls, const std::string& path, int flags)
      : calls_(calls), number_(uninterrupted([&] { return calls.open(path, flags, 0600); })) {}
  ~OpenFile() {
    if (number_ >= 0) calls_.close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }

  /// Returns true if all bytes were read; errno says why not, 0: the file ended.
  bool read(std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t got = uninterrupted([&] { return calls_.read(number_, to); });
      if (got == 0) errno = 0;
      if (got <= 0) return false;
      to = to.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }
  bool write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t put = uninterrupted([&] { return calls_.write(number_, bytes); });
      if (put == 0) errno = EIO;
      if (put <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
    return true;
  }
  bool sync() const {
    return uninterrupted([&] { return calls_.sync(number_); }) == 0;
  }
  bool sync_data() const {
    return uninterrupted([&] { return calls_.sync_data(number_); }) == 0;
  }
  bool lock(int how) const {
    return uninterrupted([&] { return calls_.lock(number_, how); }) == 0;
  }
  bool status(struct stat& about) const {
    return uninterrupted([&] { return calls_.status(number_, about); }) == 0;
  }

 private:
  FileCalls& calls_;
  int number_;
};

bool path_status(FileCalls& calls, const std::string& path, struct stat& about) {
  return uninterrupted([&] { return calls.status(path, about); }) == 0;
}

bool names_in(FileCalls& calls, const std::string& path, std::vector<std::string>& names) {
  return uninterrupted([&] {
           names.clear();
           return calls.list(path, names);
         }) == 0;
}

}  // namespace

FolderLock::FolderLock(FolderLock&& other) noexcept
    : calls_(std::move(other.calls_)), file_(std::exchange(other.file_, -1)) {}
FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(calls_, other.calls_);
  std::swap(file_, other.file_);
  return *this;
}
FolderLock::~FolderLock() {
  if (file_ >= 0) calls_->close(file_);
}

std::string SnapshotFolder::folder_path(const RecordId& folder) const {
  return path_ + "/" + folder.hex();
}
std::string SnapshotFolder::file_path(const RecordId& folder, FileKind kind, const RecordId& id) const {
  return folder_path(folder) + "/" + static_cast<char>(kind) + id.hex();
}

std::optional<IoTrouble> SnapshotFolder::make_folder(const std::string& path) const {
  if (uninterrupted([&] { return calls_->make_folder(path, 0700); }) == 0 || errno == EEXIST) {
    return std::nullopt;
  }
  return trouble("cannot make " + path);
}

std::optional<IoTrouble> SnapshotFolder::sync_folder(const std::string& path) const {
  const OpenFile file(*calls_, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!file || !file.sync()) return trouble("cannot sync " + path);
  return std::nullopt;
}

std::optional<IoTrouble> SnapshotFolder::remove_path(const std::string& path) const {
  if (uninterrupted([&] { return calls_->remove(path); }) == 0 || errno == ENOENT) return std::nullopt;
  return trouble("cannot remove " + path);
}

std::optional<IoTrouble> SnapshotFolder::prepare() const {
  for (std::size_t slash = path_.find('/', 1); slash != std::string::npos;
       slash = path_.find('/', slash + 1)) {
    if (auto failed = make_folder(path_.substr(0, slash)); failed && failed->code != EROFS) return failed;
  }
  return make_folder(path_);
}

// All processes probe with the same file, so that killed ones leave one at most. Its contents do not matter.
std::optional<IoTrouble> SnapshotFolder::probe() const {
  const std::string path = path_ + "/probe";
  const OpenFile file(*calls_, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW);
  if (!file) return trouble("cannot make " + path);
  const std::vector<std::byte> bytes(64u << 10);
  std::optional<IoTrouble> failed;
  if (!file.write(bytes) || !file.sync()) failed = trouble("cannot write " + path);
  static_cast<void>(remove_path(path));
  return failed;
}

Outcome<std::optional<FolderLock>, IoTrouble> SnapshotFolder::lock(int how) const {
  const std::string path = path_ + "/lock";
  OpenFile file(*calls_, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW);
  if (!file) return trouble("cannot open " + path);
  if (!file.lock(how | LOCK_NB)) {
    if (errno == EWOULDBLOCK) return std::optional<FolderLock>();
    return trouble("cannot lock " + path);
  }
  return std::optional<FolderLock>(std::in_place, calls_, file.release());
}
Outcome<std::optional<FolderLock>, IoTrouble> SnapshotFolder::lock_shared() const {
  return lock(LOCK_SH);
}
Outcome<std::optional<FolderLock>, IoTrouble> SnapshotFolder::lock_alone() const {
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
                                                                       std::vector<std::byte>& room) const {
  const std::string path = file_path(folder, kind, id);
  const OpenFile file(*calls_, path, kRead);
  if (!file) {
    const bool gone = errno == ENOENT;
    return Refused{gone ? Refusal::kMissing : Refusal::kIo, trouble("cannot open " + path).message};
  }
  struct stat about {};
  if (!file.status(about)) return Refused{Refusal::kIo, trouble(path).message};
  const auto bytes = static_cast<std::uint64_t>(about.st_size);
  if (bytes > most) return Refused{Refusal::kSize, path + " is larger than a record can be"};
  if (room.size() < bytes) {
    room.clear();  // so that resize() copies nothing
    try {
      room.resize(bytes);
    } catch (const std::bad_alloc&) {
      return Refused{Refusal::kIo, "there is no memory to read " + path};
    }
  }
  if (!file.read(std::span(room).first(bytes))) {
    return Refused{Refusal::kIo, trouble("cannot read " + path).message};
  }
  return std::span<const std::byte>(room).first(bytes);
}

std::optional<IoTrouble> SnapshotFolder::write(const RecordId& folder, FileKind kind, const RecordId& id,
                                               std::span<const std::byte> bytes) const {
  const std::string within = folder_path(folder);
  if (auto failed = make_folder(within)) return failed;
  // A random name, because processes in other containers or machines may have the same process ID.
  const std::string temporary = within + "/t" + random_id().hex();
  const std::string path = file_path(folder, kind, id);
  const auto fail = [&](const std::string& what) {
    IoTrouble failed = trouble(what);
    static_cast<void>(remove_path(temporary));
    return failed;
  };
  {
    const OpenFile file(*calls_, temporary, kMake);
    if (!file) return trouble("cannot make " + temporary);
    if (!file.write(bytes)) return fail("cannot write " + temporary);
    if (!file.sync_data()) return fail("cannot sync " + temporary);
  }
  if (uninterrupted([&] { return calls_->rename(temporary, path); }) != 0) {
    return fail("cannot rename to " + path);
  }
  return std::nullopt;
}

// The parent as well: this or another process may just have made the namespace's folder.
std::optional<IoTrouble> SnapshotFolder::sync(const RecordId& folder) const {
  if (auto failed = sync_folder(folder_path(folder))) return failed;
  return sync_folder(path_);
}

bool SnapshotFolder::exists(const RecordId& folder, FileKind kind, const RecordId& id) const {
  struct stat about {};
  return path_status(*calls_, file_path(folder, kind, id), about);
}

void SnapshotFolder::touch(const RecordId& folder, FileKind kind, const RecordId& id,
                           std::chrono::seconds ahead) const {
  const std::string path = file_path(folder, kind, id);
  timespec used{};
  struct stat about {};
  if (::clock_gettime(CLOCK_REALTIME, &used) != 0 || !path_status(*calls_, path, about)) return;
  used.tv_sec += ahead.count();
  if (about.st_mtim.tv_sec > used.tv_sec) return;
  const timespec times[2] = {used, used};
  static_cast<void>(uninterrupted([&] { return calls_->set_times(path, times); }));
}

std::optional<IoTrouble> SnapshotFolder::remove(const RecordId& folder, FileKind kind,
                                                const RecordId& id) const {
  return remove_path(file_path(folder, kind, id));
}

// -- the whole folder

std::optional<std::vector<RecordId>> SnapshotFolder::records(const RecordId& folder, FileKind kind) const {
  std::vector<std::string> names;
  std::vector<RecordId> found;
  if (!names_in(*calls_, folder_path(folder), names)) {
    return errno == ENOENT ? std::optional(found) : std::nullopt;
  }
  for (const std::string& name : names) {
    if (name.front() != static_cast<char>(kind)) continue;
    if (const auto id = RecordId::from_hex(name.substr(1))) found.push_back(*id);
  }
  return found;
}

std::optional<std::int64_t> SnapshotFolder::changed(const RecordId& folder) const {
  struct stat about {};
  if (!path_status(*calls_, folder_path(folder), about)) {
    return errno == ENOENT ? std::optional<std::int64_t>(0) : std::nullopt;
  }
  return about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec;
}

Outcome<std::vector<RecordId>, IoTrouble> SnapshotFolder::references_in(const std::string& path,
                                                                        std::uint64_t bytes) const {
  const std::vector<RecordId> none;
  const OpenFile file(*calls_, path, kRead);
  if (!file) return trouble("cannot open " + path);
  std::vector<std::byte> head(kRecordHead);
  if (bytes < head.size()) return none;
  if (!file.read(head)) return trouble("cannot read " + path);
  if (stated_bytes(head).value_or(0) != bytes) return none;
  std::uint32_t count = 0;
  std::memcpy(&count, head.data() + 12, sizeof count);
  head.resize(kRecordHead + 16 * std::size_t{count});
  if (!file.read(std::span(head).subspan(kRecordHead))) return trouble("cannot read " + path);
  auto read = read_head(head, bytes);
  return read.ok() ? std::move(read->references) : none;
}

Outcome<std::vector<FolderFile>, IoTrouble> SnapshotFolder::scan() const {
  std::vector<FolderFile> files;
  std::vector<std::string> folders, names;
  if (!names_in(*calls_, path_, folders)) return trouble("cannot read " + path_);
  for (const std::string& folder_name : folders) {
    const auto folder = RecordId::from_hex(folder_name);
    if (!folder) continue;
    const std::string within = path_ + "/" + folder_name;
    if (!names_in(*calls_, within, names)) return trouble("cannot read " + within);
    for (const std::string& name : names) {
      FolderFile file{.folder = *folder, .kind = static_cast<FileKind>(name.front()), .name = name};
      const auto id = RecordId::from_hex(name.substr(1));
      const bool is_record = file.kind == FileKind::kManifest || file.kind == FileKind::kChunk ||
                             file.kind == FileKind::kTurn || file.kind == FileKind::kName;
      const std::string path = within + "/" + name;
      struct stat about {};
      if (file.kind != FileKind::kTemporary && !(id && is_record)) continue;
      if (!path_status(*calls_, path, about)) {
        if (errno == ENOENT) continue;  // removed meanwhile
        return trouble("cannot read " + path);
      }
      if (!S_ISREG(about.st_mode)) continue;
      if (id) file.id = *id;
      file.bytes = static_cast<std::uint64_t>(about.st_size);
      file.used = about.st_mtim.tv_sec;
      if (file.kind == FileKind::kManifest) {
        auto references = references_in(path, file.bytes);
        if (!references.ok() && references.error().code == ENOENT) continue;
        if (!references.ok()) return references.error();
        file.references = std::move(*references);
      }
      files.push_back(std::move(file));
    }
  }
  return files;
}

Outcome<std::optional<Collection>, IoTrouble> SnapshotFolder::collect(const CollectionRules& rules) const {
  const auto alone = lock_alone();
  if (!alone.ok()) return alone.error();
  if (!*alone) return std::optional<Collection>();
  auto files = scan();
  if (!files.ok()) return files.error();
  Collection plan = plan_collection(std::move(*files), rules);
  std::set<RecordId> changed;  // folders
  for (const bool chunks : {false, true}) {
    for (const FolderFile& file : plan.going) {
      if ((file.kind == FileKind::kChunk) != chunks) continue;
      if (auto failed = remove_path(folder_path(file.folder) + "/" + file.name)) return *failed;
      changed.insert(file.folder);
    }
    for (const RecordId& folder : std::exchange(changed, {})) {
      if (chunks) continue;  // a chunk that comes back is collected again
      if (auto failed = sync_folder(folder_path(folder))) return *failed;
    }
  }
  return std::optional(std::move(plan));
}

// -- collection

namespace {

// seconds a writer may take until its file is renamed or its mtime set
constexpr std::int64_t kMaxWriteTime = 600;

}  // namespace

Collection plan_collection(std::vector<FolderFile> files, const CollectionRules& rules) {
  using Place = std::pair<RecordId, RecordId>;  // folder, record name
  Collection plan;
  std::map<Place, std::uint32_t> holders;
  std::map<Place, FolderFile*> chunks;
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
