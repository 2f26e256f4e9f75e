#include "protocol/snapshots/collection.h"

#include <algorithm>
#include <map>
#include <utility>

namespace reprise::protocol::snapshots {
namespace {

constexpr std::int64_t kLongestWrite = 600;  // seconds that a file may take to get its name, or its time

}  // namespace

Collection plan_collection(std::vector<FolderFile> files, const CollectionRules& rules) {
  using Place = std::pair<RecordId, RecordId>;  // folder, name
  Collection plan;
  std::map<Place, std::uint32_t> holders;
  std::map<Place, FolderFile*> chunks;
  std::vector<FolderFile*> roots;  // manifests, and turns, which refer to nothing
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
    if (ends && file.used + kLongestWrite < rules.now) go(file);
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
    if (!expired && plan.bytes_left <= rules.most_bytes) break;
    if (root->kind == FileKind::kManifest) ++(expired ? plan.expired : plan.evicted);
    drop(*root);
  }
  return plan;
}

}  // namespace reprise::protocol::snapshots
