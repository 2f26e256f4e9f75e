#include "protocol/named_snapshots.h"

#include <string_view>

namespace reprise::protocol {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::byte> to_bytes(const NameOwner& owner, const NamedSnapshot& snapshot) {
  const std::string text =
      Json{{"tenant", owner.tenant},      {"salt", owner.salt},        {"name", snapshot.name},
           {"model", snapshot.model},     {"tokens", snapshot.tokens}, {"created", snapshot.created},
           {"expires", snapshot.expires}, {"pinned", snapshot.pinned}, {"beginning", snapshot.beginning}}
          .dump();
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::optional<StoredName> stored_name_of(std::span<const std::byte> bytes) {
  const auto json = Json::parse(text_of(bytes));
  if (!json.ok() || !json->is_object()) return std::nullopt;
  const std::string* tenant = json->find_string("tenant");
  const std::string* salt = json->find_string("salt");
  const std::string* name = json->find_string("name");
  const std::string* model = json->find_string("model");
  const Json* tokens = json->find("tokens");
  const Json* created = json->find("created");
  const Json* expires = json->find("expires");
  const Json* pinned = json->find("pinned");
  const Json* beginning = json->find_object("beginning");
  const bool whole = tenant != nullptr && salt != nullptr && name != nullptr && model != nullptr &&
                     tokens != nullptr && tokens->is_int() && created != nullptr && created->is_int() &&
                     expires != nullptr && expires->is_int() && pinned != nullptr && pinned->is_bool() &&
                     beginning != nullptr;
  if (!whole) return std::nullopt;
  return StoredName{.owner = {.tenant = *tenant, .salt = *salt},
                    .snapshot = {.name = *name,
                                 .model = *model,
                                 .beginning = *beginning,
                                 .tokens = static_cast<std::uint32_t>(tokens->as_int()),
                                 .created = created->as_int(),
                                 .expires = expires->as_int(),
                                 .pinned = pinned->as_bool()}};
}

std::size_t NamedSnapshots::size_of(const NameOwner& owner, const NamedSnapshot& snapshot) {
  return snapshot.beginning.dump().size() + snapshot.name.size() + owner.salt.size() + sizeof(Kept);
}

void NamedSnapshots::take(Tenant& tenant, Names::iterator which) {
  bytes_ -= which->second.bytes;
  tenant.bytes -= which->second.bytes;
  tenant.names.erase(which);
}

void NamedSnapshots::expire(std::int64_t now) {
  for (auto tenant = tenants_.begin(); tenant != tenants_.end();) {
    Names& names = tenant->second.names;
    for (auto name = names.begin(); name != names.end();) {
      const auto next = std::next(name);
      if (name->second.snapshot->expires <= now) take(tenant->second, name);
      name = next;
    }
    tenant = names.empty() ? tenants_.erase(tenant) : std::next(tenant);
  }
}

std::optional<std::string> NamedSnapshots::limit(const NameOwner& owner, const std::string& name,
                                                 std::size_t bytes) const {
  std::size_t names = 0, of_tenant = 0, replaced = 0;
  if (const auto tenant = tenants_.find(owner.tenant); tenant != tenants_.end()) {
    names = tenant->second.names.size();
    of_tenant = tenant->second.bytes;
    const auto same = tenant->second.names.find({owner.salt, name});
    if (same != tenant->second.names.end()) {
      replaced = same->second.bytes;
      --names;
    }
  }
  const auto mib = [](std::size_t limit) { return std::to_string(limit >> 20) + " MiB"; };
  if (names >= kMaxNames)
    return "the limit of a tenant is " + std::to_string(kMaxNames) + " names, over all its cache_salts";
  if (of_tenant - replaced + bytes > kMaxTenantBytes)
    return "the limit of a tenant is " + mib(kMaxTenantBytes) + " of named prompts";
  if (bytes_ - replaced + bytes > kMaxBytes)
    return "the limit of all tenants together is " + mib(kMaxBytes) + " of named prompts";
  return std::nullopt;
}

void NamedSnapshots::add(const NameOwner& owner, std::shared_ptr<const NamedSnapshot> snapshot,
                         std::size_t bytes) {
  Tenant& tenant = tenants_[owner.tenant];
  std::pair<std::string, std::string> key(owner.salt, snapshot->name);
  if (const auto same = tenant.names.find(key); same != tenant.names.end()) take(tenant, same);
  tenant.bytes += bytes;
  bytes_ += bytes;
  tenant.names.emplace(std::move(key), Kept{std::move(snapshot), bytes});
}

std::optional<std::string> NamedSnapshots::limit_for(const NameOwner& owner, const NamedSnapshot& snapshot,
                                                     std::int64_t now) {
  const std::size_t bytes = size_of(owner, snapshot);
  const std::lock_guard lock(mutex_);
  expire(now);
  return limit(owner, snapshot.name, bytes);
}

std::optional<std::string> NamedSnapshots::put(const NameOwner& owner, NamedSnapshot snapshot,
                                               std::int64_t now) {
  const std::size_t bytes = size_of(owner, snapshot);
  const std::lock_guard lock(mutex_);
  expire(now);
  if (auto over = limit(owner, snapshot.name, bytes)) return over;
  const auto kept = std::make_shared<const NamedSnapshot>(std::move(snapshot));
  add(owner, kept, bytes);
  if (listener_) listener_({.owner = owner, .name = kept->name, .snapshot = kept});
  return std::nullopt;
}

std::optional<NamedSnapshot> NamedSnapshots::find(const NameOwner& owner, const std::string& name,
                                                  std::int64_t now) {
  const std::lock_guard lock(mutex_);
  expire(now);
  const auto tenant = tenants_.find(owner.tenant);
  if (tenant == tenants_.end()) return std::nullopt;
  const auto found = tenant->second.names.find({owner.salt, name});
  if (found == tenant->second.names.end()) return std::nullopt;
  return *found->second.snapshot;
}

std::vector<NamedSnapshot> NamedSnapshots::all(const NameOwner& owner, std::int64_t now) {
  const std::lock_guard lock(mutex_);
  expire(now);
  std::vector<NamedSnapshot> list;
  const auto tenant = tenants_.find(owner.tenant);
  if (tenant == tenants_.end()) return list;
  for (const auto& [key, kept] : tenant->second.names) {
    if (key.first == owner.salt) list.push_back(*kept.snapshot);
  }
  return list;
}

bool NamedSnapshots::drop(const NameOwner& owner, const std::string& name, std::int64_t now) {
  const std::lock_guard lock(mutex_);
  expire(now);
  const auto tenant = tenants_.find(owner.tenant);
  if (tenant == tenants_.end()) return false;
  const auto found = tenant->second.names.find({owner.salt, name});
  if (found == tenant->second.names.end()) return false;
  take(tenant->second, found);
  if (tenant->second.names.empty()) tenants_.erase(tenant);
  if (listener_) listener_({.owner = owner, .name = name, .went = true});
  return true;
}

void NamedSnapshots::load(std::vector<StoredName> kept, std::int64_t now) {
  const std::lock_guard lock(mutex_);
  for (StoredName& one : kept) {
    NamedSnapshot& snapshot = one.snapshot;
    if (snapshot.expires <= now) continue;
    const auto tenant = tenants_.find(one.owner.tenant);
    if (tenant != tenants_.end() && tenant->second.names.contains({one.owner.salt, snapshot.name})) continue;
    const std::size_t bytes = size_of(one.owner, snapshot);
    if (limit(one.owner, snapshot.name, bytes)) continue;
    if (snapshot.pinned) {
      snapshot.ticket = std::make_shared<const PinTicket>(PinTicket{.tenant = one.owner.tenant});
    }
    add(one.owner, std::make_shared<const NamedSnapshot>(std::move(snapshot)), bytes);
  }
}

void NamedSnapshots::set_listener(Listener listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

}  // namespace reprise::protocol
