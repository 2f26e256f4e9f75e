// Jobs on models and sequences. Those on snapshots are in device_worker_snapshots.cc, those that give a
// sequence work in device_worker_jobs.cc, steps in device_worker_step.cc, ends and faults in
// device_worker_faults.cc, and how memory is found in device_worker_memory.cc.

#include "actors/worker/device_worker.h"

#include <algorithm>
#include <atomic>

#include "models/compute_options.h"

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

// One count for all workers: what was loaded once, on whichever device, is never taken for something else.
std::uint32_t DeviceWorker::next_generation() {
  static std::atomic<std::uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: hands out numbers
}

// At the first model: a setting that makes no sense is that model's answer.
void DeviceWorker::open_device() {
  if (device_) return;
  device_ = models::Device::open(options_.device, options_.device_options);
  limits_ = options_.batch.value_or(BatchLimits{.tokens = device_->prefill_rows(),
                                                .tokens_beside = device_->prefill_rows() / 4,
                                                .idle_tokens = device_->prefill_rows() / 4});
}

protocol::JobResult<protocol::ArchLoaded> DeviceWorker::on(protocol::LoadArch job) {
  try {
    const models::ComputeOptions options = models::compute_options(job.compute, job.kv_dtype, job.isa);
    open_device();
    std::unique_ptr<models::Model> model = device_->load(job.path, options);
    model->checkpoint().validate();
    budget_.set_limit(device_->state_bytes(options_.state_bytes));
    WorkerFigures::set(options_.figures->limit_bytes, budget_.limit());
    gpu::BlockMemory* memory = options_.memory != nullptr ? options_.memory : &device_->memory();
    archs_.push_back(
        std::make_unique<LoadedArch>(next_generation(), StepRunner::make(std::move(model)), budget_, memory));
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
  const std::uint64_t price = price_of(*arch, job, std::uint64_t{job.prompt_tokens} + job.max_tokens, 0);
  if (const std::uint64_t most = share_of(job); price > most) {
    return reply.answer(
        Result(JobError{JobFault::kNeverFits,
                        "needs " + std::to_string(price) + " bytes of state, and there are " +
                            std::to_string(most) + (most < budget_.limit() ? " for its tenant" : ""),
                        price}));
  }
  if (waiting_.size() >= options_.max_waiting) {
    return reply.answer(Result(JobError{JobFault::kBusy, "too many requests wait for the device"}));
  }
  waiting_.push_back({std::move(job), std::move(reply), ++arrivals_, std::chrono::steady_clock::now()});
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
  using Kind = protocol::InjectFault::Kind;
  if (job.kind == Kind::kDamage || job.kind == Kind::kWrongBits) {
    for (const auto& arch : archs_) {
      for (auto& [number, record] : arch->snapshots()) {
        if (job.kind == Kind::kDamage) arch->store().damage(record.state);
        if (job.kind == Kind::kWrongBits) arch->store().damage_unseen(record.state);
      }
    }
    return {};
  }
  fault_ = job;
  return {};
}

}  // namespace reprise::actors
