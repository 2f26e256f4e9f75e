#pragma once
// What `reprise snapshot` does with a folder, apart from its command line.
//
// Threading: one thread; they block.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "protocol/snapshots/manifest.h"
#include "protocol/snapshots/snapshot_folder.h"

namespace reprise::tools {

/// Why the folder at this path cannot be listed: "/a/b: No such file or directory"; nothing: it can.
std::optional<std::string> unreadable(const std::string& path);

/// A manifest of the folder, opened or not.
struct ListedSnapshot {
  protocol::snapshots::FolderFile file{};
  std::optional<protocol::snapshots::Manifest> manifest{};
  protocol::snapshots::Refused refused{};  // why it is not
};
/// By namespace, model and tokens.
std::vector<ListedSnapshot> list_snapshots(const protocol::snapshots::SnapshotFolder& folder,
                                           const protocol::snapshots::Key& master);

/// Every chunk of a manifest: nothing, or the first that is not what it should be.
std::optional<protocol::snapshots::Refused> verify_chunks(const protocol::snapshots::SnapshotFolder& folder,
                                                          const protocol::snapshots::Key& master,
                                                          const protocol::snapshots::Manifest& manifest);

/// All of it: pages, the last of them maybe not full, then the slot. The error names the chunk that is not there.
Outcome<std::vector<std::byte>, protocol::snapshots::Refused> read_state(
    const protocol::snapshots::SnapshotFolder& folder, const protocol::snapshots::Key& master,
    const protocol::snapshots::Manifest& manifest);

struct Collected {
  std::size_t files = 0;
  std::uint64_t bytes_left = 0;
};
/// Nothing: somebody writes just now.
std::optional<Collected> collect_snapshots(const protocol::snapshots::SnapshotFolder& folder,
                                           std::uint64_t most_bytes, std::int64_t ttl_seconds);

/// A namespace names an adapter first, where states are of a model with one (actors/served/served_model.h). That part
/// of it, which decides the bits, and the rest, which says whose they are.
struct NamespaceParts {
  std::string adapter{};
  std::string owner{};
};
NamespaceParts parts_of(const std::string& name_space);

/// Copies a snapshot, every record of it opened and sealed anew: for another secret, and for another owner where one
/// is named. The error says what is wrong with which.
std::optional<protocol::snapshots::Refused> copy_snapshot(const protocol::snapshots::SnapshotFolder& from,
                                                          const protocol::snapshots::Key& from_master,
                                                          const protocol::snapshots::Manifest& manifest,
                                                          const protocol::snapshots::SnapshotFolder& to,
                                                          const protocol::snapshots::Key& to_master,
                                                          const std::optional<std::string>& owner);

}  // namespace reprise::tools
