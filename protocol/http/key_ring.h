#pragma once
// The API keys that are let in, and the tenant that each stands for.
//
// One key a line, or between commas; a tenant's name may follow it after a space, so that several keys can
// belong to one tenant. A key without a name is a tenant of its own. Lines that begin with # are comments.
//
// Keys are compared in a time that does not depend on where they differ, and never appear in messages.
//
// Threading: const access from any thread.

#include <string>
#include <string_view>
#include <vector>

#include "protocol/http/tenant.h"
#include "protocol/name_space.h"

namespace reprise::protocol {

class KeyRing {
 public:
  /// Adds the keys of a text. Returns an empty string, or what is wrong and in which line.
  std::string add(std::string_view text);
  /// Adds one key; the tenant's name may be empty. Returns an empty string, or what is wrong.
  std::string add_key(std::string_view secret, std::string_view tenant);
  /// What holds for the tenant of that name, in place of what held before; its `cache_owner` stays. Returns
  /// an empty string, or that no key has such a tenant.
  std::string describe(const Tenant& tenant);
  /// All keys share what is cached. They stay tenants of their own in all else.
  void share_cache();

  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  /// The tenant of a key, until the ring is changed; null for one that is not known.
  const Tenant* tenant_of(std::string_view key) const;
  /// The same by its name.
  const Tenant* tenant_named(std::string_view name) const;

 private:
  struct Key {
    std::string secret;
    std::size_t tenant;  // where it is in tenants_
  };
  std::vector<Key> keys_;
  std::vector<Tenant> tenants_;
};

}  // namespace reprise::protocol
