#include "protocol/snapshots/folder_check.h"

#include <map>
#include <set>
#include <utility>

#include "base/digest.h"

namespace reprise::protocol::snapshots {
namespace {

/// The outcome for a chunk that was read: as which part of a state, and with which digest.
struct CheckedChunk {
  RecordKind kind{};
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
  std::optional<Refused> refused{};
};
using CheckedChunks = std::map<std::pair<RecordId, RecordId>, CheckedChunk>;  // by folder and name

std::optional<Refused> check_chunks(const SnapshotFolder& folder, const NamespaceKeys& keys,
                                    const Manifest& manifest, CheckedChunks& checked) {
  for (std::size_t i = 0; i < manifest.references.size(); ++i) {
    const Manifest::Chunk chunk = manifest.chunk(i);
    const CheckedChunk wanted{.kind = chunk.kind, .bytes = chunk.bytes, .sum = manifest.sums[i]};
    CheckedChunk& known = checked[{keys.folder, manifest.references[i]}];
    const bool same = known.kind == wanted.kind && known.bytes == wanted.bytes && known.sum == wanted.sum;
    if (!same) {
      const auto contents = read_chunk(folder, keys, manifest, i);
      known = wanted;
      if (!contents.ok()) known.refused = contents.error();
    }
    if (known.refused) return known.refused;
  }
  return std::nullopt;
}

std::optional<Refused> check_manifest(const SnapshotFolder& folder, const Key& master, const FolderFile& file,
                                      CheckedChunks& checked) {
  const auto record = folder.read(file.folder, FileKind::kManifest, file.id, kMaxManifest);
  if (!record.ok()) return record.error();
  const auto manifest = open_manifest(master, file.folder, file.id, *record);
  if (!manifest.ok()) return manifest.error();
  return check_chunks(folder, keys_of_folder(master, file.folder), *manifest, checked);
}

/// Checks a record that no manifest refers to.
std::optional<Refused> check_alone(const SnapshotFolder& folder, const Key& master, const FolderFile& file) {
  const auto record = folder.read(file.folder, file.kind, file.id, file.bytes);
  if (!record.ok()) return record.error();
  return authenticate(keys_of_folder(master, file.folder), file.id, *record);
}

}  // namespace

Outcome<std::vector<std::byte>, Refused> read_chunk(const SnapshotFolder& folder, const NamespaceKeys& keys,
                                                    const Manifest& manifest, std::size_t reference) {
  const Manifest::Chunk chunk = manifest.chunk(reference);
  const RecordId& id = manifest.references[reference];
  const auto file = folder.read(keys.folder, FileKind::kChunk, id, record_bytes(0, chunk.bytes));
  if (!file.ok()) return file.error();
  auto contents = open_chunk(keys, chunk.kind, id, *file, chunk.bytes);
  if (!contents.ok() || digest_of(*contents) == manifest.sums[reference]) return contents;
  return Refused{Refusal::kContents, "a part of the snapshot is not the one that its manifest lists"};
}

Outcome<FolderCheck, IoTrouble> check_folder(const SnapshotFolder& folder, const Key& master) {
  const auto files = folder.scan();
  if (!files.ok()) return files.error();
  FolderCheck found;
  CheckedChunks checked;
  std::set<std::pair<RecordId, RecordId>> referenced;
  for (const FolderFile& file : *files) {
    if (file.kind != FileKind::kManifest) continue;
    for (const RecordId& chunk : file.references) referenced.emplace(file.folder, chunk);
    auto refused = check_manifest(folder, master, file, checked);
    if (refused) found.snapshots_wrong.push_back({file, std::move(*refused)});
    if (!refused) ++found.snapshots;
  }
  for (const FolderFile& file : *files) {
    const bool is_chunk = file.kind == FileKind::kChunk;
    if (file.kind == FileKind::kManifest || (is_chunk && referenced.contains({file.folder, file.id})))
      continue;
    if (is_chunk || file.kind == FileKind::kTemporary) {
      ++found.unreferenced;
      found.unreferenced_bytes += file.bytes;
    }
    if (file.kind == FileKind::kTemporary) continue;  // may be half written
    auto refused = check_alone(folder, master, file);
    if (refused && refused->why != Refusal::kMissing)
      found.others_wrong.push_back({file, std::move(*refused)});
  }
  return found;
}

}  // namespace reprise::protocol::snapshots
