#include "tools/reprise/snapshot_files.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <tuple>

#include "protocol/snapshots/folder_check.h"

namespace reprise::tools {

using namespace protocol::snapshots;

namespace {

Refused io_refusal(const IoTrouble& trouble) {
  return {Refusal::kIo, trouble.message};
}

}  // namespace

std::optional<std::string> unreadable(const std::string& path) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(path, error);
  if (!error) return std::nullopt;
  return path + ": " + error.message();
}

NamespaceParts parts_of(const std::string& name_space) {
  const std::size_t end = name_space.find('\n');
  if (!name_space.starts_with("adapter ") || end == std::string::npos)
    return {.adapter = {}, .owner = name_space};
  return {.adapter = name_space.substr(0, end + 1), .owner = name_space.substr(end + 1)};
}

std::vector<ListedSnapshot> list_snapshots(const SnapshotFolder& folder, const Key& master) {
  std::vector<ListedSnapshot> listed;
  auto files = folder.scan();
  if (!files.ok()) throw std::runtime_error(files.error().message);
  for (FolderFile& file : *files) {
    if (file.kind != FileKind::kManifest) continue;
    ListedSnapshot one{.file = std::move(file)};
    const auto bytes = folder.read(one.file.folder, FileKind::kManifest, one.file.id, kMaxManifest);
    if (bytes.ok()) {
      auto manifest = open_manifest(master, one.file.folder, one.file.id, *bytes);
      if (manifest.ok()) {
        one.manifest = std::move(*manifest);
      } else {
        one.refused = manifest.error();
      }
    } else {
      one.refused = bytes.error();
    }
    listed.push_back(std::move(one));
  }
  std::sort(listed.begin(), listed.end(), [](const ListedSnapshot& a, const ListedSnapshot& b) {
    if (a.manifest && b.manifest) {
      return std::tie(a.file.folder, a.manifest->tokens, a.file.id) <
             std::tie(b.file.folder, b.manifest->tokens, b.file.id);
    }
    return std::tuple(!a.manifest, a.file.folder, a.file.id) <
           std::tuple(!b.manifest, b.file.folder, b.file.id);
  });
  return listed;
}

Outcome<std::vector<std::byte>, Refused> read_state(const SnapshotFolder& folder, const Key& master,
                                                    const Manifest& manifest) {
  const NamespaceKeys keys = keys_of(master, manifest.kind.model, manifest.name_space);
  std::vector<std::byte> state;
  for (std::size_t i = 0; i < manifest.references.size(); ++i) {
    const auto contents = read_chunk(folder, keys, manifest, i);
    if (!contents.ok()) return contents.error();
    state.insert(state.end(), contents->begin(), contents->end());
  }
  return state;
}

std::optional<Refused> copy_snapshot(const SnapshotFolder& from, const Key& from_master,
                                     const Manifest& manifest, const SnapshotFolder& to, const Key& to_master,
                                     const std::optional<std::string>& owner) {
  const NamespaceKeys from_keys = keys_of(from_master, manifest.kind.model, manifest.name_space);
  Manifest copy = manifest;
  if (owner) copy.name_space = parts_of(manifest.name_space).adapter + *owner;
  const NamespaceKeys to_keys = keys_of(to_master, copy.kind.model, copy.name_space);
  const PrefixNames names(to_keys, copy.kind, copy.tokens);
  const auto writing = to.lock_shared();
  if (!writing.ok()) return io_refusal(writing.error());
  if (!*writing) return Refused{Refusal::kIo, "another process is cleaning up the folder; try again"};
  for (std::size_t i = 0; i < copy.references.size(); ++i) {
    const auto contents = read_chunk(from, from_keys, manifest, i);
    if (!contents.ok()) return contents.error();
    const Manifest::Chunk chunk = manifest.chunk(i);
    copy.references[i] = chunk.kind == RecordKind::kSlot   ? names.slot(copy.stored, chunk.piece)
                         : chunk.kind == RecordKind::kTail ? names.tail(copy.stored)
                                                           : names.page(i);
    // Equal tokens, model and arithmetic give equal bits; otherwise one of the two snapshots is wrong.
    if (read_chunk(to, to_keys, copy, i).ok()) continue;
    const auto record = seal_record(to_keys, chunk.kind, copy.references[i], {}, *contents);
    if (auto trouble = to.write(to_keys.folder, FileKind::kChunk, copy.references[i], record)) {
      return io_refusal(*trouble);
    }
  }
  const RecordId id = names.manifest(copy.stored);
  auto trouble = to.sync(to_keys.folder);
  if (!trouble) trouble = to.write(to_keys.folder, FileKind::kManifest, id, seal_manifest(to_keys, id, copy));
  if (!trouble) trouble = to.sync(to_keys.folder);
  if (trouble) return io_refusal(*trouble);
  return std::nullopt;
}

}  // namespace reprise::tools
