#pragma once
// The accepted API keys and the tenant of each: what its owner may do, and its limits. All limits are off by
// default.
//
// Text form: one key per line or between commas, optionally followed by a space and a tenant's name, so that
// several keys can belong to one tenant. A key without a name is a tenant of its own. Lines that begin with #
// are comments.
//
// Keys are compared in constant time and never appear in messages.
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
  std::string cache_owner{};  // tenants with the same owner share cached prefixes

  bool is_operator = false;    // may use operator routes
  std::uint32_t requests = 0;  // maximum generated at once, counting each choice of each prompt; 0: unlimited
  std::uint64_t tokens_per_minute = 0;  // prefilled and generated tokens; 0: unlimited
  double state_share = 0;  // maximum share of the state memory its sequences hold, 0 to 1; 0: unlimited
  /// The default and the highest priority of its requests. Without keys any priority may be requested.
  std::optional<Priority> priority{};
};

class KeyRing {
 public:
  /// Adds the keys of a text, or one key. Returns an empty string, or an error (with the line).
  std::string add(std::string_view text);
  std::string add_key(std::string_view secret, std::string_view tenant);
  /// Replaces the settings of the tenant with that name, except `cache_owner`. Returns an empty string, or an
  /// error if no key belongs to that tenant.
  std::string describe(const Tenant& tenant);
  /// Lets all tenants share cached prefixes; they stay separate in everything else.
  void share_cache();

  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  /// Both return null if unknown. The tenant is valid until the ring is changed.
  const Tenant* tenant_of(std::string_view key) const;
  const Tenant* tenant_named(std::string_view name) const;

 private:
  struct Key {
    std::string secret;
    std::size_t tenant;
  };
  std::vector<Key> keys_;
  std::vector<Tenant> tenants_;
};

}  // namespace reprise::protocol
