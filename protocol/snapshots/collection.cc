#include "protocol/snapshots/collection.h"

#include <algorithm>
#include <map>
#include <utility>

namespace reprise::protocol::snapshots {
namespace {

constexpr std::int64_t kLongestWrite = 600;  // seconds that a temporary file may take to get its name

}  // namespace

Collection plan_collection(std::vector<FolderFile> files, const CollectionRules& rules) {
  using Place = std::pair<RecordId, RecordId>;  // folder, name
  Collection plan;
  std::map<Place, std::uint32_t> holders;
  std::map<Place, FolderFile*> chunks;
  std::vector<FolderFile*> manifests;
  for (FolderFile& file : files) {
    plan.bytes_left += file.bytes;
    if (file.kind == FileKind::kManifest) manifests.push_back(&file);
    if (file.kind == FileKind::kChunk) chunks[{file.folder, file.id}] = &file;
  }
  for (const FolderFile* manifest : manifests) {
    for (const RecordId& chunk : manifest->references) ++holders[{manifest->folder, chunk}];
  }
  const auto go = [&](FolderFile& file) {
    plan.bytes_left -= file.bytes;
    plan.going.push_back(std::move(file));
  };
  const auto drop = [&](FolderFile& manifest) {
    const RecordId folder = manifest.folder;
    const std::vector<RecordId> references = manifest.references;
    go(manifest);
    for (const RecordId& chunk : references) {
      if (--holders[{folder, chunk}] > 0) continue;
      const auto found = chunks.find({folder, chunk});
      if (found == chunks.end()) continue;
      go(*found->second);
      chunks.erase(found);
    }
  };
  for (FolderFile& file : files) {
    if (file.kind == FileKind::kTemporary && file.used + kLongestWrite < rules.now) go(file);
  }
  for (auto chunk = chunks.begin(); chunk != chunks.end();) {
    const bool wanted = holders.contains(chunk->first);
    if (!wanted) go(*chunk->second);
    chunk = wanted ? std::next(chunk) : chunks.erase(chunk);
  }
  std::sort(manifests.begin(), manifests.end(), [](const FolderFile* a, const FolderFile* b) {
    return std::tie(a->used, a->id) < std::tie(b->used, b->id);
  });
  for (FolderFile* manifest : manifests) {
    const bool expired = rules.ttl.count() > 0 && manifest->used + rules.ttl.count() < rules.now;
    if (!expired && plan.bytes_left <= rules.most_bytes) break;
    ++(expired ? plan.expired : plan.evicted);
    drop(*manifest);
  }
  return plan;
}

}  // namespace reprise::protocol::snapshots
