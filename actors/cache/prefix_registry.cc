// Prompts in flight: who comes, who waits for whom, and when all of it has been dealt with. Lookups are in
// prefix_registry_lookup.cc, what is kept and what goes in prefix_registry_entries.cc, figures in
// prefix_registry_figures.cc.

#include "actors/cache/prefix_registry.h"

#include <algorithm>
#include <stdexcept>

#include "runtime/wait.h"

namespace reprise::actors {

using protocol::MissReason;
using runtime::Result;
using runtime::Task;

namespace {

// For an answer of the worker, which may be in the middle of a long step.
constexpr std::chrono::minutes kLeaderDeadline{10};
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
  const bool first = generation_ == 0;  // nobody computed anything before: no report is lost
  bound_ = bind;
  worker_ = std::move(bind.worker);
  arch_ = bind.arch;
  generation_ = bind.arch.generation;
  worker_.tell(protocol::DropAdopted{bind.arch});  // before this one adopts anything
  adopted_bytes_ = 0;
  cache_.clear();
  for (auto& [number, flight] : flights_) {
    flight.lease = 0;  // ended by clear()
    flight.cut_off = !first;
    pass(flight, UINT32_MAX);
    // One that came before it was known what is computed here, or that has yet to look: what is below may serve it.
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
  if (announce.most_tokens < seen.restorable) {
    announced.restorable =
        cache_.peek(announce.name_space, begin_of(prompt, announce.most_tokens)).restorable;
  }
  Flight& flight = flights_[announce.flight];
  flight.in_cache = cache_.begin_flight(announce.name_space, prompt, now());
  numbers_[flight.in_cache] = announce.flight;
  flight.name_space = announce.name_space;
  flight.prompt = announce.prompt;
  flight.most_tokens = announce.most_tokens;
  flight.known = seen.known;
  flight.diverges = seen.diverges;
  flight.behind = seen.behind;
  publish();
  // One that has passed the place where the two part is no use; another may be on its way to it.
  const FlightId self = flight.in_cache;
  std::vector<FlightId> passed;
  for (int tries = 0; tries < kMostLeaders && !announced.waited; ++tries) {
    const std::optional<Leader> leader = cache_.lead(announce.name_space, *announce.prompt, self, passed);
    if (!leader) break;
    Task<bool> following = follow(*leader);
    announced.waited = co_await following;
    if (announced.waited && leader->at <= announce.most_tokens) {
      announced.restorable = std::max(announced.restorable, leader->at);
    }
    passed.push_back(leader->flight);
  }
  if (const auto found = flights_.find(announce.flight); found != flights_.end()) {
    begin_fetch(announce.flight, found->second, announced.restorable);
  }
  co_return announced;
}

// Whether it was worth the wait; the checkpoint itself is found by a lookup, or not.
Task<bool> PrefixRegistry::follow(Leader leader) {
  const auto number = numbers_.find(leader.flight);
  if (number == numbers_.end()) co_return false;
  const protocol::FlightNumber leading = number->second;
  Flight& flight = flights_.at(leading);
  const bool admitted = static_cast<bool>(flight.sequence);
  if (admitted) {
    auto asked =
        worker_.ask(protocol::AddCheckpoint{.sequence = flight.sequence, .at = leader.at}, kLeaderDeadline);
    const Result<bool> added = co_await asked;
    if (!added.ok() || !*added) co_return false;
  } else {
    flight.wanted.push_back(leader.at);
  }
  options_.figures->followers.fetch_add(1, std::memory_order_relaxed);
  // One that is not admitted yet may have to wait longer than this prompt would.
  if (!admitted) {
    Task<bool> passing = passes(leading, leader.at, runtime::deadline_after(kUnadmitted));
    if (co_await passing) co_return true;
    const auto still = flights_.find(leading);
    if (still == flights_.end() || !still->second.sequence) co_return false;
  }
  Task<bool> passing = passes(leading, leader.at, runtime::deadline_after(options_.longest_follow));
  const bool passed = co_await passing;
  co_return passed;
}

Task<bool> PrefixRegistry::passes(protocol::FlightNumber flight, std::uint32_t at,
                                  runtime::TimePoint deadline) {
  for (;;) {
    const auto found = flights_.find(flight);
    if (found == flights_.end() || at <= found->second.passed) co_return true;
    auto waiting = found->second.changed.wait(deadline);
    const Result<void> woken = co_await waiting;
    if (!woken.ok()) co_return false;
  }
}

void PrefixRegistry::pass(Flight& flight, std::uint32_t up_to) {
  flight.passed = std::max(flight.passed, up_to);
  flight.changed.signal();
}

void PrefixRegistry::land(Flight& flight) {
  if (std::exchange(flight.landed, true)) return;
  cache_.end_flight(flight.in_cache);
  numbers_.erase(flight.in_cache);
  pass(flight, UINT32_MAX);
  publish();
}

Task<protocol::FlightSettled> PrefixRegistry::on(protocol::Settle settle) {
  for (;;) {
    const auto found = flights_.find(settle.flight);
    if (found == flights_.end()) co_return protocol::FlightSettled{};
    Flight& flight = found->second;
    const protocol::FlightSettled settled{.kept = flight.kept};
    if (flight.reports >= settle.reported || flight.cut_off) land(flight);
    if (flight.settled >= settle.reported || flight.cut_off) co_return settled;
    auto waiting = flight.changed.wait();
    const Result<void> woken = co_await waiting;
    if (!woken.ok()) co_return settled;
  }
}

protocol::Pinned PrefixRegistry::on(const protocol::Pin& pin) {
  const auto found = flights_.find(pin.flight);
  if (found == flights_.end()) return {};
  const Flight& flight = found->second;
  expire();  // pins that have ended make room
  const auto most = std::min<std::size_t>(flight.prompt->size(), pin.tokens);
  const protocol::Pinned pinned =
      cache_.pin(flight.name_space, std::span<const TokenId>(*flight.prompt).first(most), now() + pin.time,
                 pin.ticket, pin.moves);
  publish();
  return pinned;
}

void PrefixRegistry::on(protocol::EndFlight end) {
  const auto found = flights_.find(end.flight);
  if (found == flights_.end()) return;
  end_lease(found->second, MissReason::kNone);
  land(found->second);
  found->second.changed.signal();  // who waits for it to settle
  flights_.erase(found);
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

}  // namespace reprise::actors
