#pragma once
// RecordStore: where records lie that leave the process: a folder, or a store that several machines share. What is
// sealed in them, and who may open it, is no business of a store (protocol/snapshots/record.h). Another store is one
// more class behind this interface.
// FolderStore is a folder of this machine.
//
// A record is found under its name when all of it was written, or not at all; it may be gone again at any time.
//
// StoreBreaker: whether a store is left alone. Whoever finds it gone says so, and nobody asks it any more until
// somebody, apart from all requests, has found it well again: a store that is gone costs one wait, not every
// request's.
//
// Threading: of a store, one thread; it blocks. A store may let threads of its own help while a call lasts, which then
// call back as that call says. Several stores may stand for the same place and share a breaker, which
// any thread may use.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/snapshots/snapshot_folder.h"

namespace reprise::protocol::snapshots {

class StoreBreaker {
 public:
  bool is_open() const { return open_.load(std::memory_order_relaxed); }  // relaxed: a hint
  void open() { open_.store(true, std::memory_order_relaxed); }
  void close() { open_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> open_{false};
};

class RecordStore {
 public:
  struct Collected {
    std::uint64_t bytes_left = 0;
    std::uint32_t expired = 0;  // manifests
    std::uint32_t evicted = 0;
    std::vector<std::pair<RecordId, RecordId>> manifests{};  // that went, behind their folders
  };

  virtual ~RecordStore() = default;

  /// For messages.
  virtual std::string where() const = 0;
  /// Whether something can be written now; asks, whatever the breaker says.
  virtual std::optional<IoTrouble> prepare() = 0;

  // -- records

  /// At most `most` bytes of record; one that is larger is refused unread. It counts as used.
  virtual Outcome<std::vector<std::byte>, Refused> read(const RecordId& folder, FileKind kind,
                                                        const RecordId& id, std::uint64_t most) = 0;
  struct Wanted {
    RecordId id{};
    std::uint64_t most = 0;  // bytes of record
  };
  /// False: those behind it are not wanted any more.
  using TakeRecord =
      std::function<bool(std::size_t which, Outcome<std::span<const std::byte>, Refused> record)>;
  /// As read(), of many, begun in their order. Each is given to `take` as it comes, maybe by several threads at once, and
  /// is there until that returns. `take` must not throw. All calls of it have returned when this does.
  virtual void read_each(const RecordId& folder, FileKind kind, std::span<const Wanted> wanted,
                         const TakeRecord& take) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto record = read(folder, kind, wanted[i].id, wanted[i].most);
      if (!(record.ok() ? take(i, std::span<const std::byte>(*record)) : take(i, record.error()))) return;
    }
  }
  virtual std::optional<IoTrouble> write(const RecordId& folder, FileKind kind, const RecordId& id,
                                         std::span<const std::byte> bytes) = 0;
  /// What was written so far outlasts what may happen now.
  virtual std::optional<IoTrouble> sync(const RecordId& folder) = 0;
  /// All of it. It counts as used.
  virtual bool exists(const RecordId& folder, FileKind kind, const RecordId& id) = 0;
  /// It counts as used `ahead` from now, unless it does so later already: a folder's eviction goes by that. A store that
  /// evicts by rules of its own takes any for now.
  virtual void touch(const RecordId& folder, FileKind kind, const RecordId& id,
                     std::chrono::seconds ahead) = 0;
  virtual void remove(const RecordId& folder, FileKind kind, const RecordId& id) = 0;

  /// Names of a namespace's manifests; nothing where that cannot be known now.
  virtual std::optional<std::vector<RecordId>> manifests(const RecordId& folder) = 0;
  /// Names of a namespace's records of another kind; none where the store does not list them.
  virtual std::vector<RecordId> records(const RecordId& /*folder*/, FileKind /*kind*/) { return {}; }
  /// Another number when manifests came or went. Nothing: it cannot be known now.
  virtual std::optional<std::int64_t> changed(const RecordId& folder) = 0;

  // -- all of it

  /// Nobody collects chunks that no manifest refers to yet while it is held. Null: somebody does just now.
  virtual std::shared_ptr<void> hold_for_writing() = 0;
  /// Nothing: others are in the way.
  virtual std::optional<Collected> collect(const CollectionRules& rules) = 0;
  /// As far as it can be counted.
  virtual std::uint64_t bytes() = 0;
};

/// A folder of this machine. Many records are read by a few threads, and taken by them.
class FolderStore : public RecordStore {
 public:
  explicit FolderStore(std::string path) : folder_(std::move(path)) {}

  std::string where() const override { return folder_.path(); }
  std::optional<IoTrouble> prepare() override;
  Outcome<std::vector<std::byte>, Refused> read(const RecordId& folder, FileKind kind, const RecordId& id,
                                                std::uint64_t most) override;
  void read_each(const RecordId& folder, FileKind kind, std::span<const Wanted> wanted,
                 const TakeRecord& take) override;
  std::optional<IoTrouble> write(const RecordId& folder, FileKind kind, const RecordId& id,
                                 std::span<const std::byte> bytes) override;
  std::optional<IoTrouble> sync(const RecordId& folder) override;
  bool exists(const RecordId& folder, FileKind kind, const RecordId& id) override;
  void touch(const RecordId& folder, FileKind kind, const RecordId& id, std::chrono::seconds ahead) override;
  void remove(const RecordId& folder, FileKind kind, const RecordId& id) override;
  std::optional<std::vector<RecordId>> manifests(const RecordId& folder) override;
  std::vector<RecordId> records(const RecordId& folder, FileKind kind) override;
  std::optional<std::int64_t> changed(const RecordId& folder) override;
  std::shared_ptr<void> hold_for_writing() override;
  std::optional<Collected> collect(const CollectionRules& rules) override;
  std::uint64_t bytes() override;

 private:
  const SnapshotFolder folder_;
};

}  // namespace reprise::protocol::snapshots
