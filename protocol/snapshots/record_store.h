#pragma once
// RecordStore: storage of records outside the process: a local folder (FolderStore) or a store that several
// machines share (RedisStore). Stores do not interpret or decrypt records (protocol/snapshots/record.h).
//
// A record becomes visible only when it was written completely, and may disappear at any time.
//
// StoreBreaker: a circuit breaker for a store. A failing call opens it, and no request uses the store until a
// background probe has closed it, so an unreachable store costs one timeout instead of one per request.
//
// Threading: a store is used by one thread at a time and blocks. It may use threads of its own during a call.
// Several stores for the same location may share a breaker, which any thread may use.

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
  // relaxed: a hint, publishes no other data
  bool is_open() const { return open_.load(std::memory_order_relaxed); }
  void open() { open_.store(true, std::memory_order_relaxed); }
  void close() { open_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> open_{false};
};

class RecordStore {
 public:
  struct Collected {
    std::uint64_t bytes_left = 0;
    std::uint32_t expired = 0;  // number of expired manifests
    std::uint32_t evicted = 0;
    std::vector<std::pair<RecordId, RecordId>> manifests{};  // removed manifests, each after its folder
  };

  virtual ~RecordStore() = default;

  /// Returns the location for messages.
  virtual std::string where() const = 0;
  /// Tests whether the store can be written, regardless of the breaker.
  virtual std::optional<IoTrouble> prepare() = 0;

  // -- records

  /// Returns a record, which counts as used. A record larger than `most` bytes is refused without being read.
  virtual Outcome<std::vector<std::byte>, Refused> read(const RecordId& folder, FileKind kind,
                                                        const RecordId& id, std::uint64_t most) = 0;
  struct Wanted {
    RecordId id{};
    std::uint64_t most = 0;  // maximum size of the record
  };
  /// Called with each record; returns false to skip the records after it.
  using TakeRecord =
      std::function<bool(std::size_t which, Outcome<std::span<const std::byte>, Refused> record)>;
  /// Reads many records, starting them in order. `take` is called with each as it arrives, possibly by
  /// several threads at once; the bytes are valid until it returns. It must not throw. All calls have
  /// returned when read_each() returns.
  virtual void read_each(const RecordId& folder, FileKind kind, std::span<const Wanted> wanted,
                         const TakeRecord& take) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto record = read(folder, kind, wanted[i].id, wanted[i].most);
      if (!(record.ok() ? take(i, std::span<const std::byte>(*record)) : take(i, record.error()))) return;
    }
  }
  virtual std::optional<IoTrouble> write(const RecordId& folder, FileKind kind, const RecordId& id,
                                         std::span<const std::byte> bytes) = 0;
  /// Makes all writes so far durable.
  virtual std::optional<IoTrouble> sync(const RecordId& folder) = 0;
  /// Returns whether the complete record, of at most `most` bytes, is present. It counts as used.
  virtual bool exists(const RecordId& folder, FileKind kind, const RecordId& id, std::uint64_t most) = 0;
  /// Sets the time of last use to `ahead` from now, unless it is later already; a folder evicts by it. A
  /// store with its own eviction treats any `ahead` as 0.
  virtual void touch(const RecordId& folder, FileKind kind, const RecordId& id,
                     std::chrono::seconds ahead) = 0;
  /// Returns nothing if the record does not exist afterwards. Requires for chunks that other processes may
  /// refer to: hold_for_removing().
  virtual std::optional<IoTrouble> remove(const RecordId& folder, FileKind kind, const RecordId& id) = 0;

  /// Returns the names of the manifests in a namespace; nothing if that cannot be determined now.
  virtual std::optional<std::vector<RecordId>> manifests(const RecordId& folder) = 0;
  /// Returns the names of a namespace's records of another kind; empty if the store cannot list them.
  virtual std::vector<RecordId> records(const RecordId& /*folder*/, FileKind /*kind*/) { return {}; }
  /// Returns a number that changes when manifests are added or removed; nothing if that cannot be determined
  /// now.
  virtual std::optional<std::int64_t> changed(const RecordId& folder) = 0;

  // -- maintenance

  /// Holds the store for writing: no chunk is removed; or for removing: no snapshot is written. Null: another
  /// holder is in the way.
  using Hold = std::shared_ptr<void>;
  virtual Outcome<Hold, IoTrouble> hold_for_writing() = 0;
  virtual Outcome<Hold, IoTrouble> hold_for_removing() = 0;
  /// Removes expired and excess records. Returns nothing if another process is in the way.
  virtual Outcome<std::optional<Collected>, IoTrouble> collect(const CollectionRules& rules) = 0;
  /// Returns the bytes in the store, as far as known.
  virtual std::uint64_t bytes() = 0;
};

/// A folder of this machine. read_each() uses several threads, which also call `take`.
class FolderStore : public RecordStore {
 public:
  explicit FolderStore(std::string path, std::shared_ptr<FileCalls> calls = FileCalls::system())
      : folder_(std::move(path), std::move(calls)) {}

  std::string where() const override { return folder_.path(); }
  std::optional<IoTrouble> prepare() override;
  Outcome<std::vector<std::byte>, Refused> read(const RecordId& folder, FileKind kind, const RecordId& id,
                                                std::uint64_t most) override;
  void read_each(const RecordId& folder, FileKind kind, std::span<const Wanted> wanted,
                 const TakeRecord& take) override;
  std::optional<IoTrouble> write(const RecordId& folder, FileKind kind, const RecordId& id,
                                 std::span<const std::byte> bytes) override;
  std::optional<IoTrouble> sync(const RecordId& folder) override;
  bool exists(const RecordId& folder, FileKind kind, const RecordId& id, std::uint64_t most) override;
  void touch(const RecordId& folder, FileKind kind, const RecordId& id, std::chrono::seconds ahead) override;
  std::optional<IoTrouble> remove(const RecordId& folder, FileKind kind, const RecordId& id) override;
  std::optional<std::vector<RecordId>> manifests(const RecordId& folder) override;
  std::vector<RecordId> records(const RecordId& folder, FileKind kind) override;
  std::optional<std::int64_t> changed(const RecordId& folder) override;
  Outcome<Hold, IoTrouble> hold_for_writing() override;
  Outcome<Hold, IoTrouble> hold_for_removing() override;
  Outcome<std::optional<Collected>, IoTrouble> collect(const CollectionRules& rules) override;
  std::uint64_t bytes() override;

 private:
  const SnapshotFolder folder_;
};

}  // namespace reprise::protocol::snapshots
