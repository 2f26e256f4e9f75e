#pragma once
// A folder of records: a sub-folder for each namespace of a model, a file for each record. Several processes may use
// it at once, and any of them may be killed at any moment.
//
//   DIR/lock                 who writes a snapshot shares it, who collects has it alone
//   DIR/<32 hex>/m<32 hex>   a manifest; its time of change is that of its last use
//   DIR/<32 hex>/c<32 hex>   a chunk
//   DIR/<32 hex>/r<32 hex>   a turn as it was sampled (protocol/sampled_turns.h); its time of change as a manifest's
//   DIR/<32 hex>/n<32 hex>   a named snapshot (protocol/named_snapshots.h); its time of change is when it expires
//   DIR/<32 hex>/t...        on its way; what a killed process left is removed by who collects
// Folders are 0700, files 0600. A record is written under another name, synced and renamed: under its own it is whole.
// A manifest is written when all that it refers to is there, so nothing that is found leads nowhere, unless it was
// collected.
//
// Threading: const functions from any thread; they block. plan_collection() is a pure function.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/snapshots/record.h"

namespace reprise::protocol::snapshots {

/// What the system refused.
struct IoTrouble {
  int code = 0;  // errno
  std::string message{};
};

enum class FileKind : char { kManifest = 'm', kChunk = 'c', kTurn = 'r', kName = 'n', kTemporary = 't' };

struct FolderFile {
  RecordId folder{};
  FileKind kind{};
  RecordId id{};       // without meaning for a temporary one
  std::string name{};  // of the file
  std::uint64_t bytes = 0;
  std::int64_t used = 0;               // seconds since 1970
  std::vector<RecordId> references{};  // of a manifest whose head can be read
};

/// Held until its end, or the process's.
class FolderLock {
 public:
  explicit FolderLock(int file) : file_(file) {}
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

 private:
  int file_;
};

class SnapshotFolder {
 public:
  explicit SnapshotFolder(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  /// Makes the folder where it is not there.
  std::optional<IoTrouble> prepare() const;

  /// Whether something can be written now.
  std::optional<IoTrouble> probe() const;

  /// Without waiting: nothing where another process is in the way, or there is no lock to be had.
  std::optional<FolderLock> lock_shared() const;
  std::optional<FolderLock> lock_alone() const;

  // -- records

  /// At most `most` bytes of file; one that is larger is refused unread.
  Outcome<std::vector<std::byte>, Refused> read(const RecordId& folder, FileKind kind, const RecordId& id,
                                                std::uint64_t most) const;
  /// The same, into `room`, which grows where it must.
  Outcome<std::span<const std::byte>, Refused> read_into(const RecordId& folder, FileKind kind,
                                                         const RecordId& id, std::uint64_t most,
                                                         std::vector<std::byte>& room) const;
  /// Whole and synced, or not at all. Its name lasts when sync() has been called.
  std::optional<IoTrouble> write(const RecordId& folder, FileKind kind, const RecordId& id,
                                 std::span<const std::byte> bytes) const;
  std::optional<IoTrouble> sync(const RecordId& folder) const;
  bool exists(const RecordId& folder, FileKind kind, const RecordId& id) const;
  /// It counts as used `ahead` from now, unless it does so later already.
  void touch(const RecordId& folder, FileKind kind, const RecordId& id, std::chrono::seconds ahead) const;
  void remove(const RecordId& folder, FileKind kind, const RecordId& id) const;

  // -- all of it

  /// Names of a namespace's records of that kind.
  std::vector<RecordId> records(const RecordId& folder, FileKind kind) const;
  std::vector<RecordId> manifests(const RecordId& folder) const {
    return records(folder, FileKind::kManifest);
  }
  /// When something was added to it or removed from it last; 0: it is not there.
  std::int64_t changed(const RecordId& folder) const;
  /// Everything, in no order. What is no record of ours is left out.
  std::vector<FolderFile> scan() const;
  void remove(const FolderFile& file) const;

 private:
  std::string folder_path(const RecordId& folder) const;
  std::string file_path(const RecordId& folder, FileKind kind, const RecordId& id) const;
  std::optional<FolderLock> lock(int how) const;

  const std::string path_;
};

struct CollectionRules {
  std::uint64_t most_bytes = UINT64_MAX;
  std::chrono::seconds ttl{0};  // since the last use; 0: for ever
  std::int64_t now = 0;         // seconds since 1970
};

struct Collection {
  std::vector<FolderFile> going{};  // manifests before their chunks
  std::uint64_t bytes_left = 0;
  std::uint32_t expired = 0;  // manifests
  std::uint32_t evicted = 0;
};

/// What of a folder goes: what outlived its time, what nothing refers to, and the least recently used manifests, with
/// the chunks that are theirs alone, and turns, until the rest stays within a bound. Names of snapshots go when they have
/// expired, and not before: their writers bound them.
///
/// Of all files there are, while nobody writes: chunks that no manifest refers to are of no use then.
Collection plan_collection(std::vector<FolderFile> files, const CollectionRules& rules);

}  // namespace reprise::protocol::snapshots
