#include "actors/device/device_worker.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "actors/device/testing.h"
#include "base/digest.h"
#include "gpu/devices.h"
#include "models/compute_options.h"
#include "models/files/load_error.h"
#include "runtime/wait.h"
#include "traces/trace.h"

namespace reprise::actors {

using gpu::kPageTokens;
using protocol::JobError;
using protocol::JobFault;
using Phase = SequenceRun::Phase;
using AdapterAnswer = protocol::JobResult<protocol::AdapterLoaded>;

namespace {

std::shared_ptr<WorkerFigures> figures_of(const WorkerOptions& options) {
  return options.figures ? options.figures : std::make_shared<WorkerFigures>();
}

std::chrono::steady_clock::time_point now() {
  return std::chrono::steady_clock::now();
}

// A registry that restarts or is far behind must not delay all who wait for memory. Its later drops still
// count.
constexpr std::chrono::seconds kReclaimDeadline{5};

std::int64_t now_ns() {
  return runtime::Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

ModelFacts facts_of(const StepRunner& runner) {
  const models::Model& model = runner.model();
  return {.sizes = model.state().sizes(),
          .rules = runner.model().rules(),
          .vocab = static_cast<std::uint32_t>(model.config().vocab),
          .hidden = static_cast<std::uint32_t>(model.config().hidden),
          .tail_bytes = model.why_not_compacted().empty() ? model.state().tail_bytes() : 0,
          .draws = model.draws()};
}

}  // namespace

// -- a model on a device

/// A loaded model: its weights, its step runner, and the table of its sequences and snapshots. All ids carry
/// its generation.
class DeviceWorker::ModelInstance : public StateTable {
 public:
  /// `memory` holds the state; null: host memory.
  ModelInstance(std::uint32_t generation, std::unique_ptr<StepRunner> runner,
                const models::Fingerprint& fingerprint, gpu::ByteBudget& budget, gpu::BlockMemory* memory);

  /// Describes the model; the caller fills in the device.
  protocol::ArchLoaded describe() const;
  const models::Fingerprint& fingerprint() const { return fingerprint_; }

  StepRunner& runner() { return *runner_; }
  const models::Model& model() const { return runner_->model(); }

  // Reclaims bytes, and is told of checkpoints.
  runtime::Ref<protocol::Reclaim, protocol::CheckpointTaken> registry;
  std::function<std::int64_t()> oldest_use;

 private:
  gpu::ByteBudget& budget_;
  const models::Fingerprint fingerprint_;
  std::unique_ptr<StepRunner> runner_;  // destroyed before the table: it may be computing
};

DeviceWorker::ModelInstance::ModelInstance(std::uint32_t generation, std::unique_ptr<StepRunner> runner,
                                           const models::Fingerprint& fingerprint, gpu::ByteBudget& budget,
                                           gpu::BlockMemory* memory)
    : StateTable(generation, facts_of(*runner), budget, memory),
      budget_(budget),
      fingerprint_(fingerprint),
      runner_(std::move(runner)) {}

protocol::ArchLoaded DeviceWorker::ModelInstance::describe() const {
  const models::ModelConfig& config = model().config();
  return {.arch = id(),
          .device = {},
          .architecture = config.architecture,
          .vocab = static_cast<std::uint32_t>(config.vocab),
          .context = static_cast<std::uint32_t>(config.context_length),
          .layers = static_cast<std::uint32_t>(config.layers.size()),
          .weight_bytes = model().checkpoint().total_bytes(),
          .token_bytes = page_bytes() / kPageTokens,
          .slot_bytes = slot_bytes(),
          .state_bytes = budget_.limit(),
          .page_tokens = kPageTokens,
          .grid = rules().grid,
          .any_token = model().state().attention_only(),
          .decode_is_canonical = rules().decode_is_canonical,
          .no_compaction = model().why_not_compacted(),
          .hidden = rules().gives_hidden ? facts().hidden : 0,
          .fingerprint = fingerprint_.all(),
          .arithmetic = fingerprint_.arithmetic,
          .identity = fingerprint_.identity()};
}

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

// A step may still use this object's work; destroying a model waits for its step.
DeviceWorker::~DeviceWorker() {
  step_.drop_passed();
  archs_.clear();
}

DeviceWorker::ModelInstance* DeviceWorker::arch_of(std::uint32_t generation) {
  for (const auto& arch : archs_) {
    if (arch->generation() == generation) return arch.get();
  }
  return nullptr;
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

// The count is shared by all workers: a generation is unique across devices.
std::uint32_t DeviceWorker::next_generation() {
  static std::atomic<std::uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: numbers only have to be unique
}

// A request waits for the step in progress, so a step of idle work has few tokens. On the CPU it takes about
// as long as one token, since reading the weights dominates. On a GPU it has one grid of tokens.
constexpr std::uint32_t kIdleShare = 64;

// A prefill adds kernel launches and a pass over all weights to a step with few rows.
constexpr std::uint32_t kGatherFrom = 16;

// Opens the device at the first load, so that a bad setting is the answer to that load.
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
  } catch (const std::exception& error) {  // a bad setting; what() names it
    reply.answer(Answer(JobError{JobFault::kBadJob, error.what()}));
  }
}

protocol::ArchLoaded DeviceWorker::take_in(LoadedModel loaded) {
  state_.budget().set_limit(device_->state_bytes(options_.state_bytes));
  WorkerFigures::set(figures_->limit_bytes, state_.budget().limit());
  gpu::BlockMemory* memory = options_.memory != nullptr ? options_.memory : &device_->memory();
  archs_.push_back(std::make_unique<ModelInstance>(next_generation(),
                                                   StepRunner::make(std::move(loaded.model)),
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
  if (ModelInstance* arch = arch_of(job.arch.generation)) {
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
  if (ModelInstance* arch = arch_of(generation)) {
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
  publish();  // the receiver of the answer must see the memory free
  reply.answer(dropped);
  kick();
}

// -- adapters: read during steps; added and removed between steps

void DeviceWorker::on(protocol::LoadAdapter job, runtime::ReplyTo<AdapterAnswer> reply) {
  const ModelInstance* arch = arch_of(job.arch.generation);
  if (arch == nullptr || arch->failed()) {
    return reply.answer(AdapterAnswer(JobError{JobFault::kUnknown, "no such model is loaded"}));
  }
  // A copy, since the model may be dropped meanwhile.
  auto config = std::make_shared<const models::ModelConfig>(arch->model().config());
  adapter_loads_.add(
      {.make =
           [path = job.path, config, generation = job.arch.generation](const std::atomic<bool>&) {
             return ReadAdapter{generation, models::Adapter::open(path, *config)};
           },
       .aside = true,
       .done = [me = self(*this)] { me.tell(AdapterRead{}); },
       .reply = std::move(reply)});
}

void DeviceWorker::on(AdapterRead) {
  AdapterLoads::Result read = adapter_loads_.take();
  if (read.error) return read.reply.answer(AdapterAnswer(*read.error));
  adapters_read_.push_back(std::move(read));
  kick();
}

// Called in every round until memory for the adapter is found or none can be freed.
void DeviceWorker::take_in_adapters() {
  for (AdapterLoads::Result& read : std::exchange(adapters_read_, {})) {
    const models::Adapter& adapter = read.made->adapter;
    ModelInstance* arch = arch_of(read.made->generation);
    if (arch == nullptr || arch->failed()) {
      read.reply.answer(AdapterAnswer(JobError{JobFault::kUnknown, "the model was unloaded"}));
      continue;
    }
    const std::uint64_t bytes = arch->model().adapter_bytes(adapter);
    const Availability room = memory_.find({.bytes = bytes + state_.promised_bytes(), .dispensable = true});
    if (room == Availability::kComing) {
      adapters_read_.push_back(std::move(read));
    } else if (room == Availability::kNone || !state_.budget().take(bytes)) {
      read.reply.answer(AdapterAnswer(JobError{JobFault::kNoMemory,
                                               "the adapter needs " + std::to_string(bytes) +
                                                   " bytes of the device's memory; free are " +
                                                   std::to_string(state_.budget().free()),
                                               bytes}));
    } else {
      read.reply.answer(take_in(*arch, adapter, bytes));
    }
  }
}

AdapterAnswer DeviceWorker::take_in(ModelInstance& arch, const models::Adapter& adapter,
                                    std::uint64_t bytes) {
  const protocol::AdapterId id = arch.add_adapter(bytes);
  try {
    arch.runner().idle_model().add_adapter(id.number, adapter);
  } catch (const std::bad_alloc&) {
    arch.drop_adapter(id.number);
    return JobError{JobFault::kNoMemory, "no memory for the adapter", bytes};
  } catch (const models::LoadError& error) {  // names the matrix
    arch.drop_adapter(id.number);
    return JobError{JobFault::kBadJob, error.what()};
  }
  return protocol::AdapterLoaded{
      .adapter = id,
      .matrices = static_cast<std::uint32_t>(adapter.parts().size()),
      .rank = static_cast<std::uint32_t>(adapter.max_rank()),
      .bytes = bytes,
      .fingerprint = Digest().add(arch.fingerprint().all()).add(adapter.digest()).value()};
}

void DeviceWorker::on(protocol::DropAdapter job, runtime::ReplyTo<protocol::AdapterDropped> reply) {
  const StateTable* table = state_.find(job.adapter.generation);
  if (table != nullptr && table == step_.table()) {
    adapter_drops_after_step_.emplace_back(job.adapter, std::move(reply));
    return;
  }
  drop_adapter(job.adapter, std::move(reply));
}

void DeviceWorker::drop_adapter(protocol::AdapterId adapter,
                                runtime::ReplyTo<protocol::AdapterDropped> reply) {
  protocol::AdapterDropped dropped;
  ModelInstance* arch = arch_of(adapter.generation);
  if (arch != nullptr && arch->has_adapter(adapter)) {
    const JobError gone{JobFault::kUnknown, "the adapter was unloaded"};
    admission_.refuse_all(adapter, gone);
    const std::uint64_t before = state_.budget().used();
    std::vector<SequenceRun*> users;
    for (auto& [number, run] : arch->sequences()) {
      if (run.adapter == adapter.number) users.push_back(&run);
    }
    for (SequenceRun* run : users) {
      run->end_work(gone);
      close(*arch, *run);
    }
    dropped = arch->drop_adapter(adapter.number);
    dropped.sequences = static_cast<std::uint32_t>(users.size());
    dropped.freed_bytes = before - state_.budget().used();
    arch->runner().idle_model().remove_adapter(adapter.number);
    memory_.memory_changed();
  }
  publish();  // the receiver of the answer must see the memory free
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
  take_in_adapters();
  if (snapshots_.try_waiting(now)) admission_.admit(now);
  // Between its admission and its prefill, a request asks other actors. No idle work starts meanwhile; the
  // request always prefills or ends.
  BatchLimits limits = limits_;
  limits.idle_work =
      state_.sequences_where([](const SequenceRun& run) { return run.is_about_to_begin(); }).empty();
  ModelInstance* runs = nullptr;
  for (std::size_t tries = archs_.size(); tries > 0 && runs == nullptr; --tries) {
    ModelInstance& arch = *archs_[turn_++ % archs_.size()];
    if (!arch.failed() && step_.build(arch, limits)) runs = &arch;
  }
  memory_.relieve();
  publish();
  if (runs != nullptr) return start_step(*runs);
  if (memory_.somebody_is_short() && !memory_.reclaiming()) wait_for_memory(now);
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
  ModelInstance& arch = *arch_of(step_.table()->generation());
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
  const JobError error{JobFault::kNoMemory, "the device's memory is full and nothing more can be freed"};
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
  const ModelInstance* arch = arch_of(generation);
  return arch->registry && arch->registry.tell(std::move(taken)) == runtime::SendStatus::kSent;
}

// -- faults: a step, or anything else on the device, fails

void DeviceWorker::fail_arch(ModelInstance& arch, const std::string& why, bool device_lost) {
  WorkerFigures::add(figures_->faults);
  arch.fail(JobError{JobFault::kDeviceFailed, "the device failed: " + why});
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
  for (const auto& arch : archs_) {
    for (auto& [number, run] : arch->sequences()) run.in_step = false;
    if (!arch->failed()) fail_arch(*arch, broken.why, broken.device_lost);
  }
  if (step_.table() != nullptr) {
    clear_step();
  } else {
    kick();
  }
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

}  // namespace reprise::actors
