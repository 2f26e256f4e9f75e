// Jobs on models, sequences and snapshots. The jobs that give a sequence work are in device_worker_jobs.cc,
// steps in device_worker_step.cc, ends and faults in device_worker_faults.cc, and how memory is found in
// device_worker_memory.cc.

#include "actors/device_worker.h"

#include <algorithm>

#include "actors/grid_model.h"
#include "models/compute_options.h"
#include "protocol/token_hash.h"

namespace reprise::actors {

using protocol::JobError;
using protocol::JobFault;
using protocol::SequenceId;

DeviceWorker::DeviceWorker(WorkerOptions options)
    : options_(std::move(options)), budget_(options_.state_bytes) {
  if (!options_.figures) options_.figures = std::make_shared<WorkerFigures>();
  WorkerFigures::set(options_.figures->limit_bytes, budget_.limit());
}

// A step may still be computing on the work of this object; a model's end waits for it.
DeviceWorker::~DeviceWorker() {
  archs_.clear();
}

LoadedArch* DeviceWorker::arch_of(std::uint32_t generation) {
  for (const auto& arch : archs_) {
    if (arch->generation() == generation) return arch.get();
  }
  return nullptr;
}

SequenceRun* DeviceWorker::find(SequenceId id) {
  LoadedArch* arch = arch_of(id.generation);
  return arch == nullptr ? nullptr : arch->find(id);
}

// Every message may have made work possible; one RunStep at a time is enough to find it.
void DeviceWorker::kick() {
  publish();
  if (step_posted_ || step_arch_ != nullptr) return;
  step_posted_ = self(*this).tell(RunStep{}) == runtime::SendStatus::kSent;
}

void DeviceWorker::publish() {
  WorkerFigures& figures = *options_.figures;
  std::uint64_t sequences = 0;
  std::uint64_t snapshots = 0;
  for (const auto& arch : archs_) {
    sequences += arch->sequences().size();
    snapshots += arch->snapshots().size();
  }
  WorkerFigures::set(figures.sequences, sequences);
  WorkerFigures::set(figures.snapshots, snapshots);
  WorkerFigures::set(figures.waiting, waiting_.size());
  WorkerFigures::set(figures.used_bytes, budget_.used());
}

// -- models

// At the first model: a setting that makes no sense is that model's answer.
void DeviceWorker::open_device() {
  if (device_) return;
  device_ =
      models::Device::open(options_.device == "cpu-grid" ? "cpu" : options_.device, options_.device_options);
  limits_ = options_.batch.value_or(BatchLimits{.tokens = device_->prefill_rows(),
                                                .tokens_beside = device_->prefill_rows() / 4,
                                                .idle_tokens = device_->prefill_rows() / 4});
}

protocol::JobResult<protocol::ArchLoaded> DeviceWorker::on(protocol::LoadArch job) {
  try {
    const models::ComputeOptions options = models::compute_options(job.compute, job.kv_dtype, job.isa);
    open_device();
    std::unique_ptr<models::Model> model = options_.device == "cpu-grid"
                                               ? load_grid_model(job.path, options, *device_)
                                               : device_->load(job.path, options);
    model->checkpoint().validate();
    budget_.set_limit(device_->state_bytes(options_.state_bytes));
    WorkerFigures::set(options_.figures->limit_bytes, budget_.limit());
    gpu::BlockMemory* memory = options_.memory != nullptr ? options_.memory : &device_->memory();
    archs_.push_back(std::make_unique<LoadedArch>(next_generation_++, StepRunner::make(std::move(model)),
                                                  budget_, memory));
    protocol::ArchLoaded loaded = archs_.back()->describe();
    loaded.device = device_->name();
    return loaded;
  } catch (const std::bad_alloc&) {
    return JobError{JobFault::kNoMemory, "no memory for the weights"};
  } catch (const std::exception& error) {  // a file or a setting; what() names it
    return JobError{JobFault::kBadJob, error.what()};
  }
}

void DeviceWorker::on(protocol::AttachRegistry job) {
  if (LoadedArch* arch = arch_of(job.arch.generation)) {
    arch->registry = job.registry;
    arch->oldest_use = std::move(job.oldest_use);
  }
}

void DeviceWorker::on(protocol::DropArch job, runtime::ReplyTo<protocol::ArchDropped> reply) {
  if (LoadedArch* arch = arch_of(job.arch.generation); arch != nullptr && arch == step_arch_) {
    drops_after_step_.emplace_back(job.arch.generation, std::move(reply));
    return;
  }
  drop_arch(job.arch.generation, std::move(reply));
}

void DeviceWorker::drop_arch(std::uint32_t generation, runtime::ReplyTo<protocol::ArchDropped> reply) {
  protocol::ArchDropped dropped;
  if (LoadedArch* arch = arch_of(generation)) {
    const JobError gone{JobFault::kUnknown, "the model was unloaded"};
    for (auto& [number, run] : arch->sequences()) end_work(run, gone);
    for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
      if (waiting->job.arch.generation == generation) {
        waiting->reply.answer(protocol::JobResult<protocol::Opened>(gone));
        waiting = waiting_.erase(waiting);
      } else {
        ++waiting;
      }
    }
    dropped.sequences = static_cast<std::uint32_t>(arch->sequences().size());
    dropped.snapshots = static_cast<std::uint32_t>(arch->snapshots().size());
    const std::uint64_t before = budget_.used();
    for (auto& [number, run] : arch->sequences()) {
      if (run.saved) swapped_bytes_ -= run.saved->bytes.size();
    }
    std::erase_if(archs_, [arch](const auto& one) { return one.get() == arch; });
    dropped.freed_bytes = before - budget_.used();
    memory_changed();
  }
  publish();  // whoever learns that it is gone sees the memory free
  reply.answer(dropped);
  kick();
}

// -- sequences

void DeviceWorker::on(protocol::OpenSequence job,
                      runtime::ReplyTo<protocol::JobResult<protocol::Opened>> reply) {
  using Result = protocol::JobResult<protocol::Opened>;
  LoadedArch* arch = arch_of(job.arch.generation);
  if (arch == nullptr) return reply.answer(Result(JobError{JobFault::kUnknown, "no such model is loaded"}));
  if (arch->failed) return reply.answer(Result(JobError{JobFault::kDeviceFailed, "the model has failed"}));
  const std::uint64_t price = arch->price(std::uint64_t{job.prompt_tokens} + job.max_tokens);
  if (price > budget_.limit()) {
    return reply.answer(Result(JobError{JobFault::kNeverFits,
                                        "needs " + std::to_string(price) + " bytes of state, and there are " +
                                            std::to_string(budget_.limit()),
                                        price}));
  }
  if (waiting_.size() >= options_.max_waiting) {
    return reply.answer(Result(JobError{JobFault::kBusy, "too many requests wait for the device"}));
  }
  waiting_.push_back({std::move(job), std::move(reply)});
  kick();
}

void DeviceWorker::on(protocol::CloseSequence job) {
  std::erase_if(waiting_,
                [&](const Waiting& one) { return one.job.arch == job.arch && one.job.ticket == job.ticket; });
  LoadedArch* arch = arch_of(job.arch.generation);
  SequenceRun* run = arch == nullptr ? nullptr : arch->find_ticket(job.ticket);
  if (run != nullptr) {
    end_work(*run, {JobFault::kCancelled, "the sequence was closed"});
    if (run->saved) swapped_bytes_ -= run->saved->bytes.size();
    if (run->in_step) {
      run->closing = true;
    } else {
      arch->remove(run->id);
    }
    memory_changed();
  }
  kick();
}

void DeviceWorker::on(protocol::Cancel job) {
  if (SequenceRun* run = find(job.sequence)) end_work(*run, {JobFault::kCancelled, "cancelled"});
  kick();
}

// -- snapshots

protocol::JobResult<protocol::Restored> DeviceWorker::on(protocol::RestoreKv job) {
  LoadedArch* arch = arch_of(job.sequence.generation);
  SequenceRun* run = arch == nullptr ? nullptr : arch->find(job.sequence);
  if (run == nullptr) return JobError{JobFault::kUnknown, "no such sequence"};
  SnapshotRecord* record = arch->find(job.snapshot);
  if (record == nullptr) return JobError{JobFault::kUnknown, "no such snapshot"};
  if (run->phase != SequenceRun::Phase::kIdle || run->in_step || !run->state || run->stored() != 0 ||
      run->prompt) {
    return JobError{JobFault::kBadJob, "a snapshot can be restored only into an empty sequence"};
  }
  const std::size_t length = record->state.stored();
  if (job.at > length || (job.at < length && !arch->model().state().attention_only())) {
    return JobError{JobFault::kBadJob, "the snapshot cannot be cut at that place"};
  }
  const auto drop_damaged = [&](const char* why) {
    WorkerFigures::add(options_.figures->damaged);
    arch->remove(job.snapshot);
    memory_changed();
    return JobError{JobFault::kDamaged, why};
  };
  if (protocol::token_hash(std::span(*record->tokens).first(job.at)) != job.token_hash) {
    return drop_damaged("the snapshot is of other tokens");
  }
  run->state.reset();  // its slot is what the restored one needs
  gpu::Restoration restoration;
  const bool survived = survives([&] {
    restoration = arch->store().restore(record->state, job.at);
    if (restoration.damaged || !restoration.sequence) run->state = arch->store().open();
  });
  if (!survived) return JobError{JobFault::kDeviceFailed, "the device failed in the middle of a restore"};
  if (restoration.damaged || !restoration.sequence) {
    if (restoration.damaged) return drop_damaged("the snapshot's checksum is wrong");
    return JobError{JobFault::kNoMemory, "no memory to restore into"};
  }
  run->state = std::move(*restoration.sequence);
  if (record->raw) {
    run->prompt = record->tokens;
    run->prompt_end = record->prompt_end;
    run->logits = record->logits;
  }
  const std::uint64_t shared = job.at / gpu::kPageTokens * arch->page_bytes();
  run->shared_pages = 0;
  kick();
  return protocol::Restored{.tokens = job.at, .shared_bytes = shared};
}

protocol::JobResult<protocol::SnapshotTaken> DeviceWorker::on(protocol::SnapshotKv job) {
  LoadedArch* arch = arch_of(job.sequence.generation);
  SequenceRun* run = arch == nullptr ? nullptr : arch->find(job.sequence);
  if (run == nullptr) return JobError{JobFault::kUnknown, "no such sequence"};
  if (run->phase != SequenceRun::Phase::kIdle || run->in_step || !run->state || !run->prompt) {
    return JobError{JobFault::kBadJob, "the sequence is not at rest"};
  }
  const std::uint32_t stored = run->stored();
  const bool raw = job.kind == protocol::SnapshotKv::Kind::kRaw;
  const DeviceRules rules = arch->rules();
  if (!raw && (stored % rules.grid != 0 || (stored > run->prompt_end && !rules.decode_is_prefill))) {
    return JobError{JobFault::kBadJob, "no canonical state at this place"};
  }
  if (raw && (stored != run->prompt_end || run->logits.empty())) {
    return JobError{JobFault::kBadJob, "a raw snapshot is taken behind the prompt"};
  }
  std::optional<gpu::Snapshot> state;
  if (!survives([&] { state = arch->store().capture(*run->state); })) {
    return JobError{JobFault::kDeviceFailed, "the device failed in the middle of a snapshot"};
  }
  if (!state) return JobError{JobFault::kNoMemory, "no memory for a snapshot"};
  if (!state->finite()) {
    WorkerFigures::add(options_.figures->unhealthy);
    return JobError{JobFault::kUnhealthy, "the state is not finite"};
  }
  const std::uint64_t bytes = state->exclusive_bytes();
  protocol::SharedTokens tokens = run->prompt;
  if (!raw) {
    protocol::TokenList list(stored);
    for (std::uint32_t i = 0; i < stored; ++i) list[i] = run->token_at(i);
    tokens = protocol::share(std::move(list));
  }
  const protocol::SnapshotId id = arch->add_snapshot({.state = std::move(*state),
                                                      .tokens = std::move(tokens),
                                                      .owner = run->id,
                                                      .adopted = false,
                                                      .raw = raw,
                                                      .prompt_end = raw ? run->prompt_end : 0,
                                                      .logits = raw ? run->logits : std::vector<float>{}});
  publish();
  return protocol::SnapshotTaken{.snapshot = id, .tokens = stored, .exclusive_bytes = bytes};
}

protocol::JobResult<protocol::Adopted> DeviceWorker::on(protocol::AdoptKvSnapshot job) {
  LoadedArch* arch = arch_of(job.snapshot.generation);
  SnapshotRecord* record = arch == nullptr ? nullptr : arch->find(job.snapshot);
  if (record == nullptr || record->raw) return JobError{JobFault::kUnknown, "no such snapshot"};
  protocol::Adopted adopted{.done = record->adopted};
  if (!record->adopted) {
    const std::uint64_t after = arch->adopted().bytes() + arch->adopted().growth(record->state);
    if (after <= job.budget_bytes) {
      arch->adopted().add(record->state);
      record->adopted = adopted.done = true;
      memory_changed();
    } else {
      adopted.short_bytes = after - job.budget_bytes;
    }
  }
  adopted.adopted_bytes = arch->adopted().bytes();
  return adopted;
}

protocol::Dropped DeviceWorker::on(protocol::DropKvSnapshot job) {
  protocol::Dropped dropped;
  if (LoadedArch* arch = arch_of(job.snapshot.generation)) {
    dropped.freed_bytes = arch->remove(job.snapshot);
    dropped.adopted_bytes = arch->adopted().bytes();
    memory_changed();
    kick();
  }
  return dropped;
}

// -- looking at it

protocol::Memory DeviceWorker::on(protocol::QueryMemory) {
  protocol::Memory memory{.limit_bytes = budget_.limit(), .used_bytes = budget_.used()};
  for (const auto& arch : archs_) {
    memory.adopted_bytes += arch->adopted().bytes();
    memory.sequences += static_cast<std::uint32_t>(arch->sequences().size());
    memory.snapshots += static_cast<std::uint32_t>(arch->snapshots().size());
  }
  memory.waiting = static_cast<std::uint32_t>(waiting_.size());
  return memory;
}

protocol::Nothing DeviceWorker::on(protocol::InjectFault job) {
  if (!options_.obey_faults) return {};
  if (job.kind == protocol::InjectFault::Kind::kDamage) {
    for (const auto& arch : archs_) {
      for (auto& [number, record] : arch->snapshots()) arch->store().damage(record.state);
    }
    return {};
  }
  fault_ = job;
  return {};
}

}  // namespace reprise::actors
