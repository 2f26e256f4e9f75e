// Steps, and what the worker waits for between them: credit, registries, memory.

#include <algorithm>

#include "actors/worker/device_worker.h"
#include "gpu/devices.h"
#include "runtime/wait.h"

namespace reprise::actors {

using protocol::JobError;
using protocol::JobFault;
using Phase = SequenceRun::Phase;

namespace {

// A registry that begins anew, or is far behind, must not hold up all who look for memory; what it drops later is
// told by its drops.
constexpr std::chrono::seconds kReclaimDeadline{5};

std::int64_t now_ns() {
  return runtime::Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

// -- steps

void DeviceWorker::on(RunStep) {
  // What arrived during the last step stands behind this message, and in front of the next.
  step_posted_ = false;
  if (!arrivals_taken_) {
    arrivals_taken_ = true;
    return kick();
  }
  arrivals_taken_ = false;
  survives([this] { run_step(); });
}

void DeviceWorker::run_step() {
  if (step_.table() != nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  memory_.begin_round();
  take_in_adapters();
  if (snapshots_.try_waiting(now)) admission_.admit(now);
  // Between its admission and its prefill a request asks others; idle work does not slip in meanwhile. That ends with its
  // prefill or its end, of which one always comes.
  BatchLimits limits = limits_;
  limits.idle_work =
      state_.sequences_where([](const SequenceRun& run) { return run.is_about_to_begin(); }).empty();
  LoadedArch* runs = nullptr;
  for (std::size_t tries = archs_.size(); tries > 0 && runs == nullptr; --tries) {
    LoadedArch& arch = *archs_[turn_++ % archs_.size()];
    if (!arch.failed() && step_.build(arch, limits)) runs = &arch;
  }
  memory_.relieve();
  publish();
  if (runs != nullptr) return start_step(*runs);
  if (memory_.somebody_is_short() && !memory_.reclaiming()) wait_for_memory(now);
}

void DeviceWorker::start_step(LoadedArch& arch) {
  short_since_.reset();
  figures_->step_began_ns.store(now_ns(), std::memory_order_relaxed);
  plots_.step_begins();
  StepWork& work = step_.work();
  try {
    faults_.before_step(work, arch.store());
  } catch (const std::exception& error) {
    work.failure = std::current_exception();
    finish_step();
    return;
  }
  if (arch.rules().computes_aside) {
    step_runs_ = true;
    arch.runner().start(work, [me = self(*this)] { me.tell(StepDone{}); });
  } else {
    arch.runner().start(work, [] {});
    finish_step();
  }
}

void DeviceWorker::on(StepDone) {
  step_runs_ = false;
  if (broken_) return fail_all();
  survives([this] { finish_step(); });
}

void DeviceWorker::finish_step() {
  LoadedArch& arch = *arch_of(step_.table()->generation());
  ++arch.steps;
  const std::int64_t began = figures_->step_began_ns.exchange(0, std::memory_order_relaxed);
  WorkerFigures::add(figures_->steps);
  if (step_.work().decodes.slices.empty()) {
    WorkerFigures::add(figures_->prefill_step_tokens, step_.prefilled_tokens());
    WorkerFigures::add(figures_->prefill_step_ns, static_cast<std::uint64_t>(now_ns() - began));
  }
  step_.release_sequences();
  if (const std::exception_ptr failure = step_.work().failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const gpu::DeviceLost& error) {
      fail_arch(arch, error.what(), true);
    } catch (const std::exception& error) {
      fail_arch(arch, error.what());
    } catch (...) {
      fail_arch(arch, "an unknown exception");
    }
  } else {
    plots_.step_ended(step_.prefilled_tokens(), step_.work().decodes.slices.size());
    step_.take_apart();
  }
  clear_step();
}

// What was put off until the step had ended.
void DeviceWorker::clear_step() {
  if (step_.clear()) memory_.memory_changed();
  for (auto& [generation, reply] : std::exchange(drops_after_step_, {})) {
    drop_arch(generation, std::move(reply));
  }
  for (auto& [adapter, reply] : std::exchange(adapter_drops_after_step_, {})) {
    drop_adapter(adapter, std::move(reply));
  }
  kick();
}

// -- credit

runtime::Task<void> DeviceWorker::write_when_credited(protocol::SequenceId id, protocol::DecodeEvent event) {
  SequenceRun* run = state_.find(id).run;
  if (run == nullptr) co_return;
  const bool last = event.end.has_value();
  auto writing = run->out.write(std::move(event));
  const runtime::Result<void> written = co_await writing;
  run = state_.find(id).run;
  if (run == nullptr) co_return;
  decoding_.written(*run, last, written.ok());
  kick();
}

// -- memory

// From the registry whose next victim was used longest ago, until another's would be older.
runtime::Task<void> DeviceWorker::reclaim(std::uint64_t bytes, bool ahead) {
  std::uint64_t freed = 0;
  std::vector<std::uint32_t> exhausted;  // generations whose registry has no more to give
  while (freed < bytes) {
    LoadedArch* first = nullptr;
    std::int64_t oldest = INT64_MAX;
    std::int64_t next = INT64_MAX;
    for (const auto& arch : archs_) {
      if (!arch->registry ||
          std::find(exhausted.begin(), exhausted.end(), arch->generation()) != exhausted.end()) {
        continue;
      }
      const std::int64_t use = arch->oldest_use ? arch->oldest_use() : 0;
      if (first == nullptr || use < oldest) {
        next = oldest;
        oldest = use;
        first = arch.get();
      } else {
        next = std::min(next, use);
      }
    }
    if (first == nullptr) break;
    const std::uint32_t generation = first->generation();
    auto asked = first->registry.ask(
        protocol::Reclaim{.bytes = bytes - freed, .not_after = next, .ahead = ahead}, kReclaimDeadline);
    const runtime::Result<protocol::Reclaimed> reclaimed = co_await asked;
    if (!reclaimed.ok() || reclaimed->entries == 0) {
      exhausted.push_back(generation);
    } else {
      freed += reclaimed->freed_bytes;
    }
  }
  memory_.reclaim_ended(freed);
  kick();
}

// Nothing runs, somebody is short, and the registries have nothing: whoever frees something says so. Leases and
// streams without credit may hold memory for as long as they like, so the wait has an end.
void DeviceWorker::wait_for_memory(std::chrono::steady_clock::time_point now) {
  if (!short_since_) short_since_ = now;
  auto until = *short_since_ + options_.patience;
  if (now >= until) {
    short_since_.reset();
    if (give_up_one()) kick();
    return;
  }
  if (std::exchange(clock_is_set_, true)) return;  // it was set earlier, and no later end is missed
  if (const auto restore_ends = snapshots_.patience_ends()) until = std::min(until, *restore_ends);
  launch(look_again_at(until));
}

runtime::Task<void> DeviceWorker::look_again_at(std::chrono::steady_clock::time_point time) {
  auto pause = runtime::sleep_until(time);
  const runtime::Result<void> rested = co_await pause;
  clock_is_set_ = false;
  if (rested.ok()) kick();
}

// False: there is nobody whom that would help.
bool DeviceWorker::give_up_one() {
  const JobError error{JobFault::kNoMemory, "the device's memory is full and nothing more can be freed"};
  // Whoever computes would have made progress; so the oldest that is short gets its answer.
  const auto stuck = state_.sequences_where([](const SequenceRun& run) {
    return run.phase != Phase::kIdle && !run.awaits_credit && !run.awaits_mask;
  });
  if (!stuck.empty()) {
    stuck.front().run->end_work(error);
    return true;
  }
  // While others are there they may pause or finish, and whoever waits has its own patience.
  if (state_.sequences() > 0 || admission_.waiting() == 0) return false;
  admission_.refuse_oldest(error);
  return true;
}

// -- checkpoints

bool DeviceWorker::report(std::uint32_t generation, protocol::CheckpointTaken taken) {
  const LoadedArch* arch = arch_of(generation);
  return arch->registry && arch->registry.tell(std::move(taken)) == runtime::SendStatus::kSent;
}

}  // namespace reprise::actors
