// What a prompt is restored from: entries, leases on them, and what the tier below brings.

#include <algorithm>
#include <utility>

#include "actors/cache/prefix_registry.h"

namespace reprise::actors {

using protocol::MissReason;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::seconds kFetchDeadline{20};
constexpr std::chrono::seconds kTierRests{60};

}  // namespace

// -- lookup

Task<protocol::LookedUp> PrefixRegistry::on(protocol::Lookup lookup) {
  protocol::LookedUp answer;
  auto found = flights_.find(lookup.flight);
  // A leader that is admitted can be asked for checkpoints, also while it waits here.
  if (found != flights_.end()) found->second.sequence = lookup.sequence;
  while (found != flights_.end() && found->second.fetching) {
    auto waiting = found->second.changed.wait();
    const Result<void> woken = co_await waiting;
    found = woken.ok() ? flights_.find(lookup.flight) : flights_.end();
  }
  if (found == flights_.end() || lookup.sequence.generation != generation_) {
    answer.reason = MissReason::kLost;
    co_return answer;
  }
  expire();
  Flight& flight = found->second;
  answer.wanted = flight.wanted;
  const Found best = cache_.lookup(flight.name_space, begin_of(*flight.prompt, flight.most_tokens),
                                   lookup.min_tokens, now(), flight.known, lookup.flight);
  if (best.restore) {
    end_lease(flight, MissReason::kNone);
    flight.lease = latest_ = best.restore->entry;
    answer.restore = protocol::LookedUp::Restore{.snapshot = id_of(best.restore->snapshot),
                                                 .at = best.restore->at,
                                                 .origin = best.restore->origin,
                                                 .conversation = best.restore->conversation};
  }
  flight.looked_up = best.restore ? best.restore->at : 0;
  const protocol::Fetched below = std::exchange(flight.fetched, {});
  if (below.state && below.state->stored > flight.looked_up && below.state->stored >= lookup.min_tokens) {
    answer.brought =
        protocol::LookedUp::Brought{.state = below.state, .origin = below.origin, .tier = below.tier};
  }
  answer.reason = !below.state && below.reason != MissReason::kNeverSeen ? below.reason : best.reason;
  explain(flight, best, answer);
  publish();
  co_return answer;
}

void PrefixRegistry::explain(Flight& flight, const Found& best, protocol::LookedUp& answer) {
  if (answer.reason == MissReason::kNoCheckpoint && flight.diverges) answer.reason = MissReason::kDiverged;
  answer.known = best.known;
  answer.behind = flight.diverges ? flight.behind : 0;
  const auto last = std::min(
      static_cast<std::uint32_t>(flight.prompt->empty() ? 0 : flight.prompt->size() - 1), flight.most_tokens);
  const std::uint32_t possible = std::min(best.known, last) / options_.cache.grid * options_.cache.grid;
  answer.lost = possible - std::min(possible, flight.looked_up);
  flight.lost = answer.lost;
  flight.why_lost = answer.reason;
  ++by_reason_[static_cast<std::size_t>(answer.reason)];
  lost_tokens_[static_cast<std::size_t>(answer.reason)] += answer.lost;
}

void PrefixRegistry::on(protocol::EndLease end) {
  const auto found = flights_.find(end.flight);
  if (found != flights_.end()) {
    if (end.brought_tokens > 0) {
      const auto tier = static_cast<std::size_t>(end.tier);
      options_.figures->brought[tier].fetch_add(1, std::memory_order_relaxed);
      options_.figures->brought_tokens[tier].fetch_add(end.brought_tokens, std::memory_order_relaxed);
      const std::uint32_t more = end.brought_tokens - std::min(end.brought_tokens, found->second.looked_up);
      brought_tokens_ += more;
      const std::uint32_t found_again = std::min(more, found->second.lost);
      lost_tokens_[static_cast<std::size_t>(found->second.why_lost)] -= found_again;
      found->second.lost -= found_again;
    }
    end_lease(found->second, end.failed);
  }
  publish();
}

void PrefixRegistry::end_lease(Flight& flight, MissReason failed) {
  const EntryId lease = std::exchange(flight.lease, 0);
  if (lease == 0) return;
  if (const std::optional<std::uint64_t> snapshot = cache_.release(lease)) drop_later(id_of(*snapshot));
  offer();
  if (failed == MissReason::kNone || failed == MissReason::kNoMemory) return;
  if (const std::optional<EntryInfo> entry = cache_.find(lease)) {
    if (cache_.remove(entry->id, failed)) drop_later(id_of(entry->snapshot));
  }
}

// -- the tier below

void PrefixRegistry::begin_fetch(protocol::FlightNumber number, Flight& flight, std::uint32_t restorable) {
  if (!options_.tier || bound_.kind.page_tokens == 0 || flight.prompt->empty()) return;
  if (runtime::Clock::now() < tier_rests_until_) return;
  const std::uint32_t grid = options_.cache.grid;
  const std::uint32_t most =
      std::min(static_cast<std::uint32_t>(flight.prompt->size() - 1), flight.most_tokens) / grid * grid;
  if (most < restorable + kWorthFetching) return;
  flight.fetching = true;
  launch(fetch(number, {.kind = bound_.kind,
                        .name_space = flight.name_space,
                        .prompt = flight.prompt,
                        .more_than = restorable,
                        .at_most = most,
                        .seconds_per_token = bound_.seconds_per_token ? bound_.seconds_per_token() : 0}));
}

Task<void> PrefixRegistry::fetch(protocol::FlightNumber number, protocol::FetchState wish) {
  auto asked = options_.tier.ask(std::move(wish), kFetchDeadline);
  Result<protocol::Fetched> fetched = co_await asked;
  if (!fetched.ok()) {
    tier_rests_until_ = runtime::Clock::now() + kTierRests;
    if (options_.warn) options_.warn("cache tier: no answer to a lookup: " + fetched.error().describe());
  }
  const auto found = flights_.find(number);
  if (found == flights_.end()) co_return;
  found->second.fetching = false;
  if (fetched.ok()) found->second.fetched = std::move(*fetched);
  found->second.changed.signal();
}

void PrefixRegistry::offer_below(const protocol::CheckpointTaken& taken, Origin origin) {
  if (!options_.tier || bound_.kind.page_tokens == 0 || taken.at < kWorthFetching) return;
  protocol::StoreState store{.kind = bound_.kind,
                             .name_space = taken.plan->name_space,
                             .tokens = taken.tokens,
                             .at = taken.at,
                             .origin = origin,
                             .snapshot = taken.snapshot->snapshot,
                             .worker = worker_};
  if (origin == Origin::kSpaced || origin == Origin::kReply) {
    store.device_is_idle = bound_.device_is_idle ? bound_.device_is_idle : [] { return true; };
  } else {
    store.retention = taken.plan->disk_retention;
  }
  options_.tier.tell(std::move(store));
}

}  // namespace reprise::actors
