#pragma once
// Namespaces of the cache: the owner of cached prompts and a salt in one string, after a prefix for the
// adapter (actors/models/served_model.h). Different pairs give different strings, and the parts can be read
// back.

#include <string>
#include <string_view>

namespace reprise::protocol {

/// Returns the namespace of a tenant's cache_owner (protocol/http/key_ring.h) and a request's cache_salt;
/// either may be empty.
std::string name_space_of(std::string_view owner, std::string_view cache_salt);

struct NameSpaceParts {
  bool of_adapter = false;
  std::string_view owner{};
  bool salted = false;
};
/// Returns the parts of `name_space`, which must outlive them.
NameSpaceParts parts_of(std::string_view name_space);

}  // namespace reprise::protocol
