#pragma once
// The API keys that are let in, and the tenant that each stands for: what a key's owner may do and how much of the server
// he may have. All limits are off unless they are set.
//
// One key a line, or between commas; a tenant's name may follow it after a space, so that several keys can
// belong to one tenant. A key without a name is a tenant of its own. Lines that begin with # are comments.
//
// Keys are compared in a time that does not depend on where they differ, and never appear in messages.
//
// Threading: const access from any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/name_space.h"
#include "protocol/priority.h"

namespace reprise::protocol {

struct Tenant {
  std::string name{};         // empty: the server has no keys
  std::string cache_owner{};  // tenants with the same one share what is cached

  bool is_operator = false;             // may use the routes for operators
  std::uint32_t requests = 0;           // being generated at once, each choice of each prompt; 0: no limit
  std::uint64_t tokens_per_minute = 0;  // computed of prompts, and generated; 0: no limit
  double state_share = 0;  // of the memory for states, held by its sequences, up to 1; 0: no limit
  /// Of its requests, and the highest that one may ask for. Without keys everybody may ask for any.
  std::optional<Priority> priority{};
};

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
