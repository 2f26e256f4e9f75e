#include "actors/device/admission.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_map>

namespace reprise::actors {

using gpu::kPageTokens;
using protocol::Error;
using protocol::ErrorKind;
using protocol::OpenSequence;
using protocol::Priority;
using OpenResult = protocol::JobResult<protocol::Opened>;

// -- order of waiting requests

namespace {

constexpr int kTop = static_cast<int>(Priority::kHigh) + 1;

int level(const Applicant& applicant) {
  const auto lifts = std::clamp<std::int64_t>(applicant.waited / kLift, 0, kTop);
  return std::min(kTop, static_cast<int>(applicant.priority) + static_cast<int>(lifts));
}

bool goes_before(const Applicant& a, const Applicant& b) {
  const int level_a = level(a);
  const int level_b = level(b);
  if (level_a != level_b) return level_a > level_b;
  if (level_a == kTop) return a.arrival < b.arrival;
  return std::tuple(a.tenant_holds, a.group_holds, a.arrival) <
         std::tuple(b.tenant_holds, b.group_holds, b.arrival);
}

}  // namespace

std::vector<std::size_t> admission_order(std::span<const Applicant> applicants) {
  std::vector<std::size_t> order;
  for (const bool idle : {false, true}) {
    for (std::size_t i = 0; i < applicants.size(); ++i) {
      if ((applicants[i].priority == Priority::kIdle) == idle) order.push_back(i);
    }
    if (!order.empty()) break;
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return goes_before(applicants[a], applicants[b]); });
  return order;
}

Admission::Admission(DeviceState& state, MemoryReclaimer& memory, WorkerFigures& figures,
                     const AdmissionLimits& limits)
    : state_(state), memory_(memory), figures_(figures), limits_(limits) {}

// -- costs

std::uint64_t Admission::cost_of(const StateTable& table, const OpenSequence& job, std::uint64_t tokens,
                                 std::uint64_t shared) {
  const std::uint64_t kept = job.keeps_prompt ? table.slot_bytes() + table.page_bytes() : 0;
  const std::uint64_t tail =
      shortens(job) ? models::PromptTail::bytes_of(table.facts().tail_bytes, job.kv.window) : 0;
  return table.cost(tokens, shared) + kept + tail;
}

bool Admission::shortens(const OpenSequence& job) {
  return job.kv.shortens(job.prompt_tokens);
}

// During compaction, the whole prompt and the entries kept of it are in memory together.
std::uint64_t Admission::tokens_of(const OpenSequence& job, std::uint64_t reply) {
  if (!shortens(job)) return job.prompt_tokens + reply;
  const std::uint64_t prompt =
      (std::uint64_t{job.prompt_tokens} + kPageTokens - 1) / kPageTokens * kPageTokens;
  return job.kv.tokens + std::max(prompt, reply);
}

std::uint64_t Admission::tokens_reserved(const OpenSequence& job) const {
  return tokens_of(job, std::min(job.max_tokens, limits_.reply_tokens_reserved));
}

std::uint64_t Admission::admission_cost(const StateTable& table, const OpenSequence& job) const {
  return cost_of(table, job, tokens_reserved(job), job.shared_tokens);
}

std::uint64_t Admission::share_of(const OpenSequence& job) const {
  const std::uint64_t all = state_.budget().limit();
  if (job.tenant_share <= 0 || job.tenant_share >= 1) return all;
  return static_cast<std::uint64_t>(static_cast<double>(all) * job.tenant_share);
}

bool Admission::within_share(const OpenSequence& job, std::uint64_t cost) const {
  const std::uint64_t most = share_of(job);
  if (most == state_.budget().limit()) return true;
  std::uint64_t held = 0;
  for (const StateTable* table : state_.tables()) {
    for (const auto& [number, run] : table->sequences()) {
      if (run.tenant == job.tenant) held += table->charge(run);
    }
  }
  return held == 0 || held + cost <= most;
}

// -- waiting

void Admission::apply(OpenSequence job, Reply reply, Time now) {
  const StateTable* table = state_.find(job.arch.generation);
  if (table == nullptr)
    return reply.answer(OpenResult(Error{ErrorKind::kUnknown, "no such model is loaded"}));
  if (table->failed())
    return reply.answer(OpenResult(Error{ErrorKind::kDeviceFailed, "the model has failed"}));
  if (shortens(job) && table->facts().tail_bytes == 0)
    return reply.answer(
        OpenResult(Error{ErrorKind::kBadJob, "kv_budget: prompts of this model cannot be compacted"}));
  if (job.adapter && !table->has_adapter(job.adapter))
    return reply.answer(OpenResult(Error{ErrorKind::kUnknown, "no such adapter is loaded"}));
  const std::uint64_t cost = cost_of(*table, job, tokens_of(job, job.max_tokens), 0);
  if (const std::uint64_t most = share_of(job); cost > most) {
    return reply.answer(OpenResult(Error{
        ErrorKind::kNeverFits, "the request needs " + std::to_string(cost) +
                                   " bytes of memory for its state; the limit is " + std::to_string(most) +
                                   (most < state_.budget().limit() ? " (the share of its tenant)" : "")}));
  }
  if (waiting_.size() >= limits_.waiting) {
    return reply.answer(OpenResult(Error{ErrorKind::kBusy, "too many requests wait for the device"}));
  }
  waiting_.push_back({std::move(job), std::move(reply), ++arrivals_, now});
}

void Admission::withdraw(protocol::ArchId arch, std::uint64_t ticket) {
  std::erase_if(waiting_,
                [&](const Waiting& one) { return one.job.arch == arch && one.job.ticket == ticket; });
}

template <class Goes>
void Admission::refuse_where(const Goes& goes, const Error& error) {
  std::erase_if(waiting_, [&](Waiting& one) {
    if (!goes(one.job)) return false;
    one.reply.answer(OpenResult(error));
    return true;
  });
}

void Admission::refuse_all(std::uint32_t generation, const Error& error) {
  refuse_where([&](const OpenSequence& job) { return job.arch.generation == generation; }, error);
}

void Admission::refuse_all(protocol::AdapterId adapter, const Error& error) {
  refuse_where([&](const OpenSequence& job) { return job.adapter == adapter; }, error);
}

void Admission::refuse_oldest(const Error& error) {
  if (waiting_.empty()) return;
  waiting_.front().reply.answer(OpenResult(error));
  waiting_.pop_front();
}

// -- admitting

void Admission::admit(Time now) {
  if (!memory_.bring_back_preempted()) return;
  std::erase_if(waiting_, [](const Waiting& one) { return !one.reply.wanted(); });
  while (!waiting_.empty() && admit_next(now)) {
  }
}

std::vector<std::size_t> Admission::order_of_waiting(Time now) const {
  std::unordered_map<std::uint64_t, std::uint32_t> of_tenant;
  std::unordered_map<std::uint64_t, std::uint32_t> of_group;
  for (const StateTable* table : state_.tables()) {
    for (const auto& [number, run] : table->sequences()) {
      if (run.priority == Priority::kIdle) continue;
      ++of_tenant[run.tenant];
      if (run.group != 0) ++of_group[run.group];
    }
  }
  const auto count = [](const auto& counts, std::uint64_t key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0U : found->second;
  };
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

// Admits one waiting request. Returns false if none fits.
bool Admission::admit_next(Time now) {
  Waiting* first = nullptr;  // the first that did not fit
  for (const std::size_t index : order_of_waiting(now)) {
    Waiting& waiting = waiting_[index];
    const StateTable* table = state_.find(waiting.job.arch.generation);
    if (table != nullptr && !table->failed()) {
      const std::uint64_t cost = admission_cost(*table, waiting.job);
      if (!within_share(waiting.job, cost)) continue;  // delayed only by its own tenant
      if (first != nullptr) {
        if (first->passed >= kMaxPasses) return false;
        if (!state_.budget().has_room(cost + state_.promised_bytes(), table->slot_bytes())) {
          waiting.was_short = true;
          continue;
        }
      }
    }
    if (admit_one(waiting, now)) {
      if (first != nullptr) ++first->passed;
      count_wait(waiting, now);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
      return true;
    }
    if (first == nullptr) first = &waiting;
  }
  return false;
}

// Waits of idle work are not counted: no client waits for it.
void Admission::count_wait(const Waiting& waiting, Time now) {
  if (!waiting.was_short || waiting.job.priority == Priority::kIdle) return;
  const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(now - waiting.since);
  WorkerFigures::add(figures_.admission_waits);
  WorkerFigures::add(figures_.admission_wait_ns,
                     static_cast<std::uint64_t>(std::max<std::int64_t>(waited.count(), 0)));
}

bool Admission::admit_one(Waiting& waiting, Time now) {
  const OpenSequence& job = waiting.job;
  StateTable* table = state_.find(job.arch.generation);
  if (table == nullptr || table->failed()) {
    waiting.reply.answer(OpenResult(Error{ErrorKind::kDeviceFailed, "the model has failed"}));
    return true;
  }
  if (table->sequences().size() >= limits_.sequences) return false;
  const std::uint64_t cost = admission_cost(*table, job);
  const auto look_for_memory = [&] {
    return memory_.find({.bytes = cost + state_.promised_bytes(), .block = table->slot_bytes()});
  };
  if (look_for_memory() != Availability::kHere) {
    waiting.was_short = true;
    // A request cancels idle work; running requests keep their memory.
    if (job.priority == Priority::kIdle || !memory_.preempt_for(nullptr)) return false;
    if (look_for_memory() != Availability::kHere) return false;
  }
  const auto lacks_block = [&](std::uint64_t bytes) {
    waiting.was_short = true;
    memory_.look_for_block(bytes);
    return false;
  };
  std::unique_ptr<models::PromptTail> tail;
  if (shortens(job)) {
    const std::uint64_t token = table->facts().tail_bytes;
    tail = models::PromptTail::make(token, job.kv.window, &state_.budget(), table->store().memory());
    if (!tail) return lacks_block(models::PromptTail::bytes_of(token, job.kv.window));
  }
  std::optional<gpu::Sequence> state = table->store().open();
  if (!state) return lacks_block(table->slot_bytes());
  constexpr auto kPage = static_cast<std::uint32_t>(kPageTokens);
  SequenceRun& run = table->open(job.ticket);
  run.state = std::move(state);
  run.priority = job.priority;
  run.tenant = job.tenant;
  run.group = job.group;
  run.adapter = job.adapter.number;
  run.trace = job.trace;
  run.order = ++admissions_;
  run.reserved_pages = static_cast<std::uint32_t>((tokens_reserved(job) + kPage - 1) / kPage);
  if (tail) {
    const std::uint32_t reply = std::min(job.max_tokens, limits_.reply_tokens_reserved);
    run.compaction.budget = job.kv;
    run.compaction.tail = std::move(tail);
    run.compaction.reserved_pages = (job.kv.tokens + reply + kPage - 1) / kPage;
  }
  run.shared_pages = job.shared_tokens / kPage;
  run.snapshot_promised = job.keeps_prompt;
  if (job.priority != Priority::kIdle) memory_.admitted(cost, now);
  waiting.reply.answer(OpenResult(protocol::Opened{.sequence = run.id, .price_bytes = cost}));
  return true;
}

}  // namespace reprise::actors
