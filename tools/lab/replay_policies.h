#pragma once
// Alternatives to the cache's own eviction policy, used inside the cache instead of it:
//
//   lru      all entries age at the same rate
//   forks    shared entries age four times slower, entries with a hit twice slower, both eight times: shared
//            prefixes are more likely to be used again than a single conversation
//   returns  the policy used by the server (actors/cache/eviction.h)

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cache/eviction.h"

namespace reprise::tools {

class LruPolicy : public actors::EvictionPolicy {
 public:
  double patience(actors::EntryKind) const override { return 1; }
};

class ForksPolicy : public actors::EvictionPolicy {
 public:
  double patience(actors::EntryKind kind) const override {
    return (kind.shared ? 4 : 1) * (kind.hit ? 2 : 1);
  }
};

inline std::vector<std::string> cache_policy_names() {
  return {"lru", "forks", "returns"};
}

/// Returns null for an unknown name.
inline std::unique_ptr<actors::EvictionPolicy> make_cache_policy(std::string_view name) {
  if (name == "lru") return std::make_unique<LruPolicy>();
  if (name == "forks") return std::make_unique<ForksPolicy>();
  if (name == "returns") return actors::make_eviction_policy();
  return nullptr;
}

}  // namespace reprise::tools
