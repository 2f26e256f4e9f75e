#pragma once
// Records of named snapshots (protocol/named_snapshots.h) in a store: all tenants' names in one folder, each sealed under a
// name that tells neither tenant, salt nor name.
//
// Threading: pure functions; reading blocks on the store.

#include <cstddef>
#include <string>
#include <vector>

#include "protocol/named_snapshots.h"
#include "protocol/snapshots/record_store.h"

namespace reprise::actors {

inline constexpr std::size_t kMaxNameRecord = protocol::NamedSnapshots::kMaxTenantBytes + (1u << 20);

protocol::snapshots::NamespaceKeys name_keys(const protocol::snapshots::Key& master);
protocol::snapshots::RecordId name_record(const protocol::snapshots::NamespaceKeys& keys,
                                          const protocol::NameOwner& owner, const std::string& name);

/// All names that the store has. One that cannot be opened, or is not whole, is left out.
std::vector<protocol::StoredName> read_names(protocol::snapshots::RecordStore& store,
                                             const protocol::snapshots::Key& master);

}  // namespace reprise::actors
