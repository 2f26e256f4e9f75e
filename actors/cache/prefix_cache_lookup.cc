// Flights and lookups: what a prompt can be restored from, and why not from more.

#include <algorithm>

#include "actors/cache/prefix_cache_parts.h"
#include "base/check.h"

namespace reprise::actors {
namespace {

using Node = PrefixTree::Node;
using Place = PrefixTree::Place;
using Tokens = std::span<const TokenId>;

}  // namespace

// -- what is known of a prompt

PrefixCache::Impl::Best PrefixCache::Impl::best_for(Place place, std::size_t length) {
  if (options.any_token) {
    const Place covered = PrefixTree::deepest_with(place, PrefixTree::kEntry);
    const std::uint32_t at = restorable(covered.depth, length);
    if (at == 0) return {};
    const Place cut = PrefixTree::above(covered, at);
    return {&entry_at(PrefixTree::find_below(cut.node, PrefixTree::kEntry)), at};
  }
  const std::uint32_t most = restorable(place.depth, length);
  for (const Node* node = place.node; node != nullptr; node = node->parent()) {
    if (node->entry() != 0 && node->depth() <= most) return {&entry_at(node), node->depth()};
  }
  return {};
}

MissReason PrefixCache::Impl::explain(Place place, std::size_t length, std::uint32_t restored) const {
  const std::uint32_t possible = restorable(place.depth, length);
  if (restored == possible && restored > 0) return MissReason::kNone;
  if (place.depth < options.grid) return MissReason::kNeverSeen;
  if (options.any_token) {  // one that went could have been cut
    const Place buried = PrefixTree::deepest_with(place, PrefixTree::kTombstone);
    if (restorable(buried.depth, length) <= restored) return MissReason::kNoCheckpoint;
    return PrefixTree::find_below(buried.node, PrefixTree::kTombstone)->tombstone();
  }
  for (const Node* node = place.node; node->depth() > restored; node = node->parent()) {
    if (node->depth() <= possible && node->tombstone() != MissReason::kNone) return node->tombstone();
  }
  return MissReason::kNoCheckpoint;
}

void PrefixCache::Impl::see_return(Place place, std::size_t length, std::uint32_t restored, CacheTime now) {
  const std::uint32_t possible = restorable(place.depth, length);
  for (Node* node = place.node; node != nullptr && node->depth() > restored;
       node = PrefixTree::parent_of(node)) {
    if (node->depth() > possible || !node->burial().counts || node->entry() != 0) continue;
    const EntryBurial& burial = node->burial();
    policy->returned({.shared = burial.shared, .hit = burial.hit}, now - burial.last_use);
    PrefixTree::settle_burial(node);
    return;
  }
}

FlightId PrefixCache::Impl::older_flight(const Node* node, FlightId self, std::span<const FlightId> passed) {
  constexpr int kMostNodes = 256;
  FlightId oldest = self;
  std::vector<const Node*> open = {node};
  for (int looked = 0; !open.empty() && looked < kMostNodes; ++looked) {
    const Node* next = open.back();
    open.pop_back();
    for (const FlightId flight : next->flights()) {
      const bool known = std::find(passed.begin(), passed.end(), flight) != passed.end();
      if (!known && flight < oldest) oldest = flight;
    }
    next->for_each_child([&](const Node* child) {
      if (child->count(PrefixTree::kFlight) > 0) open.push_back(child);
    });
  }
  return oldest == self ? 0 : oldest;
}

void PrefixCache::Impl::use(CacheEntry& entry, CacheTime now) {
  ++entry.hits;
  ++entry.leases;
  ++counted.leases;
  refresh(entry, now);
}

// -- flights

FlightId PrefixCache::begin_flight(std::string_view name_space, Tokens prompt, CacheTime) {
  CacheNamespace& space = impl_->namespaces.find_or_add(name_space);
  Node* node = impl_->tree.walk(space.root, prompt, ++impl_->clock);
  const FlightId flight = ++impl_->last_id;
  impl_->tree.add_flight(node, flight);
  impl_->flights.emplace(flight, Impl::Flight{&space, node});
  impl_->settle(space);
  return flight;
}

void PrefixCache::end_flight(FlightId flight) {
  const auto at = impl_->flights.find(flight);
  REPRISE_CHECK(at != impl_->flights.end(), "a flight ended that is not registered");
  const Impl::Flight ended = at->second;
  impl_->flights.erase(at);
  impl_->tree.remove_flight(ended.node, flight);
  impl_->settle(*ended.space);
}

std::optional<Leader> PrefixCache::lead(std::string_view name_space, Tokens prompt) const {
  return lead(name_space, prompt, 0, {});
}

std::optional<Leader> PrefixCache::lead(std::string_view name_space, Tokens prompt, FlightId self,
                                        std::span<const FlightId> passed) const {
  const CacheNamespace* space = impl_->namespaces.find(name_space);
  if (space == nullptr) return std::nullopt;
  Place place = impl_->tree.match(space->root, prompt);
  const std::uint32_t have = impl_->best_for(place, prompt.size()).at;
  for (;;) {
    const Place shared = PrefixTree::deepest_with(place, PrefixTree::kFlight);
    const std::uint32_t at = impl_->restorable(shared.depth, prompt.size());
    if (at <= have || at - have < impl_->options.worth_waiting) return std::nullopt;
    if (self == 0) {
      return Leader{PrefixTree::find_below(shared.node, PrefixTree::kFlight)->flights().front(), at};
    }
    if (const FlightId flight = Impl::older_flight(shared.node, self, passed)) return Leader{flight, at};
    const Node* parent = shared.node->parent();
    if (parent == nullptr) return std::nullopt;
    place = PrefixTree::above(shared, parent->depth());
  }
}

// -- lookup

Sighting PrefixCache::peek(std::string_view name_space, Tokens prompt) const {
  const CacheNamespace* space = impl_->namespaces.find(name_space);
  if (space == nullptr) return {};
  const Place place = impl_->tree.match(space->root, prompt);
  Sighting seen{.known = place.depth, .restorable = impl_->best_for(place, prompt.size()).at, .branch = {}};
  const std::uint32_t branch = impl_->restorable(place.depth, prompt.size());
  if (PrefixTree::goes_on(place) && branch > seen.restorable) seen.branch = branch;
  seen.diverges = PrefixTree::goes_on(place) && place.depth < prompt.size();
  if (seen.diverges && place.node->count(PrefixTree::kEntry) > 0) {
    const std::uint32_t depth = PrefixTree::find_below(place.node, PrefixTree::kEntry)->depth();
    seen.behind = depth - std::min(depth, place.depth);
  }
  return seen;
}

Found PrefixCache::lookup(std::string_view name_space, Tokens prompt, std::uint32_t min_tokens, CacheTime now,
                          std::uint32_t known, std::uint64_t request) {
  PrefixCacheStats& counted = impl_->counted;
  Found found;
  found.reason = MissReason::kNeverSeen;
  if (CacheNamespace* space = impl_->namespaces.find(name_space)) {
    Place place = impl_->tree.match(space->root, prompt);
    impl_->tree.touch(place, ++impl_->clock);
    const Impl::Best best = impl_->best_for(place, prompt.size());
    const bool in_flight = known != UINT32_MAX;
    known = std::max(known, best.at);  // a flight that led may have gone further since
    if (known < place.depth) place = PrefixTree::above(place, known);
    found.known = place.depth;
    const std::uint32_t branch = impl_->restorable(place.depth, prompt.size());
    if (!in_flight && PrefixTree::goes_on(place) && branch > best.at) found.branch = branch;
    if (best.entry != nullptr && best.at < min_tokens) {
      found.reason = MissReason::kBelowMinimum;
    } else {
      found.reason = impl_->explain(place, prompt.size(), best.at);
      impl_->see_return(place, prompt.size(), best.at, now);
      if (best.entry != nullptr) {
        CacheEntry& entry = *best.entry;
        found.restore = Found::Restore{entry.id, entry.snapshot, best.at, entry.origin, entry.conversation};
        // One that is cut to serve for its beginning alone has not come back.
        if (best.at >= entry.length / 2) impl_->policy->returned(entry.kind, now - entry.last_use);
        impl_->use(entry, now);
        const auto length = static_cast<std::uint32_t>(prompt.size());
        if (request != 0 && entry.length == impl_->restorable(length, length)) entry.request = request;
        counted.restored_tokens += best.at;
        ++counted.hits_by_origin[static_cast<std::size_t>(entry.origin)];
      }
    }
    impl_->settle(*space);
  }
  ++counted.lookups;
  counted.prompt_tokens += prompt.size();
  ++counted.by_reason[static_cast<std::size_t>(found.reason)];
  return found;
}

std::optional<std::uint64_t> PrefixCache::release(EntryId id) {
  const auto at = impl_->entries.find(id);
  if (at == impl_->entries.end()) return std::nullopt;  // clear() ended the lease
  CacheEntry& entry = at->second;
  REPRISE_CHECK(entry.leases > 0, "a lease was released more often than it was taken");
  --impl_->counted.leases;
  if (--entry.leases > 0) return std::nullopt;
  if (entry.node != nullptr) {
    impl_->enqueue(entry);
    return std::nullopt;
  }
  const std::uint64_t snapshot = entry.snapshot;
  impl_->entries.erase(at);
  return snapshot;
}

}  // namespace reprise::actors
