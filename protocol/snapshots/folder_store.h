#pragma once
// FolderStore: a folder of this machine as a RecordStore. Many records are read by a few threads, and taken by them.
//
// Threading: as protocol/snapshots/record_store.h.

#include "protocol/snapshots/record_store.h"

namespace reprise::protocol::snapshots {

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
