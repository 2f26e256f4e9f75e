// What is kept, and what goes: checkpoints, the budget, what is asked back.

#include <algorithm>
#include <deque>
#include <utility>

#include "actors/cache/cache_view.h"
#include "actors/cache/prefix_registry.h"

namespace reprise::actors {

using protocol::MissReason;
using runtime::Result;
using runtime::Task;

namespace {

// For answers of the worker, which may be in the middle of a long step.
constexpr std::chrono::minutes kAdoptionDeadline{10};

Task<void> wait_for(Task<protocol::Dropped> dropping) {
  const protocol::Dropped dropped = co_await dropping;
  static_cast<void>(dropped);
}

}  // namespace

Task<void> PrefixRegistry::on(protocol::CheckpointTaken taken) {
  const protocol::FlightNumber number = taken.plan->flight;
  const std::uint32_t at = taken.at;
  if (const auto flight = flights_.find(number); flight != flights_.end()) {
    ++flight->second.reports;
    flight->second.changed.signal();
  }
  bool stands = false;
  if (taken.sequence.generation == generation_) {
    if (taken.snapshot) {
      Task<bool> inserting = insert(std::move(taken));
      stands = co_await inserting;
    } else if (!taken.healthy) {
      cache_.note_unhealthy(taken.plan->name_space, std::span(*taken.tokens).first(at));
    }
  }
  if (const auto flight = flights_.find(number); flight != flights_.end()) {
    ++flight->second.settled;
    if (stands && at <= flight->second.prompt->size())
      flight->second.kept = std::max(flight->second.kept, at);
    pass(flight->second, at);
  }
  publish();
}

Task<bool> PrefixRegistry::insert(protocol::CheckpointTaken taken) {
  expire();
  const protocol::CheckpointPlan& plan = *taken.plan;
  const auto planned = std::find_if(plan.places.begin(), plan.places.end(),
                                    [&](const auto& one) { return one.at == taken.at; });
  const protocol::SnapshotId snapshot = taken.snapshot->snapshot;
  const Origin origin = planned == plan.places.end() ? plan.origin_elsewhere : planned->origin;
  const Inserted inserted = cache_.insert(plan.name_space, *taken.tokens,
                                          {.snapshot = snapshot.number,
                                           .length = taken.at,
                                           .origin = origin,
                                           .conversation = plan.conversation,
                                           .request = plan.request,
                                           .keep = plan.keep,
                                           .ttl = planned == plan.places.end() ? CacheTime{0} : planned->ttl},
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
  if (adopted) {
    latest_ = inserted.entry;  // not before: where it is lost, the one before it should still be there
    offer_below(taken, origin);
    relieve_if_full();
  }  // else its place says why it is not there
  co_return adopted;
}

// The index is memory, too; but it never takes more than half.
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
      if (adopted->done) co_return true;  // all are leased: the limit waits
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

void PrefixRegistry::relieve_if_full() {
  if (options_.evict_percent >= 100 || relieving_) return;
  if (adopted_bytes_ <= budget_for_snapshots() / 100 * options_.evict_percent) return;
  relieving_ = true;
  launch(relieve());
}

Task<void> PrefixRegistry::relieve() {
  constexpr std::uint32_t kSlack =
      5;  // percent below the mark, so that one entry more does not begin it again
  const std::uint64_t enough =
      budget_for_snapshots() / 100 * (options_.evict_percent - std::min(kSlack, options_.evict_percent));
  const std::uint32_t generation = generation_;
  while (generation == generation_ && adopted_bytes_ > enough) {
    const std::optional<EntryInfo> victim = cache_.least_valuable(now(), false);
    if (!victim || victim->id == latest_) break;  // whoever came last comes back first
    cache_.remove(victim->id, MissReason::kEvicted);
    Task<protocol::Dropped> dropping = drop(id_of(victim->snapshot));
    const protocol::Dropped dropped = co_await dropping;
    if (generation == generation_) adopted_bytes_ = dropped.adopted_bytes;
  }
  relieving_ = false;
  publish();
}

void PrefixRegistry::on(protocol::DropEntry dropped) {
  const auto wrong = std::span<const TokenId>(*dropped.tokens).first(dropped.length);
  for (const std::uint64_t snapshot : cache_.remove_from(dropped.name_space, wrong, MissReason::kCorrupt)) {
    drop_later(id_of(snapshot));
  }
  if (options_.tier && bound_.kind.page_tokens != 0) {
    options_.tier.tell(protocol::ForgetStates{.kind = bound_.kind,
                                              .name_space = dropped.name_space,
                                              .tokens = dropped.tokens,
                                              .length = dropped.length});
  }
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
  return view_of(cache_, view, now(), bound_.kind);
}

Task<protocol::Dropped> PrefixRegistry::drop(protocol::SnapshotId snapshot) {
  auto asked = worker_.ask(protocol::DropKvSnapshot{.snapshot = snapshot}, kAdoptionDeadline);
  const Result<protocol::Dropped> dropped = co_await asked;
  co_return dropped.ok() ? *dropped : protocol::Dropped{};
}

void PrefixRegistry::drop_later(protocol::SnapshotId snapshot) {
  if (worker_) launch(wait_for(drop(snapshot)));
}

// Those that together should be enough go at once: who waits for them one after the other waits a step for each.
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
  // Pinned ones too, at last: a request matters more.
  std::optional<EntryInfo> victim = cache_.least_valuable(now(), false);
  if (!victim && !reclaim.ahead) victim = cache_.least_valuable(now(), true);
  if (!victim) fell_short_ = fell_short_ || !reclaim.ahead;
  if (!victim || (victim->last_use.count() > reclaim.not_after && has_given)) return std::nullopt;
  if (reclaim.ahead && victim->id == latest_) return std::nullopt;  // whoever came last comes back first
  return victim;
}

std::size_t PrefixRegistry::likely_enough(std::uint64_t bytes) const {
  constexpr std::uint64_t kMost = 16;
  const std::uint64_t entries = std::max<std::uint64_t>(cache_.stats().entries, 1);
  const std::uint64_t each = std::max<std::uint64_t>(adopted_bytes_ / entries, 1);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(bytes / each, 1, kMost));
}

Task<std::uint64_t> PrefixRegistry::drop_all(std::vector<protocol::SnapshotId> snapshots) {
  struct Drop {
    Drop(const WorkerRef& worker, protocol::SnapshotId snapshot)
        : asked(worker.ask(protocol::DropKvSnapshot{.snapshot = snapshot}, kAdoptionDeadline)) {}
    runtime::Ask<protocol::Dropped> asked;
  };
  std::deque<Drop> drops;  // an ask stays where it is
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

}  // namespace reprise::actors
