#include "protocol/snapshots/folder_store.h"

namespace reprise::protocol::snapshots {

std::optional<IoTrouble> FolderStore::prepare() {
  if (auto trouble = folder_.prepare()) return trouble;
  return folder_.probe();
}

Outcome<std::vector<std::byte>, Refused> FolderStore::read(const RecordId& folder, FileKind kind,
                                                           const RecordId& id, std::uint64_t most) {
  return folder_.read(folder, kind, id, most);
}

std::optional<IoTrouble> FolderStore::write(const RecordId& folder, FileKind kind, const RecordId& id,
                                            std::span<const std::byte> bytes) {
  return folder_.write(folder, kind, id, bytes);
}

std::optional<IoTrouble> FolderStore::sync(const RecordId& folder) {
  return folder_.sync(folder);
}

bool FolderStore::exists(const RecordId& folder, FileKind kind, const RecordId& id) {
  return folder_.exists(folder, kind, id);
}

void FolderStore::touch(const RecordId& folder, FileKind kind, const RecordId& id) {
  folder_.touch(folder, kind, id);
}

void FolderStore::remove(const RecordId& folder, FileKind kind, const RecordId& id) {
  folder_.remove(folder, kind, id);
}

std::optional<std::vector<RecordId>> FolderStore::manifests(const RecordId& folder) {
  return folder_.manifests(folder);
}

std::optional<std::int64_t> FolderStore::changed(const RecordId& folder) {
  return folder_.changed(folder);
}

std::shared_ptr<void> FolderStore::hold_for_writing() {
  std::optional<FolderLock> lock = folder_.lock_shared();
  if (!lock) return nullptr;
  return std::make_shared<FolderLock>(std::move(*lock));
}

std::optional<RecordStore::Collected> FolderStore::collect(const CollectionRules& rules) {
  const std::optional<FolderLock> alone = folder_.lock_alone();
  if (!alone) return std::nullopt;
  const Collection plan = plan_collection(folder_.scan(), rules);
  Collected done{.bytes_left = plan.bytes_left, .expired = plan.expired, .evicted = plan.evicted};
  for (const FolderFile& file : plan.going) {
    folder_.remove(file);
    if (file.kind == FileKind::kManifest) done.manifests.emplace_back(file.folder, file.id);
  }
  return done;
}

std::uint64_t FolderStore::bytes() {
  std::uint64_t bytes = 0;
  for (const FolderFile& file : folder_.scan()) bytes += file.bytes;
  return bytes;
}

}  // namespace reprise::protocol::snapshots
