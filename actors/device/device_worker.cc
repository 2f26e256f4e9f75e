#include "actors/device/device_worker.h"

#include <algorithm>
#include <utility>

#include "actors/device/testing.h"
#include "gpu/devices.h"
#include "runtime/wait.h"
#include "traces/trace.h"

namespace reprise::actors {

using protocol::Error;
using protocol::ErrorKind;
using Phase = SequenceRun::Phase;

namespace {

std::shared_ptr<WorkerFigures> figures_of(const WorkerOptions& options) {
  return options.figures ? options.figures : std::make_shared<WorkerFigures>();
}

std::chrono::steady_clock::time_point now() {
  return std::chrono::steady_clock::now();
}

// A registry that restarts or is overloaded must not delay all jobs that wait for memory. Drops that it sends
// later still count.
constexpr std::chrono::seconds kReclaimDeadline{5};

std::int64_t now_ns() {
  return runtime::Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

// -- the worker

DeviceWorker::DeviceWorker(WorkerOptions options)
    : options_(std::move(options)),
      figures_(figures_of(options_)),
      state_(options_.state_bytes),
      memory_(state_, options_.swap_bytes, {.evicts_ahead = options_.evicts_ahead}, *figures_,
              [this](std::uint64_t bytes, bool ahead) { launch(reclaim(bytes, ahead)); }),
      admission_(state_, memory_, *figures_,
                 {.sequences = options_.max_sequences,
                  .waiting = options_.max_waiting,
                  .reply_tokens_reserved = options_.reply_tokens_reserved}),
      snapshots_(state_, memory_, *figures_, options_.patience,
                 [this](const StateTable& table, protocol::CheckpointTaken taken) {
                   return report(table.generation(), std::move(taken));
                 }),
      compaction_(state_.budget(), memory_, *figures_,
                  [this](const StateTable& table, const models::Compaction& compaction) {
                    models_.find(table.generation())->runner().idle_model().compact(compaction);
                  }),
      decoding_(*figures_,
                [this](protocol::SequenceId id, protocol::DecodeEvent event) {
                  launch(write_when_credited(id, std::move(event)));
                }),
      step_(state_.budget(), memory_, snapshots_, compaction_, decoding_, *figures_),
      plots_("device " + options_.device),
      models_(options_, state_, memory_, admission_, *figures_, [this] { kick(); }) {
  WorkerFigures::set(figures_->limit_bytes, state_.budget().limit());
}

// A step may still use this object's work; destroying a model waits for its step.
DeviceWorker::~DeviceWorker() {
  step_.drop_passed();
  models_.clear();
}

// Posts a RunStep, unless one is posted already.
void DeviceWorker::kick() {
  publish();
  if (step_posted_ || step_.table() != nullptr) return;
  step_posted_ = self(*this).tell(RunStep{}) == runtime::SendStatus::kSent;
}

void DeviceWorker::publish() {
  const std::uint64_t sequences = state_.sequences();
  WorkerFigures::set(figures_->sequences, sequences);
  if (sequences > figures_->max_sequences.load(std::memory_order_relaxed))
    WorkerFigures::set(figures_->max_sequences, sequences);
  WorkerFigures::set(figures_->snapshots, state_.snapshots());
  WorkerFigures::set(figures_->waiting, admission_.waiting());
  WorkerFigures::set(figures_->used_bytes, state_.budget().used());
  plots_.show_memory(state_, admission_.waiting());
}

// -- models

void DeviceWorker::on(protocol::LoadArch job, DeviceModels::LoadReply reply) {
  models_.load(std::move(job), std::move(reply), [me = self(*this)] { me.tell(LoadDone{}); });
}

void DeviceWorker::on(LoadDone) {
  models_.finish_load();
}

void DeviceWorker::on(protocol::AttachRegistry job) {
  models_.attach(std::move(job));
}

void DeviceWorker::on(protocol::DropArch job, DeviceModels::DropReply reply) {
  models_.drop(job, std::move(reply), step_.table());
}

void DeviceWorker::on(protocol::LoadAdapter job, DeviceModels::AdapterReply reply) {
  models_.load_adapter(job, std::move(reply), [me = self(*this)] { me.tell(AdapterRead{}); });
}

void DeviceWorker::on(AdapterRead) {
  models_.adapter_read();
  kick();
}

void DeviceWorker::on(protocol::DropAdapter job, DeviceModels::AdapterDropReply reply) {
  models_.drop(job, std::move(reply), step_.table());
}

// -- sequences

void DeviceWorker::on(protocol::OpenSequence job,
                      runtime::ReplyTo<protocol::JobResult<protocol::Opened>> reply) {
  admission_.apply(std::move(job), std::move(reply), now());
  kick();
}

void DeviceWorker::on(protocol::CloseSequence job) {
  admission_.withdraw(job.arch, job.ticket);
  StateTable* table = state_.find(job.arch.generation);
  if (SequenceRun* run = table == nullptr ? nullptr : table->find_ticket(job.ticket)) {
    close_sequence(*table, *run, memory_);
  }
  kick();
}

void DeviceWorker::on(protocol::Cancel job) {
  if (SequenceRun* run = state_.find(job.sequence).run) run->end_work({ErrorKind::kCanceled, "cancelled"});
  kick();
}

void DeviceWorker::on(protocol::LeaveOff job) {
  const auto [table, run] = state_.find(job.sequence);
  if (run == nullptr) return;
  if (!leave_off(*table, *run)) run->end_work({ErrorKind::kCanceled, "cancelled"});
  kick();
}

void DeviceWorker::on(protocol::Prefill job,
                      runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>> reply) {
  using Result = protocol::JobResult<protocol::Prefilled>;
  const auto [table, run] = state_.find(job.sequence);
  if (run == nullptr) return reply.answer(Result(Error{ErrorKind::kUnknown, "no such sequence"}));
  if (const auto refused = begin_prefill(*table, *run, job, reply)) return reply.answer(Result(*refused));
  kick();
}

bool DeviceWorker::on(protocol::AddCheckpoint job) {
  const auto [table, run] = state_.find(job.sequence);
  if (run == nullptr || !add_checkpoint(*table, *run, job.at)) return false;
  kick();
  return true;
}

void DeviceWorker::on(protocol::Decode job) {
  const HeldSequence held = state_.find(job.sequence);
  decoding_.begin(held, std::move(job));
  kick();
}

void DeviceWorker::on(protocol::MaskReady ready) {
  if (SequenceRun* run = state_.find(ready.sequence).run) decoding_.take_mask(*run);
  kick();
}

// -- snapshots

void DeviceWorker::on(protocol::SnapshotKv job,
                      runtime::ReplyTo<protocol::JobResult<protocol::SnapshotTaken>> reply) {
  survives([&] { snapshots_.snapshot(std::move(job), std::move(reply)); });
  kick();
}

void DeviceWorker::on(protocol::RestoreKv job,
                      runtime::ReplyTo<protocol::JobResult<protocol::Restored>> reply) {
  survives([&] { snapshots_.restore(job, std::move(reply), now()); });
  kick();
}

void DeviceWorker::on(protocol::LoadKv job, runtime::ReplyTo<protocol::JobResult<protocol::Restored>> reply) {
  survives([&] { snapshots_.load(std::move(job), std::move(reply), now()); });
  kick();
}

protocol::ReadKv::Reply DeviceWorker::on(protocol::ReadKv job) {
  protocol::ReadKv::Reply read = Error{ErrorKind::kDeviceFailed, "the device failed"};
  survives([&] { read = snapshots_.read(job); });
  return read;
}

protocol::JobResult<protocol::Adopted> DeviceWorker::on(protocol::AdoptKvSnapshot job) {
  StateTable* table = state_.find(job.snapshot.generation);
  if (table == nullptr) return Error{ErrorKind::kUnknown, "no such snapshot"};
  const auto adopted = table->adopt(job.snapshot, job.budget_bytes);
  if (adopted.ok() && adopted->done) {  // the registry may now evict it
    memory_.memory_changed();
    kick();
  }
  return adopted;
}

protocol::Dropped DeviceWorker::on(protocol::DropKvSnapshot job) {
  StateTable* table = state_.find(job.snapshot.generation);
  if (table == nullptr) return {};
  const protocol::Dropped dropped = table->drop(job.snapshot);
  memory_.memory_changed();
  kick();
  return dropped;
}

protocol::Dropped DeviceWorker::on(protocol::DropAdopted job) {
  StateTable* table = state_.find(job.arch.generation);
  if (table == nullptr) return {};
  const protocol::Dropped dropped = table->drop_adopted();
  memory_.memory_changed();
  kick();
  return dropped;
}

void DeviceWorker::on(protocol::MoreToReclaim) {
  memory_.memory_changed();
  kick();
}

// -- steps

void DeviceWorker::on(RunStep) {
  // Messages that arrived during the last step are handled after this one and before the next.
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
  if (options_.faults) options_.faults->before_round(state_);
  const auto now = std::chrono::steady_clock::now();
  memory_.begin_round();
  models_.add_adapters();
  if (snapshots_.try_waiting(now)) admission_.admit(now);
  // Between its admission and its prefill, a request asks other actors. No idle work starts meanwhile; the
  // request always prefills or ends.
  BatchLimits limits = models_.limits();
  limits.idle_work =
      state_.sequences_where([](const SequenceRun& run) { return run.is_about_to_begin(); }).empty();
  ModelInstance* runs = nullptr;
  for (std::size_t tries = models_.all().size(); tries > 0 && runs == nullptr; --tries) {
    ModelInstance& arch = *models_.all()[turn_++ % models_.all().size()];
    if (!arch.failed() && step_.build(arch, limits)) runs = &arch;
  }
  memory_.relieve();
  publish();
  if (runs != nullptr) return start_step(*runs);
  if (memory_.job_is_short() && !memory_.reclaiming()) wait_for_memory(now);
}

void DeviceWorker::start_step(ModelInstance& arch) {
  short_since_.reset();
  figures_->step_began_ns.store(now_ns(), std::memory_order_relaxed);
  plots_.step_begins();
  StepWork& work = step_.work();
  try {
    if (options_.faults) options_.faults->before_step(options_.device, work, arch.store());
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
  ModelInstance& arch = *models_.find(step_.table()->generation());
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

// Does the work that was deferred to the end of the step.
void DeviceWorker::clear_step() {
  if (step_.clear()) memory_.memory_changed();
  models_.drop_deferred();
  kick();
}

// -- credit

runtime::Task<void> DeviceWorker::write_when_credited(protocol::SequenceId id, protocol::DecodeEvent event) {
  SequenceRun* run = state_.find(id).run;
  if (run == nullptr) co_return;
  const bool last = event.end.has_value();
  auto writing = run->decode.out.write(std::move(event));
  const runtime::Result<void> written = co_await writing;
  run = state_.find(id).run;
  if (run == nullptr) co_return;
  decoding_.written(*run, last, written.ok());
  kick();
}

// -- memory

// Reclaims from the registry whose next victim is the least recently used, until the next victim of another
// is older.
runtime::Task<void> DeviceWorker::reclaim(std::uint64_t bytes, bool ahead) {
  std::uint64_t freed = 0;
  std::vector<std::uint32_t> exhausted;  // generations whose registry has no more to give
  while (freed < bytes) {
    ModelInstance* first = nullptr;
    std::int64_t oldest = INT64_MAX;
    std::int64_t next = INT64_MAX;
    for (const auto& arch : models_.all()) {
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

// Called if nothing runs, a job lacks memory and the registries have none to free. Leases and streams without
// credit may hold memory indefinitely, so the wait is bounded.
void DeviceWorker::wait_for_memory(std::chrono::steady_clock::time_point now) {
  if (!short_since_) short_since_ = now;
  auto until = *short_since_ + options_.patience;
  if (now >= until) {
    short_since_.reset();
    if (give_up_one()) kick();
    return;
  }
  if (std::exchange(clock_is_set_, true)) return;  // an earlier timer covers this wait
  if (const auto restore_ends = snapshots_.patience_ends()) until = std::min(until, *restore_ends);
  launch(look_again_at(until));
}

runtime::Task<void> DeviceWorker::look_again_at(std::chrono::steady_clock::time_point time) {
  auto pause = runtime::sleep_until(time);
  const runtime::Result<void> rested = co_await pause;
  clock_is_set_ = false;
  if (rested.ok()) kick();
}

// Fails the oldest job that lacks memory. Returns false if there is none to fail.
bool DeviceWorker::give_up_one() {
  const Error error{ErrorKind::kNoMemory, "the device's memory is full and nothing more can be freed"};
  // A job that could run would have made progress; so the oldest that lacks memory is failed.
  const auto stuck = state_.sequences_where([](const SequenceRun& run) {
    return run.phase != Phase::kIdle && !run.decode.awaits_credit && !run.decode.awaits_mask;
  });
  if (!stuck.empty()) {
    stuck.front().run->end_work(error);
    return true;
  }
  // Other sequences may pause or finish, and waiting jobs have timeouts of their own.
  if (state_.sequences() > 0 || admission_.waiting() == 0) return false;
  admission_.refuse_oldest(error);
  return true;
}

// -- checkpoints

bool DeviceWorker::report(std::uint32_t generation, protocol::CheckpointTaken taken) {
  const ModelInstance* arch = models_.find(generation);
  return arch->registry && arch->registry.tell(std::move(taken)) == runtime::SendStatus::kSent;
}

// -- faults: a step, or anything else on the device, fails

void DeviceWorker::fail_arch(ModelInstance& arch, const std::string& why, bool device_lost) {
  WorkerFigures::add(figures_->faults);
  arch.fail(Error{ErrorKind::kDeviceFailed, "the device failed: " + why});
  memory_.memory_changed();
  if (options_.supervisor) {
    options_.supervisor.tell(protocol::ArchFailed{
        .arch = arch.id(), .device = options_.device, .why = why, .device_lost = device_lost});
  }
}

bool DeviceWorker::survives(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const gpu::DeviceLost& error) {
    broken_ = Broken{error.what(), true};
  } catch (const std::exception& error) {
    broken_ = Broken{error.what(), false};
  }
  if (!step_runs_) fail_all();  // otherwise at its end: the runner owns its sequences
  return false;
}

void DeviceWorker::fail_all() {
  const Broken broken = *std::exchange(broken_, std::nullopt);
  figures_->step_began_ns.store(0, std::memory_order_relaxed);
  for (const auto& arch : models_.all()) {
    for (auto& [number, run] : arch->sequences()) run.in_step = false;
    if (!arch->failed()) fail_arch(*arch, broken.why, broken.device_lost);
  }
  if (step_.table() != nullptr) {
    clear_step();
  } else {
    kick();
  }
}

// -- inspection

protocol::Memory DeviceWorker::on(protocol::QueryMemory) {
  return {.limit_bytes = state_.budget().limit(),
          .used_bytes = state_.budget().used(),
          .adopted_bytes = state_.adopted_bytes(),
          .sequences = state_.sequences(),
          .snapshots = state_.snapshots(),
          .waiting = static_cast<std::uint32_t>(admission_.waiting())};
}

}  // namespace reprise::actors
