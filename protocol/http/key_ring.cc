#include "protocol/http/key_ring.h"

namespace reprise::protocol {
namespace {

constexpr std::size_t kLeastKeyBytes = 8;
constexpr std::size_t kMostKeyBytes = 512;
constexpr std::string_view kSpace = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// Looks at every byte of `given`, whatever `secret` is.
bool same_secret(std::string_view secret, std::string_view given) {
  unsigned char difference = secret.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(secret[i % secret.size()] ^ given[i]);
  }
  return difference == 0;
}

}  // namespace

std::string KeyRing::add(std::string_view text) {
  std::size_t line = 1;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(",\n");
    const std::string_view entry = trimmed(text.substr(0, end));
    const std::string where = "line " + std::to_string(line);
    if (!entry.empty() && entry.front() != '#') {
      const std::size_t gap = entry.find_first_of(kSpace);
      const std::string_view secret = entry.substr(0, gap);
      const std::string_view name =
          gap == std::string_view::npos ? std::string_view() : trimmed(entry.substr(gap));
      if (secret.size() < kLeastKeyBytes) {
        return where + ": a key has at least " + std::to_string(kLeastKeyBytes) + " bytes";
      }
      if (secret.size() > kMostKeyBytes) {
        return where + ": a key has at most " + std::to_string(kMostKeyBytes) + " bytes";
      }
      if (name.find_first_of(kSpace) != std::string_view::npos) {
        return where + ": a tenant's name has no spaces";
      }
      if (name.starts_with('#')) return where + ": a tenant's name does not begin with #";
      if (tenant_of(secret)) return where + ": this key was there before";
      std::string tenant(name);
      if (tenant.empty()) {  // '#' cannot begin a name that was given, so no name is taken twice by accident
        tenant += '#';
        tenant += std::to_string(keys_.size() + 1);
      }
      keys_.push_back({std::string(secret), std::move(tenant)});
    }
    if (end == std::string_view::npos) break;
    if (text[end] == '\n') ++line;
    text.remove_prefix(end + 1);
  }
  return {};
}

void KeyRing::share_tenant() {
  for (Key& key : keys_) key.tenant.clear();
}

std::optional<std::string> KeyRing::tenant_of(std::string_view given) const {
  const Key* found = nullptr;
  for (const Key& key : keys_) {
    if (same_secret(key.secret, given)) found = &key;
  }
  if (found == nullptr) return std::nullopt;
  return found->tenant;
}

std::string name_space_of(std::string_view tenant, std::string_view cache_salt) {
  if (tenant.empty() && cache_salt.empty()) return {};
  // The length makes it clear where the tenant ends.
  return std::to_string(tenant.size()) + ":" + std::string(tenant) + ":" + std::string(cache_salt);
}

}  // namespace reprise::protocol
