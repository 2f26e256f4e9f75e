// The routes of jobs: each to the class that knows how. Steps, and what the worker waits for, are in
// device_worker_step.cc, faults in device_worker_faults.cc.

#include "actors/worker/device_worker.h"

#include <algorithm>
#include <atomic>

#include "actors/worker/prefilling.h"
#include "models/compute_options.h"
#include "traces/trace.h"

namespace reprise::actors {

using protocol::JobError;
using protocol::JobFault;

namespace {

std::shared_ptr<WorkerFigures> figures_of(const WorkerOptions& options) {
  return options.figures ? options.figures : std::make_shared<WorkerFigures>();
}

std::chrono::steady_clock::time_point now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

DeviceWorker::DeviceWorker(WorkerOptions options)
    : options_(std::move(options)),
      figures_(figures_of(options_)),
      state_(options_.state_bytes),
      memory_(state_, options_.swap_bytes, options_.pressure, *figures_,
              [this](std::uint64_t bytes, bool ahead) { launch(reclaim(bytes, ahead)); }),
      admission_(state_, memory_, *figures_,
                 {.sequences = options_.max_sequences,
                  .waiting = options_.max_waiting,
                  .reply_tokens_priced = options_.reply_tokens_priced}),
      snapshots_(state_, memory_, *figures_, options_.patience,
                 [this](const StateTable& table, protocol::CheckpointTaken taken) {
                   return report(table.generation(), std::move(taken));
                 }),
      compaction_(state_.budget(), memory_, *figures_,
                  [this](const StateTable& table, const models::Compaction& compaction) {
                    arch_of(table.generation())->runner().idle_model().compact(compaction);
                  }),
      decoding_(*figures_,
                [this](protocol::SequenceId id, protocol::DecodeEvent event) {
                  launch(write_when_credited(id, std::move(event)));
                }),
      step_(state_.budget(), memory_, snapshots_, compaction_, decoding_, *figures_),
      plots_("device " + options_.device) {
  WorkerFigures::set(figures_->limit_bytes, state_.budget().limit());
}

// A step may still be computing on the work of this object; a model's end waits for it.
DeviceWorker::~DeviceWorker() {
  step_.drop_passed();
  archs_.clear();
}

LoadedArch* DeviceWorker::arch_of(std::uint32_t generation) {
  for (const auto& arch : archs_) {
    if (arch->generation() == generation) return arch.get();
  }
  return nullptr;
}

// Every message may have made work possible; one RunStep at a time is enough to find it.
void DeviceWorker::kick() {
  publish();
  if (step_posted_ || step_.table() != nullptr) return;
  step_posted_ = self(*this).tell(RunStep{}) == runtime::SendStatus::kSent;
}

void DeviceWorker::publish() {
  const std::uint64_t sequences = state_.sequences();
  WorkerFigures::set(figures_->sequences, sequences);
  if (sequences > figures_->most_sequences.load(std::memory_order_relaxed))
    WorkerFigures::set(figures_->most_sequences, sequences);
  WorkerFigures::set(figures_->snapshots, state_.snapshots());
  WorkerFigures::set(figures_->waiting, admission_.waiting());
  WorkerFigures::set(figures_->used_bytes, state_.budget().used());
  plots_.show_memory(state_, admission_.waiting());
}

// -- models

// One count for all workers: what was loaded once, on whichever device, is never taken for something else.
std::uint32_t DeviceWorker::next_generation() {
  static std::atomic<std::uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: hands out numbers
}

// A request that comes waits for the step under way. One of idle work has so few tokens that it takes about as long as
// one of a single token: on the CPU what it reads of weights, not what it computes, is its time. On a GPU it is a step
// of the grid.
constexpr std::uint32_t kIdleShare = 64;

// Prefills make a step of few rows longer by what they launch and by all weights.
constexpr std::uint32_t kGatherFrom = 16;

// At the first model: a setting that makes no sense is that model's answer.
void DeviceWorker::open_device() {
  if (device_) return;
  device_ = models::Device::open(options_.device, options_.device_options);
  limits_ = options_.batch.value_or(BatchLimits{.tokens = device_->prefill_rows(),
                                                .tokens_beside = device_->prefill_rows() / 4,
                                                .idle_tokens = device_->prefill_rows() / kIdleShare,
                                                .gather_from = kGatherFrom});
}

void DeviceWorker::on(protocol::LoadArch job,
                      runtime::ReplyTo<protocol::JobResult<protocol::ArchLoaded>> reply) {
  using Answer = protocol::JobResult<protocol::ArchLoaded>;
  try {
    const models::ComputeOptions options = models::compute_options(job.compute, job.kv_dtype, job.isa);
    open_device();
    loads_.add({.make =
                    [this, path = job.path, options,
                     meter = std::move(job.meter)](const std::atomic<bool>& stopping) {
                      const auto make = [&](const models::LoadProgress& progress) {
                        return options_.make_model ? options_.make_model(path)
                                                   : device_->load(path, options, progress);
                      };
                      return load_model(make, stopping, meter.get());
                    },
                .aside = device_->loads_aside(),
                .done = [me = self(*this)] { me.tell(LoadDone{}); },
                .reply = std::move(reply)});
  } catch (const std::bad_alloc&) {
    reply.answer(Answer(JobError{JobFault::kNoMemory, "no memory for the device"}));
  } catch (const std::exception& error) {  // a setting; what() names it
    reply.answer(Answer(JobError{JobFault::kBadJob, error.what()}));
  }
}

protocol::ArchLoaded DeviceWorker::take_in(LoadedModel loaded) {
  state_.budget().set_limit(device_->state_bytes(options_.state_bytes));
  WorkerFigures::set(figures_->limit_bytes, state_.budget().limit());
  gpu::BlockMemory* memory = options_.memory != nullptr ? options_.memory : &device_->memory();
  archs_.push_back(std::make_unique<LoadedArch>(next_generation(), StepRunner::make(std::move(loaded.model)),
                                                loaded.fingerprint, state_.budget(), memory));
  state_.add(*archs_.back());
  protocol::ArchLoaded out = archs_.back()->describe();
  out.device = device_->name();
  return out;
}

void DeviceWorker::on(LoadDone) {
  using Answer = protocol::JobResult<protocol::ArchLoaded>;
  ModelLoads::Result loaded = loads_.take();
  if (loaded.error) return loaded.reply.answer(Answer(*loaded.error));
  try {
    loaded.reply.answer(Answer(take_in(std::move(*loaded.made))));
  } catch (const std::bad_alloc&) {
    loaded.reply.answer(Answer(JobError{JobFault::kNoMemory, "no memory for the model's state"}));
  } catch (const std::exception& error) {
    loaded.reply.answer(Answer(JobError{JobFault::kBadJob, error.what()}));
  }
}

void DeviceWorker::on(protocol::AttachRegistry job) {
  if (LoadedArch* arch = arch_of(job.arch.generation)) {
    arch->registry = job.registry;
    arch->oldest_use = std::move(job.oldest_use);
  }
}

void DeviceWorker::on(protocol::DropArch job, runtime::ReplyTo<protocol::ArchDropped> reply) {
  const StateTable* table = state_.find(job.arch.generation);
  if (table != nullptr && table == step_.table()) {
    drops_after_step_.emplace_back(job.arch.generation, std::move(reply));
    return;
  }
  drop_arch(job.arch.generation, std::move(reply));
}

void DeviceWorker::drop_arch(std::uint32_t generation, runtime::ReplyTo<protocol::ArchDropped> reply) {
  protocol::ArchDropped dropped;
  if (LoadedArch* arch = arch_of(generation)) {
    const JobError gone{JobFault::kUnknown, "the model was unloaded"};
    for (auto& [number, run] : arch->sequences()) {
      run.end_work(gone);
      memory_.forget_saved(run);
    }
    admission_.refuse_all(generation, gone);
    dropped.sequences = static_cast<std::uint32_t>(arch->sequences().size());
    dropped.snapshots = static_cast<std::uint32_t>(arch->snapshots().size());
    const std::uint64_t before = state_.budget().used();
    state_.remove(*arch);
    std::erase_if(archs_, [arch](const auto& one) { return one.get() == arch; });
    dropped.freed_bytes = before - state_.budget().used();
    memory_.memory_changed();
  }
  publish();  // whoever learns that it is gone sees the memory free
  reply.answer(dropped);
  kick();
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
  if (SequenceRun* run = table == nullptr ? nullptr : table->find_ticket(job.ticket)) close(*table, *run);
  kick();
}

void DeviceWorker::close(StateTable& table, SequenceRun& run) {
  run.end_work({JobFault::kCancelled, "the sequence was closed"});
  memory_.forget_saved(run);
  if (run.in_step) {
    run.closing = true;
  } else {
    table.close(run.id);
  }
  memory_.memory_changed();
}

void DeviceWorker::on(protocol::Cancel job) {
  if (SequenceRun* run = state_.find(job.sequence).run) run->end_work({JobFault::kCancelled, "cancelled"});
  kick();
}

void DeviceWorker::on(protocol::LeaveOff job) {
  const auto [table, run] = state_.find(job.sequence);
  if (run == nullptr) return;
  if (!leave_off(*table, *run)) run->end_work({JobFault::kCancelled, "cancelled"});
  kick();
}

void DeviceWorker::on(protocol::Prefill job,
                      runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>> reply) {
  using Result = protocol::JobResult<protocol::Prefilled>;
  const auto [table, run] = state_.find(job.sequence);
  if (run == nullptr) return reply.answer(Result(JobError{JobFault::kUnknown, "no such sequence"}));
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
  protocol::ReadKv::Reply read = JobError{JobFault::kDeviceFailed, "the device failed"};
  survives([&] { read = snapshots_.read(job); });
  return read;
}

protocol::JobResult<protocol::Adopted> DeviceWorker::on(protocol::AdoptKvSnapshot job) {
  StateTable* table = state_.find(job.snapshot.generation);
  if (table == nullptr) return JobError{JobFault::kUnknown, "no such snapshot"};
  const auto adopted = table->adopt(job.snapshot, job.budget_bytes);
  if (adopted.ok() && adopted->done) {  // the registry may give it back now
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

// -- looking at it

protocol::Memory DeviceWorker::on(protocol::QueryMemory) {
  return {.limit_bytes = state_.budget().limit(),
          .used_bytes = state_.budget().used(),
          .adopted_bytes = state_.adopted_bytes(),
          .sequences = state_.sequences(),
          .snapshots = state_.snapshots(),
          .waiting = static_cast<std::uint32_t>(admission_.waiting())};
}

protocol::Nothing DeviceWorker::on(protocol::InjectFault job) {
  if (options_.obey_faults) faults_.inject(job, state_);
  return {};
}

}  // namespace reprise::actors
