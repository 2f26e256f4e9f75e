#include "protocol/snapshots/record_store.h"

#include <algorithm>
#include <atomic>

#include "base/in_parallel.h"

namespace reprise::protocol::snapshots {
namespace {

constexpr std::uint64_t kWorthAThread = 1u << 20;  // bytes to read per additional thread

}  // namespace

std::optional<IoTrouble> FolderStore::prepare() {
  if (auto trouble = folder_.prepare()) return trouble;
  return folder_.probe();
}

Outcome<std::vector<std::byte>, Refused> FolderStore::read(const RecordId& folder, FileKind kind,
                                                           const RecordId& id, std::uint64_t most) {
  return folder_.read(folder, kind, id, most);
}

void FolderStore::read_each(const RecordId& folder, FileKind kind, std::span<const Wanted> wanted,
                            const TakeRecord& take) {
  std::uint64_t bytes = 0;
  for (const Wanted& one : wanted) bytes += one.most;
  const std::size_t lanes = threads_for(std::min<std::uint64_t>(wanted.size(), bytes / kWorthAThread), 1);
  // relaxed: both are counters; each thread uses only what it has read itself
  std::atomic<std::size_t> next{0}, last_wanted{wanted.size()};
  const auto read_some = [&](std::size_t) {
    std::vector<std::byte> room;  // reused for each record
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < wanted.size();) {
      if (i > last_wanted.load(std::memory_order_relaxed)) return;
      if (take(i, folder_.read_into(folder, kind, wanted[i].id, wanted[i].most, room))) continue;
      std::size_t last = last_wanted.load(std::memory_order_relaxed);
      while (i < last && !last_wanted.compare_exchange_weak(last, i, std::memory_order_relaxed)) {
      }
    }
  };
  in_parallel(lanes, read_some, 1);
}

std::optional<IoTrouble> FolderStore::write(const RecordId& folder, FileKind kind, const RecordId& id,
                                            std::span<const std::byte> bytes) {
  return folder_.write(folder, kind, id, bytes);
}

std::optional<IoTrouble> FolderStore::sync(const RecordId& folder) {
  return folder_.sync(folder);
}

bool FolderStore::exists(const RecordId& folder, FileKind kind, const RecordId& id, std::uint64_t) {
  return folder_.exists(folder, kind, id);
}

void FolderStore::touch(const RecordId& folder, FileKind kind, const RecordId& id,
                        std::chrono::seconds ahead) {
  folder_.touch(folder, kind, id, ahead);
}

std::optional<IoTrouble> FolderStore::remove(const RecordId& folder, FileKind kind, const RecordId& id) {
  return folder_.remove(folder, kind, id);
}

std::optional<std::vector<RecordId>> FolderStore::manifests(const RecordId& folder) {
  return folder_.manifests(folder);
}

std::vector<RecordId> FolderStore::records(const RecordId& folder, FileKind kind) {
  return folder_.records(folder, kind).value_or(std::vector<RecordId>{});
}

std::optional<std::int64_t> FolderStore::changed(const RecordId& folder) {
  return folder_.changed(folder);
}

namespace {

Outcome<RecordStore::Hold, IoTrouble> held(Outcome<std::optional<FolderLock>, IoTrouble> lock) {
  if (!lock.ok()) return lock.error();
  if (!*lock) return RecordStore::Hold();
  return RecordStore::Hold(std::make_shared<FolderLock>(std::move(**lock)));
}

}  // namespace

Outcome<RecordStore::Hold, IoTrouble> FolderStore::hold_for_writing() {
  return held(folder_.lock_shared());
}

Outcome<RecordStore::Hold, IoTrouble> FolderStore::hold_for_removing() {
  return held(folder_.lock_alone());
}

Outcome<std::optional<RecordStore::Collected>, IoTrouble> FolderStore::collect(const CollectionRules& rules) {
  const auto plan = folder_.collect(rules);
  if (!plan.ok()) return plan.error();
  if (!*plan) return std::optional<Collected>();
  std::optional<Collected> done(std::in_place);
  done->bytes_left = (*plan)->bytes_left;
  done->expired = (*plan)->expired;
  done->evicted = (*plan)->evicted;
  for (const FolderFile& file : (*plan)->going) {
    if (file.kind == FileKind::kManifest) done->manifests.emplace_back(file.folder, file.id);
  }
  return done;
}

std::uint64_t FolderStore::bytes() {
  std::uint64_t bytes = 0;
  const auto files = folder_.scan();
  if (!files.ok()) return 0;
  for (const FolderFile& file : *files) bytes += file.bytes;
  return bytes;
}

}  // namespace reprise::protocol::snapshots
