// States of compacted prompts across turns (kv_reuse): where a turn goes on from one, and leaves one behind.
//
// They stand in a namespace of their budget and of how it chooses (protocol/name_space.h). A turn that finds one there goes on from
// it and computes nothing that others could use: it takes no checkpoints, and is no flight of its own namespace. What it adds is
// kept whole, as long as all of it is within kMostGrowth budgets; a turn that would have more, or finds none, goes the way
// of exact states and is compacted anew.

#include "actors/request/request_parts.h"
#include "protocol/name_space.h"

namespace reprise::actors {

using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::hours kTurnPatience{
    24};  // as for all that a request waits for: its client's going ends it
constexpr std::chrono::minutes kTurnDeadline{10};
constexpr std::uint64_t kMostGrowth =
    2;  // times the budget: places of a state that is gone on from, with what is new

}  // namespace

// Where prefills begin on a grid, tokens and places must come to it together: then so many fewer are kept as that takes.
void RequestActor::allow_reuse(Computation& computation, const KvBudget& wanted) const {
  const std::uint32_t grid = job_.model->arch.grid;
  const auto length = static_cast<std::uint32_t>(computation.tokens->size());
  const std::uint32_t kept = wanted.tokens - (wanted.tokens % grid + grid - length % grid) % grid;
  if (kept < wanted.fixed() || kept > wanted.tokens) return;
  computation.kv.tokens = kept;
  computation.turns.most_places = kMostGrowth * std::uint64_t{wanted.tokens};
  computation.turns.name_space = protocol::compacted_name_space(job_.name_space, wanted);
}

Task<RequestActor::Failure> RequestActor::announce_compacted(Computation& computation) {
  CompactedTurns& turns = computation.turns;
  turns.flight = std::make_unique<FlightGuard>(job_.model->registry);
  if (computation.request == 0) computation.request = turns.flight->number();
  auto asked = job_.model->registry.ask(
      protocol::Announce{
          .flight = turns.flight->number(), .name_space = turns.name_space, .prompt = computation.tokens},
      kTurnPatience, lost_.token());
  const Result<protocol::Announced> announced = co_await asked;
  if (!announced.ok()) co_return failure_of(announced.error());
  turns.known = announced->restorable;
  trace().mark("announced_compacted", {{"restorable", announced->restorable}});
  co_return std::nullopt;
}

Task<RequestActor::Failure> RequestActor::restore_compacted(Computation& computation) {
  const protocol::FlightNumber flight = computation.turns.flight->number();
  auto asked = job_.model->registry.ask(protocol::Lookup{.flight = flight,
                                                         .sequence = computation.sequence->id,
                                                         .min_tokens = job_.request->min_cache_tokens},
                                        kTurnPatience, lost_.token());
  const Result<protocol::LookedUp> found = co_await asked;
  if (!found.ok()) co_return failure_of(found.error());
  if (found->restore) {
    const protocol::LookedUp::Restore from = *found->restore;
    const std::uint64_t places = from.places + std::uint64_t{computation.tokens->size()} - from.at;
    if (places <= computation.turns.most_places) {
      Task<Failure> restoring = restore_found(computation, flight, from);
      if (Failure failure = co_await restoring) co_return failure;
    } else {
      job_.model->registry.tell(protocol::EndLease{.flight = flight});
      trace().mark("outgrown", {{"places", places}});
    }
  }
  protocol::CacheReport& report = computation.report;
  if (report.restored_tokens > 0) {
    report.reason = found->reason;
    report.known_tokens = found->known;
    report.lost_tokens = found->lost;
    report.behind_tokens = found->behind;
    computation.writes_cache = false;
    co_return std::nullopt;
  }
  report.reason = protocol::MissReason::kNone;  // what the exact states say counts
  Task<Failure> announcing = announce(computation);
  Failure failure = co_await announcing;
  co_return failure;
}

protocol::CheckpointPlan RequestActor::plan_of_compacted(protocol::Origin origin) const {
  protocol::CheckpointPlan plan = plan_of(*main_);
  plan.flight = main_->turns.flight->number();
  plan.name_space = main_->turns.name_space;
  plan.origin_elsewhere = origin;
  plan.keep = main_->turns.reused;  // for the same turn once more
  return plan;
}

Task<void> RequestActor::keep_compacted(Choice& choice) {
  const ServedModel& model = *job_.model;
  main_->turns.reported += choice.reported;
  if (model.arch.grid == 1 && choice.tokens.size() > 1) {
    auto asked =
        model.worker.ask(protocol::SnapshotKv{.sequence = choice.sequence,
                                              .kind = protocol::SnapshotKv::Kind::kCanonical,
                                              .plan = std::make_shared<const protocol::CheckpointPlan>(
                                                  plan_of_compacted(protocol::Origin::kTurnEnd))},
                         kTurnDeadline, lost_.token());
    const protocol::JobResult<protocol::SnapshotTaken> taken = protocol::answer_of(co_await asked);
    if (taken.ok() && taken->reported) ++main_->turns.reported;
  }
  ++settling_;
  Task<void> settling = settle(main_->turns.flight->number(), main_->turns.reported);
  co_await settling;
}

}  // namespace reprise::actors
