// Admission, reclaim and preemption.

#include <algorithm>

#include "actors/device_worker.h"
#include "runtime/wait.h"

namespace reprise::actors {

using protocol::JobError;
using protocol::JobFault;
using protocol::Priority;

namespace {

constexpr std::chrono::milliseconds kLongestLook{50};
constexpr std::chrono::seconds kReclaimDeadline{5};

}  // namespace

std::uint64_t DeviceWorker::promised_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& arch : archs_) {
    for (const auto& [number, run] : arch->sequences()) bytes += run.promised_pages() * arch->page_bytes();
  }
  return bytes;
}

void DeviceWorker::admit() {
  for (const auto& arch : archs_) {
    for (auto& [number, run] : arch->sequences()) {
      const bool preempted = !run.state && run.phase != SequenceRun::Phase::kIdle;
      if (preempted && !bring_back(*arch, run)) return;  // before anybody new
    }
  }
  while (!waiting_.empty()) {
    // Those that nobody waits for any more have gone.
    std::erase_if(waiting_, [](const Waiting& one) { return !one.reply.wanted(); });
    auto next = std::find_if(waiting_.begin(), waiting_.end(),
                             [](const Waiting& one) { return one.job.priority == Priority::kNormal; });
    if (next == waiting_.end()) next = waiting_.begin();
    if (next == waiting_.end() || !admit_one(*next)) return;
    waiting_.erase(next);
  }
}

bool DeviceWorker::admit_one(Waiting& waiting) {
  LoadedArch* arch = arch_of(waiting.job.arch.generation);
  if (arch == nullptr || arch->failed) {
    waiting.reply.answer(
        protocol::JobResult<protocol::Opened>(JobError{JobFault::kDeviceFailed, "the model has failed"}));
    return true;
  }
  if (arch->sequences().size() >= options_.max_sequences) return false;
  const std::uint64_t tokens = std::uint64_t{waiting.job.prompt_tokens} +
                               std::min(waiting.job.max_tokens, options_.reply_tokens_priced);
  const std::uint64_t price = arch->price(tokens, waiting.job.shared_tokens);
  if (find_room(price + promised_bytes(), arch->slot_bytes(), nullptr) != Room::kHere) {
    // Idle work gives way to a request; between requests, who came first stays.
    if (waiting.job.priority != Priority::kNormal || !preempt_for(nullptr)) return false;
    if (find_room(price + promised_bytes(), arch->slot_bytes(), nullptr) != Room::kHere) return false;
  }
  std::optional<gpu::Sequence> state = arch->store().open();
  if (!state) {
    look_for_block(arch->slot_bytes());
    return false;
  }
  SequenceRun& run = arch->add_sequence(waiting.job.ticket);
  run.state = std::move(state);
  run.priority = waiting.job.priority;
  run.order = ++admissions_;
  run.priced_pages = static_cast<std::uint32_t>((tokens + gpu::kPageTokens - 1) / gpu::kPageTokens);
  run.shared_pages = waiting.job.shared_tokens / static_cast<std::uint32_t>(gpu::kPageTokens);
  waiting.reply.answer(
      protocol::JobResult<protocol::Opened>(protocol::Opened{.sequence = run.id, .price_bytes = price}));
  return true;
}

DeviceWorker::Room DeviceWorker::find_room(std::uint64_t bytes, std::uint64_t block,
                                           const SequenceRun* needy) {
  if (budget_.has_room(bytes, block)) return Room::kHere;
  if (reclaiming_) return Room::kComing;
  if (!nothing_to_reclaim_) {
    start_reclaim(bytes > budget_.free() ? bytes - budget_.free() : block);
    return Room::kComing;
  }
  while (needy != nullptr && preempt_for(needy)) {
    if (budget_.has_room(bytes, block)) return Room::kHere;
  }
  someone_is_short_ = true;
  return Room::kNone;
}

// After a store found no block where there were bytes for it: sees to it that more is freed, or tried again.
void DeviceWorker::look_for_block(std::uint64_t block) {
  static_cast<void>(find_room(block, block, nullptr));
}

// Idle work first, then the youngest sequence that is younger than the needy one. Without a needy one, idle
// work alone.
bool DeviceWorker::preempt_for(const SequenceRun* needy) {
  SequenceRun* victim = nullptr;
  LoadedArch* owner = nullptr;
  for (const auto& arch : archs_) {
    for (auto& [number, run] : arch->sequences()) {
      if (&run == needy || run.in_step || run.closing || !run.state) continue;
      if (run.phase == SequenceRun::Phase::kIdle) continue;
      const bool idle = run.priority == Priority::kIdle;
      if (!idle && (needy == nullptr || run.order < needy->order)) continue;
      const auto worth = [](const SequenceRun& one) {
        return std::pair(one.priority == Priority::kIdle, one.order);
      };
      if (victim == nullptr || worth(run) > worth(*victim)) {
        victim = &run;
        owner = arch.get();
      }
    }
  }
  if (victim == nullptr) return false;
  if (victim->priority == Priority::kIdle) {
    end_work(*victim, {JobFault::kCancelled, "idle work gave way"});
    victim->state.reset();
  } else {
    preempt(*owner, *victim);
  }
  return true;
}

void DeviceWorker::preempt(LoadedArch& arch, SequenceRun& run) {
  WorkerFigures::add(options_.figures->preemptions);
  // Where decoding has bits of its own, a copy is cheaper than decoding all again.
  if (!arch.rules().decode_is_prefill && !run.decoded.empty()) {
    const std::uint64_t bytes = arch.price(run.stored());
    if (swapped_bytes_ + bytes <= options_.swap_bytes) {
      run.saved = arch.store().save(*run.state);
      swapped_bytes_ += run.saved->bytes.size();
    }
  }
  run.state.reset();
}

bool DeviceWorker::bring_back(LoadedArch& arch, SequenceRun& run) {
  const std::uint64_t tokens = run.saved ? run.saved->stored : run.settled();
  const std::uint64_t bytes = arch.price(tokens + 1) + promised_bytes();
  const std::uint64_t block = std::max(arch.slot_bytes(), run.saved ? arch.page_bytes() : 0);
  if (find_room(bytes, block, nullptr) != Room::kHere) return false;
  run.state = run.saved ? arch.store().load(*run.saved) : arch.store().open();
  if (!run.state) {
    look_for_block(block);
    return false;
  }
  if (run.saved) {
    swapped_bytes_ -= run.saved->bytes.size();
    run.saved.reset();
  }
  return true;
}

void DeviceWorker::start_reclaim(std::uint64_t bytes) {
  reclaiming_ = true;
  WorkerFigures::add(options_.figures->reclaims);
  launch(reclaim(bytes));
}

runtime::Task<void> DeviceWorker::reclaim(std::uint64_t bytes) {
  std::uint64_t freed = 0;
  std::vector<std::uint32_t> exhausted;  // generations whose registry has no more to give
  while (freed < bytes) {
    // The registry whose next victim was used longest ago goes on until another's would be older.
    LoadedArch* first = nullptr;
    std::int64_t oldest = INT64_MAX;
    std::int64_t next = INT64_MAX;
    for (const auto& arch : archs_) {
      if (!arch->registry ||
          std::find(exhausted.begin(), exhausted.end(), arch->generation()) != exhausted.end())
        continue;
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
    auto asked =
        first->registry.ask(protocol::Reclaim{.bytes = bytes - freed, .not_after = next}, kReclaimDeadline);
    const runtime::Result<protocol::Reclaimed> reclaimed = co_await asked;
    if (!reclaimed.ok() || reclaimed->entries == 0) {
      exhausted.push_back(generation);
    } else {
      freed += reclaimed->freed_bytes;
    }
  }
  reclaiming_ = false;
  nothing_to_reclaim_ = freed == 0;
  kick();
}

// Leases and snapshots that are about to be adopted or dropped may hold memory for a moment.
runtime::Task<void> DeviceWorker::look_again_soon() {
  auto pause = runtime::sleep_for(look_again_);
  look_again_ = std::min(look_again_ * 2, kLongestLook);
  const runtime::Result<void> rested = co_await pause;
  looking_again_ = false;
  if (!rested.ok()) co_return;
  memory_changed();
  kick();
}

}  // namespace reprise::actors
