#include "actors/eviction_policy.h"

namespace reprise::actors {
namespace {

class Lru final : public EvictionPolicy {
 public:
  double value(const CacheEntry&) override { return 0; }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_eviction_policy(std::string_view name) {
  if (name == "lru") return std::make_unique<Lru>();
  return nullptr;
}

std::vector<std::string> eviction_policy_names() {
  return {"lru"};
}

}  // namespace reprise::actors
