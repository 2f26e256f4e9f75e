#include "actors/tiers/name_records.h"

#include <span>
#include <utility>

#include "protocol/name_space.h"

namespace reprise::actors {

using namespace protocol::snapshots;

NamespaceKeys name_keys(const Key& master) {
  return keys_of(master, 0, "named snapshots");  // model 0: no namespace of states is called so
}

RecordId name_record(const NamespaceKeys& keys, const protocol::NameOwner& owner, const std::string& name) {
  // A name has no line break.
  const std::string whole = name + '\n' + protocol::name_space_of(owner.tenant, owner.salt);
  return id_of(keyed_digest(keys.names, "name", std::as_bytes(std::span(whole))));
}

std::vector<protocol::StoredName> read_names(RecordStore& store, const Key& master) {
  const NamespaceKeys keys = name_keys(master);
  std::vector<protocol::StoredName> names;
  for (const RecordId& id : store.records(keys.folder, FileKind::kName)) {
    const auto file = store.read(keys.folder, FileKind::kName, id, kMaxNameRecord);
    if (!file.ok()) continue;
    const auto opened = open_record(keys, RecordKind::kName, id, *file, kMaxNameRecord);
    auto name = opened.ok() ? protocol::stored_name_of(opened->contents) : std::nullopt;
    if (!name || name_record(keys, name->owner, name->snapshot.name) != id) continue;
    names.push_back(std::move(*name));
  }
  return names;
}

}  // namespace reprise::actors
