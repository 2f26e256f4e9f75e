#include "actors/cache/eviction_policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace reprise::actors {
namespace {

class Lru : public EvictionPolicy {
 public:
  std::uint32_t patience(EntryKind) const override { return 1; }
};

class Forks : public EvictionPolicy {
 public:
  std::uint32_t patience(EntryKind kind) const override { return (kind.shared ? 4 : 1) * (kind.hit ? 2 : 1); }
};

class Returns : public EvictionPolicy {
 public:
  std::uint32_t patience(EntryKind kind) const override {
    return (kind.shared ? with_shared_ : 1) * (kind.hit ? 2 : 1);
  }

  void returned(EntryKind kind, Time unused) override {
    if (kind.shared) return;
    learn(return_seconds_, unused);
  }
  void evicted(EntryKind kind, Time unused) override {
    if (kind.shared) return;
    learn(stay_seconds_, unused);
  }

 private:
  static constexpr double kLeast = 3;
  static constexpr double kMost = 64;
  static constexpr double kShare = 1.0 / 3;  // of the time to return
  static constexpr double kWeight = 0.02;    // of what was seen last

  void learn(double& mean, Time unused) {
    mean += kWeight * (std::chrono::duration<double>(unused).count() - mean);
    const double shortage = std::max(1.0, kShare * return_seconds_ / std::max(1.0, stay_seconds_));
    with_shared_ = static_cast<std::uint32_t>(std::lround(std::min(kMost, kLeast * shortage * shortage)));
  }

  // Of entries that are not shared. Before anything was seen: a pause of three minutes, and no shortage.
  double return_seconds_ = 180;
  double stay_seconds_ = 60;
  std::uint32_t with_shared_ = 3;
};

template <class Policy>
std::unique_ptr<EvictionPolicy> make() {
  return std::make_unique<Policy>();
}

using Maker = std::unique_ptr<EvictionPolicy> (*)();
constexpr std::pair<std::string_view, Maker> kPolicies[] = {
    {"lru", make<Lru>}, {"forks", make<Forks>}, {"returns", make<Returns>}};

}  // namespace

EntryKind kind_of(const CacheEntry& entry) {
  // A prompt that is being computed is one of the ways, so two are no more than "it was hit".
  return {.shared = entry.origin == protocol::Origin::kBranch || entry.node->children() > 2,
          .hit = entry.hits > 0};
}

std::unique_ptr<EvictionPolicy> make_eviction_policy(std::string_view name) {
  for (const auto& [known, maker] : kPolicies) {
    if (known == name) return maker();
  }
  return nullptr;
}

std::vector<std::string> eviction_policy_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : kPolicies) names.emplace_back(name);
  return names;
}

}  // namespace reprise::actors
