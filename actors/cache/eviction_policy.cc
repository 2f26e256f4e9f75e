#include "actors/cache/eviction_policy.h"

#include <utility>

namespace reprise::actors {
namespace {

std::uint32_t lru(const CacheEntry&) {
  return 1;
}

std::uint32_t forks(const CacheEntry& entry) {
  // A prompt that is being computed is one of the ways, so two are no more than "it was hit".
  const bool shared = entry.origin == protocol::Origin::kBranch || entry.node->children() > 2;
  return (shared ? 4 : 1) * (entry.hits > 0 ? 2 : 1);
}

constexpr std::pair<std::string_view, EvictionPolicy> kPolicies[] = {{"lru", lru}, {"forks", forks}};

}  // namespace

EvictionPolicy find_eviction_policy(std::string_view name) {
  for (const auto& [known, policy] : kPolicies) {
    if (known == name) return policy;
  }
  return nullptr;
}

std::vector<std::string> eviction_policy_names() {
  std::vector<std::string> names;
  for (const auto& [name, policy] : kPolicies) names.emplace_back(name);
  return names;
}

}  // namespace reprise::actors
