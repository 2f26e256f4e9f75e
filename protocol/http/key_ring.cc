#include "protocol/http/key_ring.h"

#include <algorithm>
#include <span>

#include "protocol/snapshots/seal.h"

namespace reprise::protocol {
namespace {

constexpr std::size_t kMinKeyBytes = 8;
constexpr std::size_t kMaxKeyBytes = 512;
constexpr std::string_view kSpace = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// Constant-time comparison: the time depends only on the length of `given`.
bool same_secret(std::string_view secret, std::string_view given) {
  unsigned char difference = secret.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(secret[i % secret.size()] ^ given[i]);
  }
  return difference == 0;
}

/// Returns the cache owner for a key without a name. Derived from the key, because cached data outlives the
/// server but the key's index does not.
std::string owner_of(std::string_view secret) {
  const auto digest = snapshots::keyed_digest({}, "api key", std::as_bytes(std::span(secret)));
  std::string owner(1, '#');
  owner += snapshots::id_of(digest).hex();
  return owner;
}

}  // namespace

std::string KeyRing::add(std::string_view text) {
  std::size_t line = 1;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(",\n");
    const std::string_view entry = trimmed(text.substr(0, end));
    if (!entry.empty() && entry.front() != '#') {
      const std::size_t gap = std::min(entry.find_first_of(kSpace), entry.size());
      const std::string problem = add_key(entry.substr(0, gap), trimmed(entry.substr(gap)));
      if (!problem.empty()) return "line " + std::to_string(line) + ": " + problem;
    }
    if (end == std::string_view::npos) break;
    if (text[end] == '\n') ++line;
    text.remove_prefix(end + 1);
  }
  return {};
}

std::string KeyRing::add_key(std::string_view secret, std::string_view tenant) {
  if (secret.size() < kMinKeyBytes) {
    return "an API key needs at least " + std::to_string(kMinKeyBytes) + " bytes";
  }
  if (secret.size() > kMaxKeyBytes) {
    return "an API key can have at most " + std::to_string(kMaxKeyBytes) + " bytes";
  }
  if (tenant.find_first_of(kSpace) != std::string_view::npos) return "a tenant's name cannot have spaces";
  if (tenant.starts_with('#')) return "a tenant's name cannot begin with #";
  if (tenant_of(secret) != nullptr) return "this API key is given twice";
  std::string name(tenant), cache_owner(tenant);
  if (name.empty()) {  // given names cannot begin with '#', so these cannot collide
    name += '#';
    name += std::to_string(keys_.size() + 1);
    cache_owner = owner_of(secret);
  }
  const auto known =
      std::find_if(tenants_.begin(), tenants_.end(), [&](const Tenant& one) { return one.name == name; });
  keys_.push_back({std::string(secret), static_cast<std::size_t>(known - tenants_.begin())});
  if (known == tenants_.end()) tenants_.push_back({.name = name, .cache_owner = cache_owner});
  return {};
}

std::string KeyRing::describe(const Tenant& tenant) {
  for (Tenant& known : tenants_) {
    if (known.name != tenant.name) continue;
    std::string cache_owner = std::move(known.cache_owner);
    known = tenant;
    known.cache_owner = std::move(cache_owner);
    return {};
  }
  return "there is no API key of tenant '" + tenant.name + "'";
}

void KeyRing::share_cache() {
  for (Tenant& tenant : tenants_) tenant.cache_owner.clear();
}

const Tenant* KeyRing::tenant_of(std::string_view given) const {
  const Key* found = nullptr;
  for (const Key& key : keys_) {
    if (same_secret(key.secret, given)) found = &key;
  }
  return found == nullptr ? nullptr : &tenants_[found->tenant];
}

const Tenant* KeyRing::tenant_named(std::string_view name) const {
  const auto found =
      std::find_if(tenants_.begin(), tenants_.end(), [&](const Tenant& one) { return one.name == name; });
  return found == tenants_.end() ? nullptr : &*found;
}

}  // namespace reprise::protocol
