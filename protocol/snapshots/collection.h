#pragma once
// What of a folder goes: what outlived its time, what nothing refers to, and the least recently used manifests, with
// the chunks that are theirs alone, and turns, until the rest stays within a bound. Names of snapshots go when they have
// expired, and not before: whoever writes them bounds them.
//
// Threading: a pure function.

#include <chrono>
#include <cstdint>
#include <vector>

#include "protocol/snapshots/snapshot_folder.h"

namespace reprise::protocol::snapshots {

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

/// Of all files there are, while nobody writes: chunks that no manifest refers to are of no use then.
Collection plan_collection(std::vector<FolderFile> files, const CollectionRules& rules);

}  // namespace reprise::protocol::snapshots
