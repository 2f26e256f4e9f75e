#include "actors/cache/prefix_registry.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "actors/cache/cache_view.h"
#include "runtime/names.h"
#include "runtime/wait.h"
#include "traces/trace.h"

namespace reprise::actors {

using protocol::MissReason;
using runtime::Result;
using runtime::Task;

namespace {

// Deadline for answers of the worker, which may be in the middle of a long step.
constexpr std::chrono::minutes kLeaderDeadline{10};
constexpr std::chrono::seconds kExpiryPeriod{5};
constexpr std::chrono::seconds kUnadmitted{1};
constexpr int kMaxLeaders = 4;  // followed before a prompt computes itself

// Deadline for adoption, as the worker may be in the middle of a long step.
constexpr std::chrono::minutes kAdoptionDeadline{10};

Task<void> wait_for(Task<protocol::Dropped> dropping) {
  const protocol::Dropped dropped = co_await dropping;
  static_cast<void>(dropped);
}

}  // namespace

PrefixRegistry::PrefixRegistry(RegistryOptions options)
    : options_(std::move(options)),
      cache_(options_.cache),
      tier_(options_.tier, options_.cache.grid, options_.warn) {
  if (!options_.figures) options_.figures = std::make_shared<RegistryFigures>();
  options_.figures->budget_bytes.store(options_.budget_bytes, std::memory_order_relaxed);
}

void PrefixRegistry::on_start() {
  publish();
  launch(expire_now_and_then());
  if (options_.supervisor) options_.supervisor.tell(RegistryStarted{options_.model});
}

CacheTime PrefixRegistry::now() const {
  return runtime::Clock::now().time_since_epoch();
}

void PrefixRegistry::on(BindRegistry bind) {
  const bool first = generation_ == 0;  // nothing was computed before, so no report is lost
  kind_ = bind.kind;
  tier_.bind({.kind = bind.kind,
              .seconds_per_token = std::move(bind.seconds_per_token),
              .device_is_idle = std::move(bind.device_is_idle),
              .worker = bind.worker});
  worker_ = std::move(bind.worker);
  arch_ = bind.arch;
  generation_ = bind.arch.generation;
  worker_.tell(protocol::DropAdopted{bind.arch});  // before this one adopts anything
  adopted_bytes_ = 0;
  cache_.clear();
  for (auto& [number, flight] : flights_.all()) {
    flight.lease = 0;
    flight.cut_off = !first;
    flights_.pass(flight, UINT32_MAX);
    // A flight that was announced before the binding, or has yet to look up, may be served by the tier below.
    if (flight.sequence == protocol::SequenceId{} && !flight.fetching) {
      flight.fetched = {};
      begin_fetch(number, flight, 0);
    }
  }
  publish();
}

// -- prompts in flight

Task<protocol::Announced> PrefixRegistry::on(protocol::Announce announce) {
  expire();
  const std::span<const TokenId> prompt = *announce.prompt;
  const Sighting seen = cache_.peek(announce.name_space, prompt);
  protocol::Announced announced{
      .known = seen.known, .restorable = seen.restorable, .branch = seen.branch, .waited = false};
  if (announce.max_tokens < seen.restorable) {
    announced.restorable = cache_.peek(announce.name_space, begin_of(prompt, announce.max_tokens)).restorable;
  }
  Flight& flight = flights_.begin(announce, seen, now());
  const FlightId self = flight.in_cache;
  const runtime::CancelToken gone = flight.ended.token();
  publish();
  // A leader past the branch point is useless; another may still be on its way to it.
  std::vector<FlightId> passed;
  for (int tries = 0; tries < kMaxLeaders && !announced.waited; ++tries) {
    const std::optional<Leader> leader = cache_.lead(announce.name_space, *announce.prompt, self, passed);
    if (!leader) break;
    Task<bool> following = follow(*leader, gone);
    announced.waited = co_await following;
    if (flights_.find(announce.flight) == nullptr) co_return announced;  // the request has ended
    if (announced.waited && leader->at <= announce.max_tokens) {
      announced.restorable = std::max(announced.restorable, leader->at);
    }
    passed.push_back(leader->flight);
  }
  if (Flight* announcing = flights_.find(announce.flight)) {
    begin_fetch(announce.flight, *announcing, announced.restorable);
  }
  co_return announced;
}

Task<bool> PrefixRegistry::follow(Leader leader, runtime::CancelToken gone) {
  const protocol::FlightNumber leading = flights_.number_of(leader.flight);
  Flight* flight = flights_.find(leading);
  if (flight == nullptr) co_return false;
  const bool admitted = static_cast<bool>(flight->sequence);
  if (admitted) {
    auto asked = worker_.ask(protocol::AddCheckpoint{.sequence = flight->sequence, .at = leader.at},
                             kLeaderDeadline, gone);
    const Result<bool> added = co_await asked;
    if (!added.ok() || !*added) co_return false;
  } else {
    flight->wanted.push_back(leader.at);
  }
  options_.figures->followers.fetch_add(1, std::memory_order_relaxed);
  // A leader that is not admitted may wait longer than this prompt would.
  if (!admitted) {
    Task<bool> passing = flights_.passes(leading, leader.at, runtime::deadline_after(kUnadmitted), gone);
    if (co_await passing) co_return true;
    flight = flights_.find(leading);
    if (flight == nullptr || !flight->sequence) co_return false;
  }
  Task<bool> passing =
      flights_.passes(leading, leader.at, runtime::deadline_after(options_.max_follow), gone);
  const bool passed = co_await passing;
  co_return passed;
}

Task<protocol::FlightSettled> PrefixRegistry::on(protocol::Settle settle) {
  for (;;) {
    Flight* flight = flights_.find(settle.flight);
    if (flight == nullptr) co_return protocol::FlightSettled{};
    const protocol::FlightSettled settled{.kept = flight->kept};
    if ((flight->reports >= settle.reported || flight->cut_off) && !flight->landed) {
      flights_.land(*flight);
      publish();
    }
    if (flight->settled >= settle.reported || flight->cut_off) co_return settled;
    auto waiting = flight->changed.wait();
    const Result<void> woken = co_await waiting;
    if (!woken.ok()) co_return settled;
  }
}

protocol::Pinned PrefixRegistry::on(const protocol::Pin& pin) {
  const Flight* flight = flights_.find(pin.flight);
  if (flight == nullptr) return {};
  expire();  // ends expired pins, which frees their quota
  const auto most = std::min<std::size_t>(flight->prompt->size(), pin.tokens);
  const protocol::Pinned pinned =
      cache_.pin(flight->name_space, std::span<const TokenId>(*flight->prompt).first(most), now() + pin.time,
                 pin.ticket, pin.moves);
  publish();
  return pinned;
}

void PrefixRegistry::on(protocol::EndFlight end) {
  Flight* flight = flights_.find(end.flight);
  if (flight == nullptr) return;
  end_lease(*flight, MissReason::kNone);
  flights_.end(end.flight);
  publish();
}

// -- time and figures

void PrefixRegistry::expire() {
  for (const std::uint64_t snapshot : cache_.expire(now())) drop_later(id_of(snapshot));
}

Task<void> PrefixRegistry::expire_now_and_then() {
  for (;;) {
    auto pause = runtime::sleep_for(kExpiryPeriod);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) co_return;
    expire();
    publish();
  }
}

// -- lookup

Task<protocol::LookedUp> PrefixRegistry::on(protocol::Lookup lookup) {
  protocol::LookedUp answer;
  Flight* found = flights_.find(lookup.flight);
  // An admitted leader can be asked for checkpoints even while it waits here.
  if (found != nullptr) found->sequence = lookup.sequence;
  while (found != nullptr && found->fetching) {
    auto waiting = found->changed.wait();
    const Result<void> woken = co_await waiting;
    found = woken.ok() ? flights_.find(lookup.flight) : nullptr;
  }
  if (found == nullptr || lookup.sequence.generation != generation_) {
    answer.reason = MissReason::kLost;
    co_return answer;
  }
  expire();
  Flight& flight = *found;
  flight.since = flights_.wrong().now();
  answer.wanted = flight.wanted;
  const Found best = cache_.lookup(flight.name_space, begin_of(*flight.prompt, flight.max_tokens),
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
  protocol::Fetched below = std::exchange(flight.fetched, {});
  if (below.state &&
      flights_.wrong().may_spoil(flight.name_space, std::span(*flight.prompt).first(below.state->stored),
                                 flight.fetched_since)) {
    below = {.reason = MissReason::kCorrupt};
  }
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
  answer.beyond = flight.diverges ? flight.tokens_after : 0;
  const auto last = std::min(
      static_cast<std::uint32_t>(flight.prompt->empty() ? 0 : flight.prompt->size() - 1), flight.max_tokens);
  const std::uint32_t possible = std::min(best.known, last) / options_.cache.grid * options_.cache.grid;
  answer.lost = possible - std::min(possible, flight.looked_up);
  flight.lost = answer.lost;
  flight.why_lost = answer.reason;
  ++by_reason_[static_cast<std::size_t>(answer.reason)];
  lost_tokens_[static_cast<std::size_t>(answer.reason)] += answer.lost;
}

void PrefixRegistry::on(protocol::EndLease end) {
  if (Flight* flight = flights_.find(end.flight)) {
    if (end.brought_tokens > 0) {
      const auto tier = static_cast<std::size_t>(end.tier);
      options_.figures->brought[tier].fetch_add(1, std::memory_order_relaxed);
      options_.figures->brought_tokens[tier].fetch_add(end.brought_tokens, std::memory_order_relaxed);
      const std::uint32_t more = end.brought_tokens - std::min(end.brought_tokens, flight->looked_up);
      brought_tokens_ += more;
      const std::uint32_t found_again = std::min(more, flight->lost);
      lost_tokens_[static_cast<std::size_t>(flight->why_lost)] -= found_again;
      flight->lost -= found_again;
    }
    end_lease(*flight, end.failed);
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
  std::optional<protocol::FetchState> request =
      tier_.request_for(flight.name_space, flight.prompt, flight.max_tokens, restorable);
  if (!request) return;
  flight.fetching = true;
  flight.fetched_since = flights_.wrong().now();
  launch(fetch(number, std::move(*request)));
}

Task<void> PrefixRegistry::fetch(protocol::FlightNumber number, protocol::FetchState request) {
  Task<std::optional<protocol::Fetched>> fetching = tier_.fetch(std::move(request));
  std::optional<protocol::Fetched> fetched = co_await fetching;
  Flight* flight = flights_.find(number);
  if (flight == nullptr) co_return;
  flight->fetching = false;
  if (fetched) flight->fetched = std::move(*fetched);
  flight->changed.signal();
}

Task<void> PrefixRegistry::on(protocol::CheckpointTaken taken) {
  const protocol::FlightNumber number = taken.plan->flight;
  const std::uint32_t at = taken.at;
  if (Flight* flight = flights_.find(number)) {
    ++flight->reports;
    flight->changed.signal();
  }
  bool inserted = false;
  if (taken.sequence.generation == generation_) {
    if (taken.snapshot) {
      Task<bool> inserting = insert(std::move(taken));
      inserted = co_await inserting;
    } else if (!taken.healthy) {
      cache_.note_unhealthy(taken.plan->name_space, std::span(*taken.tokens).first(at));
    }
  }
  if (Flight* flight = flights_.find(number)) {
    ++flight->settled;
    if (inserted && at <= flight->prompt->size()) flight->kept = std::max(flight->kept, at);
    flights_.pass(*flight, at);
  }
  publish();
}

Task<bool> PrefixRegistry::insert(protocol::CheckpointTaken taken) {
  expire();
  const protocol::CheckpointPlan& plan = *taken.plan;
  const auto planned = std::find_if(plan.checkpoints.begin(), plan.checkpoints.end(),
                                    [&](const auto& one) { return one.at == taken.at; });
  const protocol::SnapshotId snapshot = taken.snapshot->snapshot;
  const Flight* flight = flights_.find(plan);
  const WrongStates::Moment since = flight == nullptr ? 0 : flight->since;
  const auto may_be_wrong = [&] {
    return flights_.wrong().may_spoil(plan.name_space, std::span(*taken.tokens).first(taken.at), since);
  };
  if (flight == nullptr || may_be_wrong()) {
    drop_later(snapshot);
    co_return false;
  }
  const Origin origin = planned == plan.checkpoints.end() ? plan.origin_elsewhere : planned->origin;
  const Inserted inserted =
      cache_.insert(plan.name_space, *taken.tokens,
                    {.snapshot = snapshot.number,
                     .length = taken.at,
                     .origin = origin,
                     .conversation = plan.conversation,
                     .request = plan.request,
                     .keep = plan.keep,
                     .ttl = planned == plan.checkpoints.end() ? CacheTime{0} : planned->ttl},
                    now());
  std::vector<protocol::SnapshotId> superseded;
  for (const std::uint64_t old : inserted.superseded) superseded.push_back(id_of(old));
  for (const protocol::SnapshotId old : superseded) {
    Task<protocol::Dropped> dropping = drop(old);
    const protocol::Dropped dropped = co_await dropping;
    static_cast<void>(dropped);
  }
  if (inserted.already_there) {
    const std::optional<EntryInfo> there = cache_.find(inserted.entry);
    if (!there || there->snapshot != snapshot.number) drop_later(snapshot);
    if (there) latest_ = inserted.entry;
    co_return there.has_value();
  }
  Task<bool> adopting = adopt(snapshot, inserted.entry);
  const bool adopted = co_await adopting;
  if (adopted && !may_be_wrong()) {
    latest_ = inserted.entry;  // only now: if adoption fails, the previous one must still be protected
    tier_.offer(taken, origin);
    co_return true;
  }  // otherwise the entry was removed, and its tombstone has the reason
  co_return false;
}

// The index counts in the budget, but takes at most half of it.
std::uint64_t PrefixRegistry::budget_for_snapshots() const {
  return options_.budget_bytes - std::min(cache_.stats().index_bytes, options_.budget_bytes / 2);
}

Task<bool> PrefixRegistry::adopt(protocol::SnapshotId snapshot, EntryId entry) {
  for (;;) {
    auto asked =
        worker_.ask(protocol::AdoptKvSnapshot{.snapshot = snapshot, .budget_bytes = budget_for_snapshots()},
                    kAdoptionDeadline);
    const protocol::JobResult<protocol::Adopted> adopted = protocol::answer_of(co_await asked);
    if (!adopted.ok()) {
      cache_.remove(entry, MissReason::kLost);
      co_return false;
    }
    adopted_bytes_ = adopted->adopted_bytes;
    if (adopted->done && !cache_.over_entry_limit()) co_return true;
    const std::optional<EntryInfo> victim = cache_.least_valuable(now(), true);
    if (!victim) {
      if (adopted->done) co_return true;  // all are leased: the limit is exceeded
      cache_.remove(entry, MissReason::kEvicted);
      co_return false;
    }
    cache_.remove(victim->id, MissReason::kEvicted);
    if (victim->id == entry) {
      options_.figures->self_evicted.fetch_add(1, std::memory_order_relaxed);
      if (options_.warn && !std::exchange(warned_, true)) {
        options_.warn("a snapshot of " + std::to_string(victim->length) +
                      " tokens does not fit the cache's budget of " +
                      std::to_string(options_.budget_bytes >> 20) + " MiB; raise cache.budget_mb");
      }
    }
    Task<protocol::Dropped> dropping = drop(id_of(victim->snapshot));
    const protocol::Dropped dropped = co_await dropping;
    adopted_bytes_ = dropped.adopted_bytes;
    if (victim->id == entry) co_return false;
  }
}

void PrefixRegistry::on(protocol::DropEntry dropped) {
  flights_.wrong().add(dropped.name_space, dropped.tokens, dropped.length);
  const auto wrong = std::span<const TokenId>(*dropped.tokens).first(dropped.length);
  for (const std::uint64_t snapshot : cache_.remove_from(dropped.name_space, wrong, MissReason::kCorrupt)) {
    drop_later(id_of(snapshot));
  }
  tier_.forget(dropped);
  publish();
}

protocol::Nothing PrefixRegistry::on(protocol::DropNamespaces dropped) {
  for (const std::uint64_t snapshot : cache_.remove_namespaces(dropped.prefix, MissReason::kLost)) {
    drop_later(id_of(snapshot));
  }
  publish();
  return {};
}

protocol::CacheView PrefixRegistry::on(protocol::ViewCache view) {
  return view_of(cache_, view, now(), kind_);
}

Task<protocol::Dropped> PrefixRegistry::drop(protocol::SnapshotId snapshot) {
  auto asked = worker_.ask(protocol::DropKvSnapshot{.snapshot = snapshot}, kAdoptionDeadline);
  const Result<protocol::Dropped> dropped = co_await asked;
  co_return dropped.ok() ? *dropped : protocol::Dropped{};
}

void PrefixRegistry::drop_later(protocol::SnapshotId snapshot) {
  if (worker_) launch(wait_for(drop(snapshot)));
}

// Drops entries in batches that should suffice: waiting for the worker costs a step each time.
Task<protocol::Reclaimed> PrefixRegistry::on(protocol::Reclaim reclaim) {
  protocol::Reclaimed reclaimed;
  expire();
  for (bool more = true; more && reclaimed.freed_bytes < reclaim.bytes;) {
    std::vector<protocol::SnapshotId> going;
    for (std::size_t most = likely_enough(reclaim.bytes - reclaimed.freed_bytes); going.size() < most;) {
      const std::optional<EntryInfo> victim = next_for(reclaim, reclaimed.entries > 0 || !going.empty());
      more = victim.has_value();
      if (!more) break;
      cache_.remove(victim->id, MissReason::kEvicted);
      going.push_back(id_of(victim->snapshot));
    }
    Task<std::uint64_t> dropping = drop_all(going);
    const std::uint64_t freed = co_await dropping;
    reclaimed.freed_bytes += freed;
    reclaimed.entries += static_cast<std::uint32_t>(going.size());
  }
  publish();
  co_return reclaimed;
}

std::optional<EntryInfo> PrefixRegistry::next_for(const protocol::Reclaim& reclaim, bool has_given) {
  // Pinned entries as a last resort: a request matters more.
  std::optional<EntryInfo> victim = cache_.least_valuable(now(), false);
  if (!victim && !reclaim.ahead) victim = cache_.least_valuable(now(), true);
  if (!victim) fell_short_ = fell_short_ || !reclaim.ahead;
  if (!victim || (victim->last_use.count() > reclaim.not_after && has_given)) return std::nullopt;
  if (reclaim.ahead && victim->id == latest_) return std::nullopt;  // likely to be used next
  return victim;
}

std::size_t PrefixRegistry::likely_enough(std::uint64_t bytes) const {
  constexpr std::uint64_t kMax = 16;
  const std::uint64_t entries = std::max<std::uint64_t>(cache_.stats().entries, 1);
  const std::uint64_t each = std::max<std::uint64_t>(adopted_bytes_ / entries, 1);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(bytes / each, 1, kMax));
}

Task<std::uint64_t> PrefixRegistry::drop_all(std::vector<protocol::SnapshotId> snapshots) {
  struct Drop {
    Drop(const protocol::SnapshotRef& worker, protocol::SnapshotId snapshot)
        : asked(worker.ask(protocol::DropKvSnapshot{.snapshot = snapshot}, kAdoptionDeadline)) {}
    runtime::Ask<protocol::Dropped> asked;
  };
  std::deque<Drop> drops;  // deque: asks must not move
  for (const protocol::SnapshotId snapshot : snapshots) drops.emplace_back(worker_, snapshot);
  std::uint64_t freed = 0;
  for (Drop& drop : drops) {
    const Result<protocol::Dropped> dropped = co_await drop.asked;
    if (!dropped.ok()) continue;
    freed += dropped->freed_bytes;
    adopted_bytes_ = dropped->adopted_bytes;
  }
  co_return freed;
}

void PrefixRegistry::offer() {
  if (worker_ && std::exchange(fell_short_, false)) worker_.tell(protocol::MoreToReclaim{arch_});
}

// -- figures

void PrefixRegistry::plot(const PrefixCacheStats& stats) const {
  const std::string model = "registry " + options_.model + ": ";
  const auto show = [&](const char* what, double value) {
    traces::plot(runtime::intern_name(model + what, what), value);
  };
  constexpr double kMb = 1 << 20;
  if (stats.prompt_tokens > 0) {
    show("tokens restored, %",
         100.0 * static_cast<double>(stats.restored_tokens) / static_cast<double>(stats.prompt_tokens));
  }
  show("entries", static_cast<double>(stats.entries));
  show("prompts in flight", static_cast<double>(stats.flights));
  show("snapshots, MB", static_cast<double>(adopted_bytes_) / kMb);
  show("budget, MB", static_cast<double>(options_.budget_bytes) / kMb);
}

void PrefixRegistry::publish() {
  const PrefixCacheStats stats = cache_.stats();
  RegistryFigures& figures = *options_.figures;
  const auto set = [](RegistryFigures::Figure& figure, std::uint64_t value) {
    figure.store(value, std::memory_order_relaxed);
  };
  set(figures.lookups, stats.lookups);
  set(figures.prompt_tokens, stats.prompt_tokens);
  set(figures.restored_tokens, stats.restored_tokens + brought_tokens_);
  for (std::size_t i = 0; i < protocol::kMissReasons; ++i) {
    set(figures.by_reason[i], by_reason_[i]);
    set(figures.lost_tokens[i], lost_tokens_[i]);
  }
  for (std::size_t i = 0; i < protocol::kOrigins; ++i) {
    set(figures.hits_by_origin[i], stats.hits_by_origin[i]);
    set(figures.inserts_by_origin[i], stats.inserts_by_origin[i]);
  }
  set(figures.evicted, stats.evicted);
  set(figures.expired, stats.expired);
  set(figures.superseded, stats.superseded);
  set(figures.capped, stats.capped);
  set(figures.thrashed, stats.thrashed);
  set(figures.index_bytes, stats.index_bytes);
  set(figures.entries, stats.entries);
  set(figures.leases, stats.leases);
  set(figures.pinned, stats.pinned);
  set(figures.flights, stats.flights);
  set(figures.path_tokens, stats.path_tokens);
  set(figures.namespaces, stats.namespaces);
  set(figures.adopted_bytes, adopted_bytes_);
  if (traces::on()) plot(stats);
  const std::optional<EntryInfo> oldest = cache_.least_valuable(now(), true);
  figures.oldest_use_ns.store(oldest ? oldest->last_use.count() : INT64_MAX, std::memory_order_relaxed);
}

}  // namespace reprise::actors
