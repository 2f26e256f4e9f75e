#include "protocol/cache_view.h"

#include "protocol/name_space.h"

namespace reprise::protocol {

bool CacheScope::sees(std::string_view name_space) const {
  if (all) return true;
  const NameSpaceParts parts = parts_of(name_space);
  if (parts.owner != cache_owner) return false;
  // Where tenants share what is cached, a salt is what keeps one apart from the others.
  return !cache_owner.empty() || !parts.salted;
}

}  // namespace reprise::protocol
