#pragma once
// StateOrder: in which order the states that a tier holds go. It is that of the device's policy `forks` (eviction_policy.h):
// the one that was not used for longest goes first, where a state from which prompts part ages four times slower and one
// that was brought from here twice slower. A tier does not see which prompts are known, so only states that were taken where
// prompts part count as shared. docs/replay.md has what this is worth.
//
// Costs: the same for any number of states. Threading: the tier's thread.

#include <array>
#include <chrono>
#include <list>
#include <memory>
#include <optional>

#include "actors/cache/eviction_policy.h"
#include "protocol/snapshots/seal.h"

namespace reprise::actors {

class StateOrder {
 public:
  using Time = std::chrono::nanoseconds;
  using RecordId = protocol::snapshots::RecordId;

 private:
  struct Item {
    RecordId id{};
    Time last_use{0};
  };
  using ByUse = std::list<Item>;  // the one used last at the end

 public:
  /// Where a state stands; its owner keeps it.
  struct Place {
    EntryKind kind{};
    ByUse::iterator item{};
  };

  Place add(const RecordId& id, protocol::Origin origin, Time now) {
    const EntryKind kind{.shared = origin == protocol::Origin::kBranch, .hit = false};
    ByUse& queue = of(kind);
    return {kind, queue.insert(queue.end(), {id, now})};
  }
  /// It was brought to the device, or stored once more.
  void use(Place& place, bool brought, Time now) {
    ByUse& from = of(place.kind);
    place.kind.hit = place.kind.hit || brought;
    ByUse& to = of(place.kind);
    to.splice(to.end(), from, place.item);
    place.item->last_use = now;
  }
  void remove(const Place& place) { of(place.kind).erase(place.item); }

  /// Nothing: there is none.
  std::optional<RecordId> first(Time now) const {
    const Item* first = nullptr;
    Time oldest{0};
    for (const bool shared : {false, true}) {
      for (const bool hit : {false, true}) {
        const EntryKind kind{.shared = shared, .hit = hit};
        const ByUse& queue = queues_[index_of(kind)];
        if (queue.empty()) continue;
        const Time age = felt_age(now - queue.front().last_use, policy_->patience(kind));
        if (first != nullptr && age <= oldest) continue;
        first = &queue.front();
        oldest = age;
      }
    }
    return first == nullptr ? std::nullopt : std::optional(first->id);
  }

 private:
  static std::size_t index_of(EntryKind kind) { return (kind.shared ? 2 : 0) + (kind.hit ? 1 : 0); }
  ByUse& of(EntryKind kind) { return queues_[index_of(kind)]; }

  std::unique_ptr<EvictionPolicy> policy_ = make_eviction_policy("forks");
  std::array<ByUse, 4> queues_;  // by kind
};

}  // namespace reprise::actors
