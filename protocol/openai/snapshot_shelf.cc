#include "protocol/openai/snapshot_shelf.h"

namespace reprise::protocol::openai {

void SnapshotShelf::take(Names& names, Names::iterator which) {
  bytes_ -= which->second.bytes;
  names.erase(which);
}

void SnapshotShelf::expire(std::int64_t now) {
  for (auto tenant = tenants_.begin(); tenant != tenants_.end();) {
    Names& names = tenant->second;
    for (auto name = names.begin(); name != names.end();) {
      const auto next = std::next(name);
      if (name->second.snapshot.expires <= now) take(names, name);
      name = next;
    }
    tenant = names.empty() ? tenants_.erase(tenant) : std::next(tenant);
  }
}

bool SnapshotShelf::put(const std::string& tenant, NamedSnapshot snapshot, std::int64_t now) {
  const std::size_t bytes = snapshot.beginning.dump().size() + snapshot.name.size() + sizeof(Kept);
  const std::lock_guard lock(mutex_);
  expire(now);
  Names& names = tenants_[tenant];
  if (const auto same = names.find(snapshot.name); same != names.end()) take(names, same);
  const bool fits = names.size() < kMostNames && bytes_ + bytes <= kMostBytes;
  if (fits) {
    bytes_ += bytes;
    std::string name = snapshot.name;
    names.emplace(std::move(name), Kept{std::move(snapshot), bytes});
  }
  if (names.empty()) tenants_.erase(tenant);
  return fits;
}

std::optional<NamedSnapshot> SnapshotShelf::find(const std::string& tenant, const std::string& name,
                                                 std::int64_t now) {
  const std::lock_guard lock(mutex_);
  expire(now);
  const auto names = tenants_.find(tenant);
  if (names == tenants_.end()) return std::nullopt;
  const auto found = names->second.find(name);
  if (found == names->second.end()) return std::nullopt;
  return found->second.snapshot;
}

std::vector<NamedSnapshot> SnapshotShelf::all(const std::string& tenant, std::int64_t now) {
  const std::lock_guard lock(mutex_);
  expire(now);
  std::vector<NamedSnapshot> list;
  const auto names = tenants_.find(tenant);
  if (names == tenants_.end()) return list;
  for (const auto& [name, kept] : names->second) list.push_back(kept.snapshot);
  return list;
}

bool SnapshotShelf::drop(const std::string& tenant, const std::string& name, std::int64_t now) {
  const std::lock_guard lock(mutex_);
  expire(now);
  const auto names = tenants_.find(tenant);
  if (names == tenants_.end()) return false;
  const auto found = names->second.find(name);
  if (found == names->second.end()) return false;
  take(names->second, found);
  if (names->second.empty()) tenants_.erase(names);
  return true;
}

}  // namespace reprise::protocol::openai
