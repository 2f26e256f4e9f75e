#pragma once
// SnapshotFolder: a folder of records, with a subfolder for each namespace of a model and a file for each
// record. Several processes may use it at once, and each may be killed at any time.
//
//   DIR/lock                 held shared by writers of snapshots, exclusively by collection
//   DIR/<32 hex>/m<32 hex>   a manifest; mtime is the time of last use
//   DIR/<32 hex>/c<32 hex>   a chunk
//   DIR/<32 hex>/r<32 hex>   a sampled turn (protocol/sampled_turns.h); mtime is the time of last use
//   DIR/<32 hex>/n<32 hex>   a named snapshot (protocol/named_snapshots.h); mtime is its expiry
//   DIR/<32 hex>/t...        a temporary file with a random name; collection removes those of killed processes
// Folders have mode 0700, files 0600. A record is written to a temporary file, synced and renamed, so it is
// complete under its name. A manifest is written after all records it refers to, so its references exist
// unless they were collected.
//
// Failure: every failed call is reported, except in touch(), which only orders evictions. Interrupted calls are
// repeated.
//
// Threading: const functions may be called from any thread and block.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "protocol/snapshots/file_calls.h"
#include "protocol/snapshots/record.h"

namespace reprise::protocol::snapshots {

/// A failed system call.
struct IoTrouble {
  int code = 0;  // errno
  std::string message{};
};

enum class FileKind : char { kManifest = 'm', kChunk = 'c', kTurn = 'r', kName = 'n', kTemporary = 't' };

struct FolderFile {
  RecordId folder{};
  FileKind kind{};
  RecordId id{};  // unspecified for temporary files
  std::string name{};
  std::uint64_t bytes = 0;
  std::int64_t used = 0;               // seconds since 1970
  std::vector<RecordId> references{};  // set for manifests with a readable header
};

/// A file lock, held until it is destroyed or the process ends.
class FolderLock {
 public:
  FolderLock(std::shared_ptr<FileCalls> calls, int file) : calls_(std::move(calls)), file_(file) {}
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

 private:
  std::shared_ptr<FileCalls> calls_;
  int file_;
};

struct CollectionRules {
  std::uint64_t max_bytes = UINT64_MAX;
  std::chrono::seconds ttl{0};  // since the last use; 0: unlimited
  std::int64_t now = 0;         // seconds since 1970
};

struct Collection {
  std::vector<FolderFile> going{};  // files to remove, manifests before their chunks
  std::uint64_t bytes_left = 0;
  std::uint32_t expired = 0;  // number of expired manifests
  std::uint32_t evicted = 0;
};

/// Decides which files to remove: those past their time to live, chunks without a manifest, and then the
/// least recently used manifests (with chunks that no other manifest uses) and turns, until the rest fits.
/// Named snapshots are removed only when they have expired, because their writers bound their number.
///
/// Requires: `files` are all files, and no process is writing; otherwise chunks without a manifest may be in
/// use.
Collection plan_collection(std::vector<FolderFile> files, const CollectionRules& rules);

class SnapshotFolder {
 public:
  explicit SnapshotFolder(std::string path, std::shared_ptr<FileCalls> calls = FileCalls::system())
      : path_(std::move(path)), calls_(std::move(calls)) {}
  const std::string& path() const { return path_; }

  /// Creates the folder if it does not exist.
  std::optional<IoTrouble> prepare() const;

  /// Tests whether the folder can be written.
  std::optional<IoTrouble> probe() const;

  /// Do not wait. Return nothing if another lock conflicts.
  Outcome<std::optional<FolderLock>, IoTrouble> lock_shared() const;
  Outcome<std::optional<FolderLock>, IoTrouble> lock_alone() const;

  // -- records

  /// Returns a record. A file larger than `most` bytes is refused without being read.
  Outcome<std::vector<std::byte>, Refused> read(const RecordId& folder, FileKind kind, const RecordId& id,
                                                std::uint64_t most) const;
  /// Like read(), into `room`, which grows if needed. Returns a view of it.
  Outcome<std::span<const std::byte>, Refused> read_into(const RecordId& folder, FileKind kind,
                                                         const RecordId& id, std::uint64_t most,
                                                         std::vector<std::byte>& room) const;
  /// Writes and syncs a record atomically. Its name is durable after sync().
  std::optional<IoTrouble> write(const RecordId& folder, FileKind kind, const RecordId& id,
                                 std::span<const std::byte> bytes) const;
  /// Makes additions and removals in a namespace durable, and its folder itself.
  std::optional<IoTrouble> sync(const RecordId& folder) const;
  bool exists(const RecordId& folder, FileKind kind, const RecordId& id) const;
  /// Sets the time of last use to `ahead` from now, unless it is later already.
  void touch(const RecordId& folder, FileKind kind, const RecordId& id, std::chrono::seconds ahead) const;
  /// Returns nothing if the record does not exist afterwards.
  std::optional<IoTrouble> remove(const RecordId& folder, FileKind kind, const RecordId& id) const;

  // -- the whole folder

  /// Returns the names of a namespace's records; nothing if the folder cannot be read.
  std::optional<std::vector<RecordId>> records(const RecordId& folder, FileKind kind) const;
  std::optional<std::vector<RecordId>> manifests(const RecordId& folder) const {
    return records(folder, FileKind::kManifest);
  }
  /// Returns the time of the last addition or removal, in ns since 1970; 0: the folder does not exist; nothing
  /// if that cannot be determined now.
  std::optional<std::int64_t> changed(const RecordId& folder) const;
  /// Returns all records and temporary files in unspecified order. Skips other files. Fails rather than miss
  /// one, because chunks without a manifest are removed.
  Outcome<std::vector<FolderFile>, IoTrouble> scan() const;
  /// Removes what plan_collection() decides. Returns nothing if another process is writing. Manifests are gone
  /// durably before their chunks are removed.
  Outcome<std::optional<Collection>, IoTrouble> collect(const CollectionRules& rules) const;

 private:
  std::string folder_path(const RecordId& folder) const;
  std::string file_path(const RecordId& folder, FileKind kind, const RecordId& id) const;
  Outcome<std::optional<FolderLock>, IoTrouble> lock(int how) const;
  std::optional<IoTrouble> make_folder(const std::string& path) const;
  std::optional<IoTrouble> sync_folder(const std::string& path) const;
  std::optional<IoTrouble> remove_path(const std::string& path) const;
  /// Returns the references of a manifest file; none if it is malformed.
  Outcome<std::vector<RecordId>, IoTrouble> references_in(const std::string& path, std::uint64_t bytes) const;

  const std::string path_;
  const std::shared_ptr<FileCalls> calls_;
};

}  // namespace reprise::protocol::snapshots
