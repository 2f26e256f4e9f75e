#pragma once
// Who shares snapshots, as one string: the owner of what is cached, and a salt; before both, the adapter that it was
// computed with (actors/served/served_model.h). Different pairs give different strings, and what a string says can be
// read back.
//
// Threading: pure functions.

#include <string>
#include <string_view>

namespace reprise::protocol {

/// Of a tenant's cache_owner (protocol/http/key_ring.h) and a request's cache_salt; both may be empty.
std::string name_space_of(std::string_view owner, std::string_view cache_salt);

struct NameSpaceParts {
  bool of_adapter = false;
  std::string_view owner{};
  bool salted = false;
};
/// Parts of `name_space`, which must outlive them.
NameSpaceParts parts_of(std::string_view name_space);

}  // namespace reprise::protocol
