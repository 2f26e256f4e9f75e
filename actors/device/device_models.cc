#include "actors/device/device_models.h"

#include <algorithm>
#include <atomic>

#include "base/digest.h"
#include "models/compute_options.h"
#include "models/files/load_error.h"

namespace reprise::actors {

using gpu::kPageTokens;
using protocol::Error;
using protocol::ErrorKind;
using AdapterAnswer = protocol::LoadAdapter::Reply;

namespace {

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

ModelInstance::ModelInstance(std::uint32_t generation, std::unique_ptr<StepRunner> runner,
                             const models::Fingerprint& fingerprint, gpu::ByteBudget& budget,
                             gpu::BlockMemory* memory)
    : StateTable(generation, facts_of(*runner), budget, memory),
      budget_(budget),
      fingerprint_(fingerprint),
      runner_(std::move(runner)) {}

protocol::ArchLoaded ModelInstance::describe() const {
  const models::ModelConfig& config = model().config();
  return {.arch = id(),
          .device = {},
          .architecture = config.architecture,
          .vocab = static_cast<std::uint32_t>(config.vocab),
          .context = static_cast<std::uint32_t>(config.context_length),
          .layers = static_cast<std::uint32_t>(config.layers.size()),
          .weight_bytes = model().files().total_bytes(),
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

// -- loading

DeviceModels::DeviceModels(const WorkerSettings& settings, DeviceState& state, MemoryReclaimer& memory,
                           Admission& admission, WorkerFigures& figures, std::function<void()> freed)
    : settings_(settings),
      state_(state),
      memory_(memory),
      admission_(admission),
      figures_(figures),
      freed_(std::move(freed)) {}

ModelInstance* DeviceModels::find(std::uint32_t generation) const {
  for (const auto& model : models_) {
    if (model->generation() == generation) return model.get();
  }
  return nullptr;
}

// The count is shared by all workers: a generation is unique across devices.
std::uint32_t DeviceModels::next_generation() {
  static std::atomic<std::uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: numbers only have to be unique
}

// A request waits for the step in progress, so a step of idle work has few tokens. On the CPU it takes about
// as long as one token, since reading the weights dominates. On a GPU it has one grid of tokens.
constexpr std::uint32_t kIdleShare = 64;

// A prefill adds kernel launches and a pass over all weights to a step with few rows.
constexpr std::uint32_t kGatherFrom = 16;

void DeviceModels::open_device() {
  if (device_) return;
  device_ = models::Device::open(settings_.device, settings_.device_options);
  limits_ = settings_.batch.value_or(BatchLimits{.tokens = device_->prefill_rows(),
                                                 .tokens_with_decoding = device_->prefill_rows() / 4,
                                                 .idle_tokens = device_->prefill_rows() / kIdleShare,
                                                 .gather_from = kGatherFrom});
}

void DeviceModels::load(protocol::LoadArch job, LoadReply reply, Done done) {
  using Answer = protocol::JobResult<protocol::ArchLoaded>;
  try {
    const models::ComputeOptions options = models::compute_options(job.compute, job.kv_dtype, job.isa);
    open_device();
    loads_.add({.make =
                    [this, path = job.path, options,
                     meter = std::move(job.meter)](const std::atomic<bool>& stopping) {
                      const auto make = [&](const models::LoadProgress& progress) {
                        return settings_.make_model ? settings_.make_model(path)
                                                    : device_->load(path, options, progress);
                      };
                      return load_model(make, stopping, meter.get());
                    },
                .aside = device_->loads_aside(),
                .done = std::move(done),
                .reply = std::move(reply)});
  } catch (const std::bad_alloc&) {
    reply.answer(Answer(Error{ErrorKind::kNoMemory, "no memory for the device"}));
  } catch (const std::exception& error) {  // a bad setting; what() names it
    reply.answer(Answer(Error{ErrorKind::kBadJob, error.what()}));
  }
}

protocol::ArchLoaded DeviceModels::add(LoadedModel loaded) {
  state_.budget().set_limit(device_->state_bytes(settings_.state_bytes));
  WorkerFigures::set(figures_.limit_bytes, state_.budget().limit());
  gpu::BlockMemory* memory = settings_.memory != nullptr ? settings_.memory : &device_->memory();
  models_.push_back(std::make_unique<ModelInstance>(next_generation(),
                                                    StepRunner::make(std::move(loaded.model)),
                                                    loaded.fingerprint, state_.budget(), memory));
  state_.add(*models_.back());
  protocol::ArchLoaded out = models_.back()->describe();
  out.device = device_->name();
  return out;
}

void DeviceModels::finish_load() {
  using Answer = protocol::JobResult<protocol::ArchLoaded>;
  ModelLoads::Result loaded = loads_.take();
  if (loaded.error) return loaded.reply.answer(Answer(*loaded.error));
  try {
    loaded.reply.answer(Answer(add(std::move(*loaded.made))));
  } catch (const std::bad_alloc&) {
    loaded.reply.answer(Answer(Error{ErrorKind::kNoMemory, "no memory for the model's state"}));
  } catch (const std::exception& error) {
    loaded.reply.answer(Answer(Error{ErrorKind::kBadJob, error.what()}));
  }
}

void DeviceModels::attach(protocol::AttachRegistry job) {
  if (ModelInstance* arch = find(job.arch.generation)) {
    arch->registry = job.registry;
    arch->oldest_use = std::move(job.oldest_use);
  }
}

void DeviceModels::drop(const protocol::DropArch& job, DropReply reply, const StateTable* in_step) {
  const StateTable* table = state_.find(job.arch.generation);
  if (table != nullptr && table == in_step) {
    deferred_.emplace_back(job.arch.generation, std::move(reply));
    return;
  }
  drop(job.arch.generation, std::move(reply));
}

void DeviceModels::drop(std::uint32_t generation, DropReply reply) {
  protocol::ArchDropped dropped;
  if (ModelInstance* arch = find(generation)) {
    const Error gone{ErrorKind::kUnknown, "the model was unloaded"};
    for (auto& [number, run] : arch->sequences()) {
      run.end_work(gone);
      memory_.forget_saved(run);
    }
    admission_.refuse_all(generation, gone);
    dropped.sequences = static_cast<std::uint32_t>(arch->sequences().size());
    dropped.snapshots = static_cast<std::uint32_t>(arch->snapshots().size());
    const std::uint64_t before = state_.budget().used();
    state_.remove(*arch);
    std::erase_if(models_, [arch](const auto& one) { return one.get() == arch; });
    dropped.freed_bytes = before - state_.budget().used();
    memory_.memory_changed();
  }
  freed_();
  reply.answer(dropped);
}

// -- adapters: read during steps; added and removed between steps

void DeviceModels::load_adapter(const protocol::LoadAdapter& job, AdapterReply reply, Done done) {
  const ModelInstance* arch = find(job.arch.generation);
  if (arch == nullptr || arch->failed()) {
    return reply.answer(AdapterAnswer(Error{ErrorKind::kUnknown, "no such model is loaded"}));
  }
  // A copy, since the model may be dropped meanwhile.
  auto config = std::make_shared<const models::ModelConfig>(arch->model().config());
  adapter_loads_.add(
      {.make =
           [path = job.path, config, generation = job.arch.generation](const std::atomic<bool>&) {
             return ReadAdapter{generation, models::Adapter::open(path, *config)};
           },
       .aside = true,
       .done = std::move(done),
       .reply = std::move(reply)});
}

void DeviceModels::adapter_read() {
  AdapterLoads::Result read = adapter_loads_.take();
  if (read.error) return read.reply.answer(AdapterAnswer(*read.error));
  adapters_read_.push_back(std::move(read));
}

void DeviceModels::add_adapters() {
  for (AdapterLoads::Result& read : std::exchange(adapters_read_, {})) {
    const models::Adapter& adapter = read.made->adapter;
    ModelInstance* arch = find(read.made->generation);
    if (arch == nullptr || arch->failed()) {
      read.reply.answer(AdapterAnswer(Error{ErrorKind::kUnknown, "the model was unloaded"}));
      continue;
    }
    const std::uint64_t bytes = arch->model().adapter_bytes(adapter);
    const Availability availability =
        memory_.find({.bytes = bytes + state_.promised_bytes(), .dispensable = true});
    if (availability == Availability::kComing) {
      adapters_read_.push_back(std::move(read));
    } else if (availability == Availability::kNone || !state_.budget().take(bytes)) {
      read.reply.answer(
          AdapterAnswer(Error{ErrorKind::kNoMemory, "the adapter needs " + std::to_string(bytes) +
                                                        " bytes of the device's memory; free are " +
                                                        std::to_string(state_.budget().free())}));
    } else {
      read.reply.answer(add(*arch, adapter, bytes));
    }
  }
}

AdapterAnswer DeviceModels::add(ModelInstance& arch, const models::Adapter& adapter, std::uint64_t bytes) {
  const protocol::AdapterId id = arch.add_adapter(bytes);
  try {
    arch.runner().idle_model().add_adapter(id.number, adapter);
  } catch (const std::bad_alloc&) {
    arch.drop_adapter(id.number);
    return Error{ErrorKind::kNoMemory, "no memory for the adapter"};
  } catch (const models::LoadError& error) {  // names the matrix
    arch.drop_adapter(id.number);
    return Error{ErrorKind::kBadJob, error.what()};
  }
  return protocol::AdapterLoaded{
      .adapter = id,
      .matrices = static_cast<std::uint32_t>(adapter.parts().size()),
      .rank = static_cast<std::uint32_t>(adapter.max_rank()),
      .bytes = bytes,
      .fingerprint = Digest().add(arch.fingerprint().all()).add(adapter.digest()).value()};
}

void DeviceModels::drop(const protocol::DropAdapter& job, AdapterDropReply reply, const StateTable* in_step) {
  const StateTable* table = state_.find(job.adapter.generation);
  if (table != nullptr && table == in_step) {
    deferred_adapters_.emplace_back(job.adapter, std::move(reply));
    return;
  }
  drop(job.adapter, std::move(reply));
}

void DeviceModels::drop(protocol::AdapterId adapter, AdapterDropReply reply) {
  protocol::AdapterDropped dropped;
  ModelInstance* arch = find(adapter.generation);
  if (arch != nullptr && arch->has_adapter(adapter)) {
    const Error gone{ErrorKind::kUnknown, "the adapter was unloaded"};
    admission_.refuse_all(adapter, gone);
    const std::uint64_t before = state_.budget().used();
    std::vector<SequenceRun*> users;
    for (auto& [number, run] : arch->sequences()) {
      if (run.adapter == adapter.number) users.push_back(&run);
    }
    for (SequenceRun* run : users) {
      run->end_work(gone);
      close_sequence(*arch, *run, memory_);
    }
    dropped = arch->drop_adapter(adapter.number);
    dropped.sequences = static_cast<std::uint32_t>(users.size());
    dropped.freed_bytes = before - state_.budget().used();
    arch->runner().idle_model().remove_adapter(adapter.number);
    memory_.memory_changed();
  }
  freed_();
  reply.answer(dropped);
}

void close_sequence(StateTable& table, SequenceRun& run, MemoryReclaimer& memory) {
  run.end_work({ErrorKind::kCanceled, "the sequence was closed"});
  memory.forget_saved(run);
  if (run.in_step) {
    run.closing = true;
  } else {
    table.close(run.id);
  }
  memory.memory_changed();
}

// -- the end of a step

void DeviceModels::drop_deferred() {
  for (auto& [generation, reply] : std::exchange(deferred_, {})) drop(generation, std::move(reply));
  for (auto& [adapter, reply] : std::exchange(deferred_adapters_, {})) drop(adapter, std::move(reply));
}

}  // namespace reprise::actors
