#pragma once
// Operations of `reprise snapshot` on a snapshot folder. Single-threaded, blocking.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "protocol/snapshots/manifest.h"
#include "protocol/snapshots/snapshot_folder.h"

namespace reprise::tools {

/// Returns why the folder cannot be listed ("/a/b: No such file or directory"); nullopt if it can.
std::optional<std::string> unreadable(const std::string& path);

/// One manifest file of a folder; `manifest` is set if it could be opened.
struct ListedSnapshot {
  protocol::snapshots::FolderFile file{};
  std::optional<protocol::snapshots::Manifest> manifest{};
  protocol::snapshots::Refused refused{};  // reason if `manifest` is not set
};
/// Returns the snapshots, sorted by namespace, model and tokens. Throws std::runtime_error if the folder cannot
/// be read.
std::vector<ListedSnapshot> list_snapshots(const protocol::snapshots::SnapshotFolder& folder,
                                           const protocol::snapshots::Key& master);

/// Returns the whole state: pages (the last may be partial), then the slot. The error names the missing
/// chunk.
Outcome<std::vector<std::byte>, protocol::snapshots::Refused> read_state(
    const protocol::snapshots::SnapshotFolder& folder, const protocol::snapshots::Key& master,
    const protocol::snapshots::Manifest& manifest);

/// The two parts of a namespace: the adapter, if the states are of a model with one
/// (actors/models/served_model.h), which affects the bits, and the owner.
struct NamespaceParts {
  std::string adapter{};
  std::string owner{};
};
NamespaceParts parts_of(const std::string& name_space);

/// Copies a snapshot, unsealing and resealing every record, for another secret or owner. Returns the error,
/// which names the record; nullopt on success.
std::optional<protocol::snapshots::Refused> copy_snapshot(const protocol::snapshots::SnapshotFolder& from,
                                                          const protocol::snapshots::Key& from_master,
                                                          const protocol::snapshots::Manifest& manifest,
                                                          const protocol::snapshots::SnapshotFolder& to,
                                                          const protocol::snapshots::Key& to_master,
                                                          const std::optional<std::string>& owner);

}  // namespace reprise::tools
