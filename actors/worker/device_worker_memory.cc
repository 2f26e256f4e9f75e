// Admission, reclaim and preemption.

#include <algorithm>
#include <unordered_map>

#include "actors/worker/admission_order.h"
#include "actors/worker/device_worker.h"
#include "runtime/wait.h"

namespace reprise::actors {

using protocol::JobError;
using protocol::JobFault;
using protocol::Priority;

namespace {

constexpr std::chrono::milliseconds kLongestLook{50};
constexpr std::chrono::seconds kReclaimDeadline{5};
constexpr std::uint32_t kMostPasses = 16;

}  // namespace

// -- prices

std::uint64_t DeviceWorker::promised_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& arch : archs_) {
    for (const auto& [number, run] : arch->sequences()) {
      bytes += run.promised_pages() * arch->page_bytes();
      if (run.snapshot_promised) bytes += arch->slot_bytes() + arch->page_bytes();
    }
  }
  return bytes;
}

std::uint64_t DeviceWorker::price_of(const LoadedArch& arch, const protocol::OpenSequence& job,
                                     std::uint64_t tokens, std::uint64_t shared) {
  const std::uint64_t kept = job.keeps_prompt ? arch.slot_bytes() + arch.page_bytes() : 0;
  return arch.price(tokens, shared) + kept;
}

std::uint64_t DeviceWorker::admission_price(const LoadedArch& arch, const protocol::OpenSequence& job) const {
  const std::uint64_t tokens =
      std::uint64_t{job.prompt_tokens} + std::min(job.max_tokens, options_.reply_tokens_priced);
  return price_of(arch, job, tokens, job.shared_tokens);
}

std::uint64_t DeviceWorker::share_of(const protocol::OpenSequence& job) const {
  if (job.tenant_share <= 0 || job.tenant_share >= 1) return budget_.limit();
  return static_cast<std::uint64_t>(static_cast<double>(budget_.limit()) * job.tenant_share);
}

bool DeviceWorker::within_share(const protocol::OpenSequence& job, std::uint64_t price) const {
  const std::uint64_t most = share_of(job);
  if (most == budget_.limit()) return true;
  std::uint64_t held = 0;
  for (const auto& arch : archs_) {
    for (const auto& [number, run] : arch->sequences()) {
      if (run.tenant != job.tenant) continue;
      const std::uint64_t pages = run.state ? run.state->pages().size() : 0;
      held += arch->slot_bytes() + std::max<std::uint64_t>(pages, run.priced_pages) * arch->page_bytes();
    }
  }
  return held == 0 || held + price <= most;
}

// -- admission

void DeviceWorker::admit() {
  if (!bring_back_preempted()) return;  // before anybody new
  // Those that nobody waits for any more have gone.
  std::erase_if(waiting_, [](const Waiting& one) { return !one.reply.wanted(); });
  while (!waiting_.empty() && admit_next()) {
  }
}

bool DeviceWorker::bring_back_preempted() {
  std::vector<std::pair<LoadedArch*, SequenceRun*>> away;
  for (const auto& arch : archs_) {
    for (auto& [number, run] : arch->sequences()) {
      const bool computes =
          run.phase == SequenceRun::Phase::kPrefill || run.phase == SequenceRun::Phase::kDecode;
      if (!run.state && computes) away.emplace_back(arch.get(), &run);
    }
  }
  std::sort(away.begin(), away.end(),
            [](const auto& a, const auto& b) { return a.second->order < b.second->order; });
  return std::all_of(away.begin(), away.end(),
                     [this](const auto& one) { return bring_back(*one.first, *one.second); });
}

std::vector<std::size_t> DeviceWorker::order_of_waiting() const {
  std::unordered_map<std::uint64_t, std::uint32_t> of_tenant;
  std::unordered_map<std::uint64_t, std::uint32_t> of_group;
  for (const auto& arch : archs_) {
    for (const auto& [number, run] : arch->sequences()) {
      if (run.priority == Priority::kIdle) continue;
      ++of_tenant[run.tenant];
      if (run.group != 0) ++of_group[run.group];
    }
  }
  const auto count = [](const auto& counts, std::uint64_t key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0U : found->second;
  };
  const auto now = std::chrono::steady_clock::now();
  std::vector<Applicant> applicants;
  applicants.reserve(waiting_.size());
  for (const Waiting& one : waiting_) {
    applicants.push_back({.priority = one.job.priority,
                          .tenant_holds = count(of_tenant, one.job.tenant),
                          .group_holds = count(of_group, one.job.group),
                          .waited = now - one.since,
                          .arrival = one.arrival});
  }
  return admission_order(applicants);
}

// One of those that wait; false: there is room for none of them now.
bool DeviceWorker::admit_next() {
  Waiting* first = nullptr;  // that there was no room for
  for (const std::size_t index : order_of_waiting()) {
    Waiting& waiting = waiting_[index];
    const LoadedArch* arch = arch_of(waiting.job.arch.generation);
    if (arch != nullptr && !arch->failed) {
      const std::uint64_t price = admission_price(*arch, waiting.job);
      if (!within_share(waiting.job, price)) continue;  // that is its tenant's own affair
      if (first != nullptr) {
        if (first->passed >= kMostPasses) return false;
        if (!budget_.has_room(price + promised_bytes(), arch->slot_bytes())) continue;
      }
    }
    if (admit_one(waiting)) {
      if (first != nullptr) ++first->passed;
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
      return true;
    }
    if (first == nullptr) first = &waiting;
  }
  return false;
}

bool DeviceWorker::admit_one(Waiting& waiting) {
  const protocol::OpenSequence& job = waiting.job;
  LoadedArch* arch = arch_of(job.arch.generation);
  if (arch == nullptr || arch->failed) {
    waiting.reply.answer(
        protocol::JobResult<protocol::Opened>(JobError{JobFault::kDeviceFailed, "the model has failed"}));
    return true;
  }
  if (arch->sequences().size() >= options_.max_sequences) return false;
  const std::uint64_t price = admission_price(*arch, job);
  if (find_room(price + promised_bytes(), arch->slot_bytes(), nullptr) != Room::kHere) {
    // Idle work gives way to a request; between requests, who came first stays.
    if (job.priority == Priority::kIdle || !preempt_for(nullptr)) return false;
    if (find_room(price + promised_bytes(), arch->slot_bytes(), nullptr) != Room::kHere) return false;
  }
  std::optional<gpu::Sequence> state = arch->store().open();
  if (!state) {
    look_for_block(arch->slot_bytes());
    return false;
  }
  const std::uint32_t tokens = job.prompt_tokens + std::min(job.max_tokens, options_.reply_tokens_priced);
  constexpr auto kPage = static_cast<std::uint32_t>(gpu::kPageTokens);
  SequenceRun& run = arch->add_sequence(job.ticket);
  run.state = std::move(state);
  run.priority = job.priority;
  run.tenant = job.tenant;
  run.group = job.group;
  run.order = ++admissions_;
  run.priced_pages = (tokens + kPage - 1) / kPage;
  run.shared_pages = job.shared_tokens / kPage;
  run.snapshot_promised = job.keeps_prompt;
  waiting.reply.answer(
      protocol::JobResult<protocol::Opened>(protocol::Opened{.sequence = run.id, .price_bytes = price}));
  return true;
}

// -- room

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
      if (run.phase != SequenceRun::Phase::kPrefill && run.phase != SequenceRun::Phase::kDecode) continue;
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
