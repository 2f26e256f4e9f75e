#pragma once
// StateOrder: in which order the states that a tier holds go. The one that was not used for longest goes first, where a state
// at which prompts part ages four times slower, and one that was brought from here twice slower: what several prompts
// share comes back when a single conversation does not. So does the device's policy `forks`; but a tier does not see which
// prompts are known, so only states that were taken where prompts part count as shared. docs/replay.md has what it is worth.
//
// Costs: the same for any number of states. Threading: the tier's thread.

#include <array>
#include <chrono>
#include <list>
#include <optional>

#include "protocol/cache_report.h"
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
    bool shared = false;
    bool brought = false;
    ByUse::iterator item{};
  };

  Place add(const RecordId& id, protocol::Origin origin, Time now) {
    const bool shared = origin == protocol::Origin::kBranch;
    ByUse& queue = queues_[shared][false];
    return {.shared = shared, .brought = false, .item = queue.insert(queue.end(), {id, now})};
  }
  /// It was brought to the device, or stored once more.
  void use(Place& place, bool brought, Time now) {
    ByUse& from = queues_[place.shared][place.brought];
    place.brought = place.brought || brought;
    ByUse& to = queues_[place.shared][place.brought];
    to.splice(to.end(), from, place.item);
    place.item->last_use = now;
  }
  void remove(const Place& place) { queues_[place.shared][place.brought].erase(place.item); }

  /// Nothing: there is none.
  std::optional<RecordId> first(Time now) const {
    const Item* first = nullptr;
    Time oldest{0};
    for (const bool shared : {false, true}) {
      for (const bool brought : {false, true}) {
        const ByUse& queue = queues_[shared][brought];
        if (queue.empty()) continue;
        const Time age = (now - queue.front().last_use) / ((shared ? 4 : 1) * (brought ? 2 : 1));
        if (first != nullptr && age <= oldest) continue;
        first = &queue.front();
        oldest = age;
      }
    }
    return first == nullptr ? std::nullopt : std::optional(first->id);
  }

 private:
  std::array<std::array<ByUse, 2>, 2> queues_;  // [shared][brought]
};

}  // namespace reprise::actors
