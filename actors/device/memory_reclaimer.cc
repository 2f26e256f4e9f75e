#include "actors/device/memory_reclaimer.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/machine.h"
#include "traces/trace.h"

namespace reprise::actors {

using protocol::ErrorKind;
using protocol::Priority;

MemoryReclaimer::MemoryReclaimer(DeviceState& state, std::optional<std::uint64_t> swap_bytes,
                                 const MemoryRules& rules, WorkerFigures& figures, StartReclaim start_reclaim)
    : state_(state),
      swap_bytes_(swap_bytes),
      figures_(figures),
      start_reclaim_(std::move(start_reclaim)),
      rules_(rules),
      pressure_(rules.choosy_percent) {}

Availability MemoryReclaimer::find(const MemoryNeed& need) {
  const gpu::ByteBudget& budget = state_.budget();
  if (budget.has_room(need.bytes, need.block)) return Availability::kHere;
  if (reclaiming()) return Availability::kComing;
  if (reclaim_ == Reclaim::kUntried) {
    reclaim_ = Reclaim::kUnderWay;
    WorkerFigures::add(figures_.reclaims);
    const std::uint64_t missing = need.bytes > budget.free() ? need.bytes - budget.free() : need.block;
    if (traces::on()) traces::message("reclaim: " + std::to_string(missing) + " bytes are missing");
    start_reclaim_(missing, false);
    return Availability::kComing;
  }
  while (need.needy != nullptr && preempt_for(need.needy)) {
    if (budget.has_room(need.bytes, need.block)) return Availability::kHere;
  }
  if (!need.dispensable) job_is_short_ = true;
  return Availability::kNone;
}

const MemoryPressure& MemoryReclaimer::pressure() {
  pressure_.see(state_.budget().used() + state_.promised_bytes(), state_.budget().limit());
  return pressure_;
}

std::uint64_t MemoryReclaimer::expected() {
  // Maxima decay with each round, so that one busy minute is not remembered forever.
  constexpr std::uint64_t kRounds = 4096;
  std::uint64_t open = 0, largest = 0;
  for (const StateTable* table : state_.tables()) {
    for (const auto& [number, run] : table->sequences()) {
      if (run.priority == Priority::kIdle) continue;
      const std::uint64_t kept = run.snapshot_promised ? table->slot_bytes() + table->page_bytes() : 0;
      const std::uint64_t charge = table->charge(run) + kept;
      open += charge;
      largest = std::max(largest, charge);
    }
  }
  max_at_once_ = std::max(open, max_at_once_ - max_at_once_ / kRounds);
  largest_charge_ = std::max(largest, largest_charge_ - largest_charge_ / kRounds);
  demand_.fade(kRounds);
  return std::max(max_at_once_ - open + largest_charge_, demand_.most());
}

void MemoryReclaimer::relieve() {
  const std::uint64_t wanted = expected();
  const std::uint64_t limit = state_.budget().limit();
  const std::uint64_t needed = state_.budget().used() + state_.promised_bytes() + wanted;
  if (!rules_.evicts_ahead || wanted > limit / kMinTimes || needed <= limit) return;
  if (reclaiming() || nothing_ahead_) return;
  const std::uint64_t bytes = needed - limit;
  reclaim_ = Reclaim::kUnderWay;
  ahead_ = true;
  WorkerFigures::add(figures_.reclaims_ahead);
  if (traces::on()) traces::message("reclaim: " + std::to_string(bytes) + " bytes ahead of need");
  start_reclaim_(bytes, true);
}

void MemoryReclaimer::look_for_block(std::uint64_t block) {
  static_cast<void>(find({.bytes = block, .block = block}));
}

void MemoryReclaimer::reclaim_ended(std::uint64_t freed_bytes) {
  if (traces::on()) traces::message("reclaim: " + std::to_string(freed_bytes) + " bytes came free");
  const bool exhausted = reclaim_ == Reclaim::kUnderWay && freed_bytes == 0;
  const bool ahead = std::exchange(ahead_, false);
  nothing_ahead_ = exhausted;  // a registry that frees nothing on need frees nothing ahead of it
  reclaim_ = exhausted && !ahead ? Reclaim::kExhausted : Reclaim::kUntried;
}

void MemoryReclaimer::memory_changed() {
  nothing_ahead_ = false;
  reclaim_ = reclaiming() ? Reclaim::kOvertaken : Reclaim::kUntried;
}

// -- preemption

bool MemoryReclaimer::preempt_for(const SequenceRun* needy) {
  const auto worth = [](const SequenceRun& run) {
    return std::pair(run.priority == Priority::kIdle, run.order);
  };
  HeldSequence victim;
  for (StateTable* table : state_.tables()) {
    for (auto& [number, run] : table->sequences()) {
      if (&run == needy || run.in_step || run.closing || !run.state || !run.computes()) continue;
      if (run.compacted() && !fits_swap(*table, run)) continue;
      const bool idle = run.priority == Priority::kIdle;
      if (!idle && (needy == nullptr || run.order < needy->order)) continue;
      if (victim.run == nullptr || worth(run) > worth(*victim.run)) victim = {table, &run};
    }
  }
  if (victim.run == nullptr) return false;
  if (victim.run->priority == Priority::kIdle) {
    victim.run->end_work({ErrorKind::kCanceled, "idle work was canceled to free memory"});
    victim.run->state.reset();
    return true;
  }
  return preempt(*victim.table, *victim.run);
}

bool MemoryReclaimer::fits_swap(const StateTable& table, const SequenceRun& run) {
  if (!swap_bytes_) swap_bytes_ = swap_limit(available_memory());
  return swapped_bytes_ + table.cost(run.state->stored()) <= *swap_bytes_;
}

bool MemoryReclaimer::save(StateTable& table, SequenceRun& run) {
  if (!fits_swap(table, run)) return false;
  try {
    run.saved = table.store().save(*run.state);
  } catch (const std::bad_alloc&) {
    return false;
  }
  swapped_bytes_ += run.saved->bytes.size();
  return true;
}

bool MemoryReclaimer::preempt(StateTable& table, SequenceRun& run) {
  static constexpr traces::ZoneSite kSite{"preempt"};
  const traces::Zone zone(kSite);
  // A copy is cheaper than decoding again if prefill does not reproduce decoded states bit for bit; compacted
  // states cannot be recomputed.
  const bool worth_saving = !table.rules().replays_decoding && !run.decoded.empty();
  if ((worth_saving || run.compacted()) && !save(table, run) && run.compacted()) return false;
  WorkerFigures::add(figures_.preemptions);
  run.trace.mark("preempted", {{"tokens", run.held_tokens()}, {"saved", run.saved.has_value()}});
  run.state.reset();
  return true;
}

bool MemoryReclaimer::bring_back_preempted() {
  const auto away =
      state_.sequences_where([](const SequenceRun& run) { return !run.state && run.computes(); });
  return std::all_of(away.begin(), away.end(),
                     [this](const HeldSequence& one) { return bring_back(*one.table, *one.run); });
}

bool MemoryReclaimer::bring_back(StateTable& table, SequenceRun& run) {
  const std::uint64_t tokens = run.saved ? run.saved->stored : run.settled();
  const std::uint64_t block = std::max(table.slot_bytes(), run.saved ? table.page_bytes() : 0);
  const MemoryNeed need{.bytes = table.cost(tokens + 1) + state_.promised_bytes(), .block = block};
  if (find(need) != Availability::kHere) return false;
  static constexpr traces::ZoneSite kSite{"bring back"};
  const traces::Zone zone(kSite);
  run.state = run.saved ? table.store().load(*run.saved) : table.store().open();
  if (!run.state) {
    look_for_block(block);
    return false;
  }
  run.trace.mark("brought_back", {{"tokens", run.held_tokens()}});
  forget_saved(run);
  return true;
}

void MemoryReclaimer::forget_saved(SequenceRun& run) {
  if (!run.saved) return;
  swapped_bytes_ -= run.saved->bytes.size();
  run.saved.reset();
}

}  // namespace reprise::actors
