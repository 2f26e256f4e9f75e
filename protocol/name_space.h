#pragma once
// Who shares snapshots, as one string: the owner of what is cached, and a salt; before both, the adapter that it was
// computed with (actors/served/served_adapter.h). Different pairs give different strings, and what a string says can be
// read back.
//
// States of compacted prompts (base/kv_budget.h) stand in namespaces of their own, one for each budget and way to choose:
// between the adapter and the rest their name says so. Nothing exact stands there, and nothing else elsewhere.
//
// Threading: pure functions.

#include <string>
#include <string_view>

#include "base/kv_budget.h"

namespace reprise::protocol {

/// Of a tenant's cache_owner (protocol/http/key_ring.h) and a request's cache_salt; both may be empty.
std::string name_space_of(std::string_view owner, std::string_view cache_salt);

/// Where states of these prompts stand that were compacted so.
std::string compacted_name_space(std::string_view name_space, const KvBudget& budget);
bool is_compacted(std::string_view name_space);

struct NameSpaceParts {
  bool of_adapter = false;
  bool compacted = false;
  std::string_view owner{};
  bool salted = false;
};
/// Parts of `name_space`, which must outlive them.
NameSpaceParts parts_of(std::string_view name_space);

}  // namespace reprise::protocol
