#include "actors/cache/prefix_registry.h"

#include <algorithm>
#include <stdexcept>

#include "runtime/wait.h"

namespace reprise::actors {

using protocol::MissReason;
using runtime::Result;
using runtime::Task;

namespace {

// For answers of the worker, which may be in the middle of a long step.
constexpr std::chrono::minutes kWorkerDeadline{10};
constexpr std::chrono::seconds kExpiryPeriod{5};
constexpr std::chrono::seconds kUnadmitted{1};
constexpr int kMostLeaders = 4;  // asked before a prompt computes itself

}  // namespace

PrefixRegistry::PrefixRegistry(RegistryOptions options)
    : options_(std::move(options)), cache_(options_.cache) {
  if (!options_.figures) options_.figures = std::make_shared<RegistryFigures>();
  options_.figures->budget_bytes.store(options_.budget_bytes, std::memory_order_relaxed);
}

void PrefixRegistry::on_start() {
  publish();
  launch(expire_now_and_then());
  if (options_.supervisor) options_.supervisor.tell(RegistryStarted{options_.model});
}

protocol::Nothing PrefixRegistry::on(protocol::InjectCrash) {
  throw std::runtime_error("a crash of a registry was injected");
}

CacheTime PrefixRegistry::now() const {
  return runtime::Clock::now().time_since_epoch();
}

void PrefixRegistry::on(BindRegistry bind) {
  worker_ = std::move(bind.worker);
  generation_ = bind.arch.generation;
  worker_.tell(protocol::DropAdopted{bind.arch});  // before this one adopts anything
  adopted_bytes_ = 0;
  cache_.clear();
  for (auto& [number, flight] : flights_) {
    flight.lease = 0;  // ended by clear()
    wake(flight, UINT32_MAX);
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
  Flight& flight = flights_[announce.flight];
  flight.in_cache = cache_.begin_flight(announce.name_space, prompt, now());
  numbers_[flight.in_cache] = announce.flight;
  flight.name_space = announce.name_space;
  flight.prompt = announce.prompt;
  flight.known = seen.known;
  publish();
  // One that has passed the place where the two part is no use; another may be on its way to it.
  const FlightId self = flight.in_cache;
  std::vector<FlightId> passed;
  for (int tries = 0; tries < kMostLeaders && !announced.waited; ++tries) {
    const std::optional<Leader> leader = cache_.lead(announce.name_space, *announce.prompt, self, passed);
    if (!leader) break;
    Task<bool> following = follow(*leader);
    announced.waited = co_await following;
    if (announced.waited) announced.restorable = std::max(announced.restorable, leader->at);
    passed.push_back(leader->flight);
  }
  co_return announced;
}

// Whether it was worth the wait; the checkpoint itself is found by a lookup, or not.
Task<bool> PrefixRegistry::follow(Leader leader) {
  const auto number = numbers_.find(leader.flight);
  if (number == numbers_.end()) co_return false;
  const protocol::FlightNumber leading = number->second;
  Flight& flight = flights_.at(leading);
  if (flight.sequence) {
    auto asked =
        worker_.ask(protocol::AddCheckpoint{.sequence = flight.sequence, .at = leader.at}, kWorkerDeadline);
    const Result<bool> added = co_await asked;
    if (!added.ok() || !*added) co_return false;
  } else {
    flight.wanted.push_back(leader.at);
  }
  options_.figures->followers.fetch_add(1, std::memory_order_relaxed);
  // One that is not admitted yet may have to wait longer than this prompt would.
  if (!flight.sequence) {
    auto waiting = self(*this).ask(AwaitCheckpoint{.flight = leading, .at = leader.at}, kUnadmitted);
    const Result<protocol::Nothing> waited = co_await waiting;
    if (waited.ok()) co_return true;
    const auto still = flights_.find(leading);
    if (still == flights_.end() || !still->second.sequence) co_return false;
  }
  auto waiting =
      self(*this).ask(AwaitCheckpoint{.flight = leading, .at = leader.at}, options_.longest_follow);
  const Result<protocol::Nothing> waited = co_await waiting;
  co_return waited.ok();
}

void PrefixRegistry::on(AwaitCheckpoint wait, runtime::ReplyTo<protocol::Nothing> reply) {
  const auto found = flights_.find(wait.flight);
  if (found == flights_.end() || wait.at <= found->second.passed) return reply.answer(protocol::Nothing{});
  found->second.waiters.push_back({wait.at, std::move(reply)});
}

void PrefixRegistry::wake(Flight& flight, std::uint32_t up_to) {
  flight.passed = std::max(flight.passed, up_to);
  std::vector<Flight::Waiter> staying;
  for (Flight::Waiter& waiter : flight.waiters) {
    if (waiter.at <= up_to) {
      waiter.reply.answer(protocol::Nothing{});
    } else {
      staying.push_back(std::move(waiter));
    }
  }
  flight.waiters = std::move(staying);
}

void PrefixRegistry::on(protocol::CheckpointMissed missed) {
  const auto found = flights_.find(missed.flight);
  if (found == flights_.end()) return;
  if (!missed.healthy) {
    cache_.note_unhealthy(found->second.name_space, std::span(*found->second.prompt).first(missed.at));
  }
  wake(found->second, missed.at);
}

void PrefixRegistry::on(protocol::EndFlight end) {
  const auto found = flights_.find(end.flight);
  if (found == flights_.end()) return;
  wake(found->second, UINT32_MAX);
  end_lease(found->second, MissReason::kNone);
  cache_.end_flight(found->second.in_cache);
  numbers_.erase(found->second.in_cache);
  flights_.erase(found);
  publish();
}

// -- lookup

protocol::LookedUp PrefixRegistry::on(protocol::Lookup lookup) {
  protocol::LookedUp answer;
  const auto found = flights_.find(lookup.flight);
  if (found == flights_.end() || lookup.sequence.generation != generation_) {
    answer.reason = MissReason::kLost;
    return answer;
  }
  expire();
  Flight& flight = found->second;
  flight.sequence = lookup.sequence;
  answer.wanted = flight.wanted;
  const Found best =
      cache_.lookup(flight.name_space, *flight.prompt, lookup.min_tokens, now(), flight.known, lookup.flight);
  answer.reason = best.reason;
  answer.known = best.known;
  if (best.restore) {
    end_lease(flight, MissReason::kNone);
    flight.lease = best.restore->entry;
    answer.restore = protocol::LookedUp::Restore{.snapshot = id_of(best.restore->snapshot),
                                                 .at = best.restore->at,
                                                 .origin = best.restore->origin,
                                                 .conversation = best.restore->conversation};
  }
  publish();
  return answer;
}

void PrefixRegistry::on(protocol::EndLease end) {
  const auto found = flights_.find(end.flight);
  if (found != flights_.end()) end_lease(found->second, end.failed);
  publish();
}

void PrefixRegistry::end_lease(Flight& flight, MissReason failed) {
  const EntryId lease = std::exchange(flight.lease, 0);
  if (lease == 0) return;
  if (const std::optional<std::uint64_t> snapshot = cache_.release(lease)) drop_later(*snapshot);
  if (failed == MissReason::kNone || failed == MissReason::kNoMemory) return;
  if (const std::optional<EntryInfo> entry = cache_.find(lease)) {
    if (cache_.remove(entry->id, failed)) drop_later(entry->snapshot);
  }
}

// -- entries

Task<protocol::InsertReply> PrefixRegistry::on(protocol::Insert insert) {
  protocol::InsertReply reply;
  if (insert.snapshot.snapshot.generation != generation_) co_return reply;
  expire();
  const std::uint32_t length = insert.snapshot.tokens;
  const Inserted inserted = cache_.insert(insert.name_space, *insert.tokens,
                                          {.snapshot = insert.snapshot.snapshot.number,
                                           .length = length,
                                           .origin = insert.origin,
                                           .conversation = insert.conversation,
                                           .request = insert.request,
                                           .pinned = insert.pinned,
                                           .keep = insert.keep},
                                          now());
  for (const std::uint64_t old : inserted.superseded) {
    Task<protocol::Dropped> dropping = drop(old);
    const protocol::Dropped dropped = co_await dropping;
    static_cast<void>(dropped);
  }
  if (inserted.already_there) {
    const std::optional<EntryInfo> there = cache_.find(inserted.entry);
    if (!there || there->snapshot != insert.snapshot.snapshot.number) {
      drop_later(insert.snapshot.snapshot.number);
    }
  } else {
    Task<bool> adopting = adopt(insert.snapshot.snapshot, inserted.entry);
    reply.adopted = co_await adopting;
  }
  const auto flight = flights_.find(insert.flight);
  if (flight != flights_.end()) wake(flight->second, length);
  publish();
  co_return reply;
}

Task<bool> PrefixRegistry::adopt(protocol::SnapshotId snapshot, EntryId entry) {
  for (;;) {
    auto asked =
        worker_.ask(protocol::AdoptKvSnapshot{.snapshot = snapshot, .budget_bytes = options_.budget_bytes},
                    kWorkerDeadline);
    const Result<protocol::JobResult<protocol::Adopted>> answer = co_await asked;
    if (!answer.ok() || !answer->ok()) {
      cache_.remove(entry, MissReason::kLost);
      co_return false;
    }
    const protocol::Adopted& adopted = **answer;
    adopted_bytes_ = adopted.adopted_bytes;
    if (adopted.done && !cache_.over_entry_limit()) co_return true;
    const std::optional<EntryInfo> victim = cache_.least_valuable(now(), true);
    if (!victim) {
      if (adopted.done) co_return true;  // all are leased: the limit waits
      cache_.remove(entry, MissReason::kEvicted);
      co_return false;
    }
    cache_.remove(victim->id, MissReason::kEvicted);
    if (victim->id == entry) {
      options_.figures->self_evicted.fetch_add(1, std::memory_order_relaxed);
      if (options_.warn && !std::exchange(warned_, true)) {
        options_.warn("a snapshot of " + std::to_string(victim->length) +
                      " tokens does not fit the cache's budget of " +
                      std::to_string(options_.budget_bytes >> 20) + " MiB; give it more");
      }
    }
    Task<protocol::Dropped> dropping = drop(victim->snapshot);
    const protocol::Dropped dropped = co_await dropping;
    adopted_bytes_ = dropped.adopted_bytes;
    if (victim->id == entry) co_return false;
  }
}

void PrefixRegistry::on(protocol::DropEntry dropped) {
  const auto wrong = std::span<const TokenId>(*dropped.tokens).first(dropped.length);
  for (const std::uint64_t snapshot : cache_.remove_from(dropped.name_space, wrong, MissReason::kCorrupt)) {
    drop_later(snapshot);
  }
  publish();
}

Task<protocol::Dropped> PrefixRegistry::drop(std::uint64_t number) {
  auto asked = worker_.ask(protocol::DropKvSnapshot{.snapshot = id_of(number)}, kWorkerDeadline);
  const Result<protocol::Dropped> dropped = co_await asked;
  co_return dropped.ok() ? *dropped : protocol::Dropped{};
}

namespace {

Task<void> wait_for(Task<protocol::Dropped> dropping) {
  const protocol::Dropped dropped = co_await dropping;
  static_cast<void>(dropped);
}

}  // namespace

void PrefixRegistry::drop_later(std::uint64_t number) {
  if (worker_) launch(wait_for(drop(number)));
}

Task<protocol::Reclaimed> PrefixRegistry::on(protocol::Reclaim reclaim) {
  protocol::Reclaimed reclaimed;
  expire();
  while (reclaimed.freed_bytes < reclaim.bytes) {
    // Pinned ones too, at last: a request matters more.
    std::optional<EntryInfo> victim = cache_.least_valuable(now(), false);
    if (!victim) victim = cache_.least_valuable(now(), true);
    if (!victim) break;
    if (victim->last_use.count() > reclaim.not_after && reclaimed.entries > 0) break;
    cache_.remove(victim->id, MissReason::kEvicted);
    Task<protocol::Dropped> dropping = drop(victim->snapshot);
    const protocol::Dropped dropped = co_await dropping;
    adopted_bytes_ = dropped.adopted_bytes;
    reclaimed.freed_bytes += dropped.freed_bytes;
    ++reclaimed.entries;
  }
  publish();
  co_return reclaimed;
}

// -- time and figures

void PrefixRegistry::expire() {
  for (const std::uint64_t snapshot : cache_.expire(now())) drop_later(snapshot);
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

void PrefixRegistry::publish() {
  const PrefixCacheStats stats = cache_.stats();
  RegistryFigures& figures = *options_.figures;
  const auto set = [](RegistryFigures::Figure& figure, std::uint64_t value) {
    figure.store(value, std::memory_order_relaxed);
  };
  set(figures.lookups, stats.lookups);
  set(figures.prompt_tokens, stats.prompt_tokens);
  set(figures.restored_tokens, stats.restored_tokens);
  for (std::size_t i = 0; i < protocol::kMissReasons; ++i) set(figures.by_reason[i], stats.by_reason[i]);
  for (std::size_t i = 0; i < protocol::kOrigins; ++i) {
    set(figures.hits_by_origin[i], stats.hits_by_origin[i]);
    set(figures.inserts_by_origin[i], stats.inserts_by_origin[i]);
  }
  set(figures.evicted, stats.evicted);
  set(figures.expired, stats.expired);
  set(figures.superseded, stats.superseded);
  set(figures.entries, stats.entries);
  set(figures.leases, stats.leases);
  set(figures.pinned, stats.pinned);
  set(figures.flights, stats.flights);
  set(figures.path_tokens, stats.path_tokens);
  set(figures.namespaces, stats.namespaces);
  set(figures.adopted_bytes, adopted_bytes_);
  const std::optional<EntryInfo> oldest = cache_.least_valuable(now(), true);
  figures.oldest_use_ns.store(oldest ? oldest->last_use.count() : INT64_MAX, std::memory_order_relaxed);
}

}  // namespace reprise::actors
