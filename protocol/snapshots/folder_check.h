#pragma once
// Checks a snapshot folder: every manifest opens, every record that one refers to exists and is the one it lists,
// and every other record is authentic. Counts what no manifest refers to, which is allowed until the next collection.
//
// A chunk that several manifests share is read once. Memory: one chunk, and the references of all manifests.
//
// Threading: blocks on the folder.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/snapshots/manifest.h"
#include "protocol/snapshots/snapshot_folder.h"

namespace reprise::protocol::snapshots {

struct FolderCheck {
  struct Problem {
    FolderFile file{};
    Refused refused{};
  };
  std::size_t snapshots = 0;               // valid ones
  std::vector<Problem> snapshots_wrong{};  // manifests that do not open or whose chunks do not
  std::vector<Problem> others_wrong{};     // turns, names and chunks without a manifest that do not open
  std::size_t unreferenced = 0;            // chunks without a manifest, and temporary files
  std::uint64_t unreferenced_bytes = 0;

  bool is_whole() const { return snapshots_wrong.empty() && others_wrong.empty(); }
};

/// Fails if the folder cannot be read. Snapshots that other processes write or collect meanwhile may be
/// reported as incomplete.
Outcome<FolderCheck, IoTrouble> check_folder(const SnapshotFolder& folder, const Key& master);

/// Reads, authenticates and unpacks the part of a state that `manifest` lists as `reference` and compares its
/// digest. Allocates no more than its file can hold.
Outcome<std::vector<std::byte>, Refused> read_chunk(const SnapshotFolder& folder, const NamespaceKeys& keys,
                                                    const Manifest& manifest, std::size_t reference);

}  // namespace reprise::protocol::snapshots
