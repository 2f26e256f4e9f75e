#include "protocol/cache_view.h"

#include "protocol/name_space.h"

namespace reprise::protocol {

bool CacheScope::sees(std::string_view name_space) const {
  if (all) return true;
  const NameSpaceParts parts = parts_of(name_space);
  if (parts.owner != cache_owner) return false;
  // In a cache that tenants share, only the salt separates them.
  return !cache_owner.empty() || !parts.salted;
}

}  // namespace reprise::protocol
