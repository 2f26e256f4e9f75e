#pragma once
// The API keys that are let in, and the tenant that each stands for.
//
// One key a line, or between commas; a tenant's name may follow it after a space, so that several keys can
// belong to one tenant. A key without a name is a tenant of its own. Lines that begin with # are comments.
//
// Keys are compared in a time that does not depend on where they differ, and never appear in messages.
//
// Threading: const access from any thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::protocol {

class KeyRing {
 public:
  /// Adds the keys of a text. Returns an empty string, or what is wrong and in which line.
  std::string add(std::string_view text);
  /// All keys are one tenant: they share what is cached.
  void share_tenant();

  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  /// The tenant of a key; nothing for one that is not known.
  std::optional<std::string> tenant_of(std::string_view key) const;

 private:
  struct Key {
    std::string secret;
    std::string tenant;
  };
  std::vector<Key> keys_;
};

/// Who may share snapshots, as one string. Different pairs give different strings.
std::string name_space_of(std::string_view tenant, std::string_view cache_salt);

}  // namespace reprise::protocol
