// Loading and unloading. What happens when something breaks is in model_supervisor_faults.cc.

#include "actors/model_supervisor.h"

#include <algorithm>
#include <filesystem>

#include "actors/request/chat_tokens.h"
#include "actors/served/without_folders.h"
#include "base/machine_memory.h"
#include "models/device.h"
#include "models/files/load_error.h"
#include "models/memory_plan.h"
#include "models/text/chat_template_source.h"
#include "models/text/tokenizer_load.h"
#include "protocol/chat/named_templates.h"
#include "runtime/wait.h"

namespace reprise::actors {

using protocol::ModelCard;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::hours kLoadDeadline{1};
constexpr std::chrono::milliseconds kDeviceChange{500};  // for a device that ended to be replaced
constexpr int kMostDevices = 3;                          // tried by one load

std::string file_name_of(const std::string& path) {
  std::filesystem::path file(path);
  if (!file.has_filename()) file = file.parent_path();  // "folder/"
  return file.filename().string();
}

}  // namespace

ModelSupervisor::ModelSupervisor(EngineOptions options, std::shared_ptr<ModelDirectory> directory,
                                 std::shared_ptr<DeviceBoard> board, std::shared_ptr<RequestRoll> requests,
                                 std::shared_ptr<Restarts> restarts, protocol::TierRef tier,
                                 protocol::TurnStoreRef turn_store)
    : options_(std::move(options)),
      directory_(std::move(directory)),
      board_(std::move(board)),
      requests_(std::move(requests)),
      restarts_(std::move(restarts)),
      tier_(std::move(tier)),
      turn_store_(std::move(turn_store)) {}

void ModelSupervisor::on_start() {
  restarts_->supervisors.note_start();
  requests_->tell_all({.why = "the engine is restarting"});
  launch(watch_workers());
  for (const ModelDirectory::Entry& entry : directory_->all()) {
    Managed& managed = models_[entry.spec.name];
    for (const ModelSpec& spec : options_.models) {
      if (spec.name == entry.spec.name) managed.configured = spec.adapters;
    }
    begin_load(managed, entry.spec);
  }
}

ModelSupervisor::Device& ModelSupervisor::device_for(const ModelSpec& spec) {
  const std::string name =
      models::Device::resolve(spec.device.empty() ? options_.worker.device : spec.device);
  const auto [place, is_new] = devices_.try_emplace(name);
  Device& device = place->second;
  if (is_new) {
    device.name = name;
    device.figures = board_->of(name);
    spawn_worker(device);
  }
  return device;
}

void ModelSupervisor::spawn_worker(Device& device) {
  WorkerOptions options{options_.worker};
  options.device = device.name;
  options.figures = device.figures;
  options.supervisor = self(*this);
  device.worker = spawn<DeviceWorker>(
      {.name = "device " + device.name, .placement = runtime::Placement::own_thread()}, std::move(options));
  watch(*this, device.worker);
}

void ModelSupervisor::publish_state(Managed& managed, ModelCard::State state, const std::string& detail) {
  if (state == ModelCard::State::kLoading) managed.meter = std::make_shared<protocol::LoadMeter>();
  ModelCard card;
  if (const auto entry = directory_->find(managed.spec.name)) card = entry->card;
  card.id = managed.spec.name;
  card.state = state;
  card.problem = state == ModelCard::State::kFailed ? detail : std::string();
  directory_->set({.card = std::move(card),
                   .model = nullptr,
                   .detail = detail,
                   .spec = managed.spec,
                   .meter = managed.meter});
}

// -- loading

void ModelSupervisor::on(LoadModel load, runtime::ReplyTo<LoadModel::Reply> reply) {
  Managed& managed = models_[load.spec.name];
  if (!managed.loading && managed.arch) {
    const auto entry = directory_->find(load.spec.name);
    return reply.answer(LoadModel::Reply(entry ? entry->card : ModelCard{}));
  }
  managed.waiting.push_back(std::move(reply));
  if (managed.loading) return;
  managed.configured = load.spec.adapters;
  begin_load(managed, std::move(load.spec));
}

void ModelSupervisor::begin_load(Managed& managed, ModelSpec spec) {
  managed.spec = std::move(spec);
  managed.loading = true;
  publish_state(managed, ModelCard::State::kLoading, "is being loaded");
  launch(load(managed.spec.name));
}

Task<void> ModelSupervisor::load(std::string name) {
  Managed& managed = models_.at(name);  // stays: unloading waits for this
  Error error;
  try {
    Task<Error> bringing = bring(managed);
    error = co_await bringing;
  } catch (const std::exception& failure) {  // a file; what() names it
    error = ServiceError{ServiceErrorCode::kInvalid, failure.what(), "model"};
  }
  if (error && managed.arch) {
    Task<void> dropping = drop(managed);
    co_await dropping;
  }
  end_load(managed, error);
}

void ModelSupervisor::end_load(Managed& managed, const Error& error) {
  managed.loading = false;
  if (error) {
    log_error("model '" + managed.spec.name + "' cannot be used: " + error->message);
    publish_state(managed, ModelCard::State::kFailed, without_folders(error->message, managed.spec.path));
  }
  if (managed.waiting.empty()) return;
  const auto entry = directory_->find(managed.spec.name);
  const LoadModel::Reply loaded = error ? LoadModel::Reply(*error) : LoadModel::Reply(entry->card);
  for (auto& reply : std::exchange(managed.waiting, {})) reply.answer(loaded);
}

// A device that ends in the middle of it is replaced, and the next one tried.
Task<ModelSupervisor::Error> ModelSupervisor::bring(Managed& managed) {
  const ModelSpec& spec = managed.spec;
  Device& device = device_for(spec);
  managed.device = &device;
  if (device.lost) co_return ServiceError{ServiceErrorCode::kUnavailable, "the device is lost"};
  if (!device.is_gpu()) log_plan(spec);
  for (int tries = 1;; ++tries) {
    const runtime::RefOf<DeviceWorker> worker = device.worker;
    auto asked = worker.ask(protocol::LoadArch{.path = spec.path,
                                               .compute = spec.compute,
                                               .kv_dtype = spec.kv_dtype,
                                               .isa = spec.isa,
                                               .meter = managed.meter},
                            kLoadDeadline);
    const Result<protocol::JobResult<protocol::ArchLoaded>> loaded = co_await asked;
    if (!loaded.ok()) {
      auto pause = runtime::sleep_for(kDeviceChange);
      const Result<void> rested = co_await pause;
      if (rested.ok() && worker != device.worker && tries < kMostDevices) continue;
      co_return ServiceError{ServiceErrorCode::kUnavailable,
                             "the device did not load the model: " + loaded.error().describe()};
    }
    if (worker != device.worker && tries < kMostDevices) continue;
    if (!loaded->ok()) co_return ServiceError{ServiceErrorCode::kInvalid, loaded->error().message, "model"};
    managed.arch = (*loaded)->arch;
    managed.failed_early = false;
    managed.weight_bytes = (*loaded)->weight_bytes;
    if (Error refused = refusal_of_budget(spec, **loaded)) co_return refused;
    const std::shared_ptr<const ServedModel> served = make_served(managed, **loaded);
    log("model '" + spec.name + "' is loaded on " + device.name + ": " + served->card.architecture + ", " +
        std::to_string(served->arch.weight_bytes >> 20) + " MiB of weights, " +
        std::to_string(served->arch.token_bytes) + " bytes of state per token and " +
        std::to_string(served->arch.slot_bytes) + " per snapshot, " +
        std::to_string(served->arch.state_bytes >> 20) + " MiB of state memory");
    Task<std::vector<ServedAdapter>> bringing = bring_adapters(managed);
    std::vector<ServedAdapter> adapters = co_await bringing;
    if ((worker != device.worker || managed.failed_early) && tries < kMostDevices) {
      Task<void> dropping = drop(managed);
      co_await dropping;
      continue;
    }
    directory_->set({served->card, served, "", spec, std::move(adapters), nullptr});
    co_return std::nullopt;
  }
}

ModelSupervisor::Error ModelSupervisor::refusal_of_budget(const ModelSpec& spec,
                                                          const protocol::ArchLoaded& loaded) {
  std::string why = refusal_of(spec.kv);
  if (why.empty() && spec.kv.tokens != 0 && !loaded.no_compaction.empty()) {
    why = "prompts of this model cannot be compacted: " + loaded.no_compaction;
  }
  if (why.empty()) return std::nullopt;
  return ServiceError{ServiceErrorCode::kInvalid, "kv_budget: " + why, "model"};
}

// What it will take, before it is loaded. A file that cannot be read is told of by who loads it.
void ModelSupervisor::log_plan(const ModelSpec& spec) const {
  try {
    const models::ComputeOptions options = models::compute_options(spec.compute, spec.kv_dtype, spec.isa);
    const models::MemoryPlan plan = models::plan_memory(models::Checkpoint::open(spec.path), options);
    log("model '" + spec.name + "' will use: " + models::describe(plan));
    log("model '" + spec.name +
        "' fits: " + models::verdict(plan, available_memory(), options_.worker.state_bytes));
  } catch (const std::exception&) {
  }
}

std::shared_ptr<const ServedModel> ModelSupervisor::make_served(Managed& managed,
                                                                const protocol::ArchLoaded& loaded) {
  auto served = std::make_shared<ServedModel>();
  const models::Checkpoint checkpoint = models::Checkpoint::open(managed.spec.path);
  served->special = checkpoint.config().tokens;
  served->sampling = checkpoint.config().sampling;
  overlay(served->sampling, options_.requests.sampling);
  try {
    served->tokenizer = std::make_shared<const models::Tokenizer>(models::load_tokenizer(managed.spec.path));
  } catch (const models::LoadError& error) {
    log("model '" + managed.spec.name +
        "' has no usable tokenizer and accepts only token ids: " + error.what());
  }
  if (served->tokenizer && !served->tokenizer->covers_all_text()) served->tokenizer.reset();
  served->arch = loaded;
  if (managed.spec.context > 0) served->arch.context = std::min(loaded.context, managed.spec.context);
  if (served->tokenizer) {
    std::vector<TokenId> stops(served->special.eos.begin(), served->special.eos.end());
    if (served->tokenizer->eos()) stops.push_back(*served->tokenizer->eos());
    served->constraints = std::make_shared<ConstraintBook>(served->tokenizer, std::move(stops), loaded.vocab);
  }
  served->worker = managed.device->worker;
  served->limits = options_.requests;
  served->kv = managed.spec.kv;
  served->warn = options_.log;
  ModelCard& card = served->card;
  card.id = managed.spec.name;
  card.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  card.architecture = loaded.architecture;
  card.context = served->arch.context;
  card.vocab = loaded.vocab;
  card.takes_text = served->tokenizer != nullptr;
  card.aliases = managed.spec.aliases;
  card.tags = managed.spec.tags;
  card.file = file_name_of(managed.spec.path);
  card.sampling = resolve({}, served->sampling);
  card.fixed_seed = served->sampling.seed.has_value();
  card.max_tokens = options_.requests.max_tokens;
  card.sequences = options_.worker.max_sequences;
  card.state = ModelCard::State::kReady;
  give_chat(managed, *served);
  if (options_.cache) give_registry(managed, *served);
  served->registry_figures = managed.figures;
  return served;
}

void ModelSupervisor::give_chat(const Managed& managed, ServedModel& served) {
  if (!served.tokenizer) return;
  const std::string& given = managed.spec.chat_template;
  std::optional<std::string> source =
      given.empty() ? models::load_chat_template(managed.spec.path) : std::optional(given);
  bool is_own = given.empty();
  if (!source || source->empty()) {
    if (!options_.requests.assume_chat) return;
    source = *protocol::named_template("chatml");
    is_own = false;
    served.card.chat_is_assumed = true;
    log("model '" + managed.spec.name + "' has no chat template, using ChatML; --chat-template overrides it");
  }
  auto chat = protocol::ChatFormat::make(
      std::move(*source), chat_tokens(served.tokenizer, is_own ? BosBy::kTemplate : BosBy::kTokenizer),
      options_.requests.thinking, options_.requests.system_in_place);
  if (!chat.ok())
    return log("model '" + managed.spec.name +
               "' cannot be used for chats: its chat template is invalid: " + chat.error());
  served.card.chat = std::move(*chat);
}

void ModelSupervisor::give_registry(Managed& managed, ServedModel& served) {
  const protocol::ArchLoaded& loaded = served.arch;
  const RegistrySettings settings = settings_for(options_.registry, loaded.any_token, loaded.slot_bytes);
  served.least_tokens = settings.min_insert_tokens;
  if (!managed.registry || managed.registry.stopped()) {
    RegistryOptions registry{settings};
    registry.cache.grid = loaded.grid;
    registry.cache.any_token = loaded.any_token;
    if (registry.budget_bytes == 0) {
      registry.budget_bytes = loaded.state_bytes;  // whose marks the worker has
    } else {
      registry.evict_percent = options_.worker.pressure.evict;
    }
    registry.figures = managed.figures;
    registry.warn = options_.log;
    registry.tier = tier_;
    const std::uint64_t budget = registry.budget_bytes;
    registry.model = managed.spec.name;
    registry.supervisor = self(*this);
    managed.registry_was_born = false;
    managed.registry =
        spawn<PrefixRegistry>({.name = "registry " + managed.spec.name,
                               .on_failure = runtime::OnFailure::restart(PrefixRegistry::kMostRestarts,
                                                                         PrefixRegistry::kRestartWindow)},
                              std::move(registry));
    watch(*this, managed.registry);
    const std::uint64_t entry = loaded.slot_bytes + 8192 * loaded.token_bytes;
    if (entry * 5 > budget) {
      log("the cache's budget of " + std::to_string(budget >> 20) +
          " MiB holds fewer than five prompts of 8,192 tokens (" + std::to_string(entry >> 20) +
          " MiB each) of model '" + managed.spec.name + "'");
    }
  }
  managed.kind = {.model = loaded.identity,
                  .arithmetic = loaded.arithmetic,
                  .page_bytes = loaded.token_bytes * loaded.page_tokens,
                  .slot_bytes = loaded.slot_bytes,
                  .page_tokens = loaded.page_tokens,
                  .grid = loaded.grid,
                  .any_token = loaded.any_token};
  managed.registry.tell(binding_of(managed));
  served.worker.tell(protocol::AttachRegistry{
      .arch = loaded.arch, .registry = managed.registry, .oldest_use = [figures = managed.figures] {
        return figures->oldest_use_ns.load(std::memory_order_relaxed);
      }});
  served.registry = managed.registry;
  served.turns = turns_;
  served.turn_store = turn_store_;
}

BindRegistry ModelSupervisor::binding_of(const Managed& managed) const {
  const DeviceBoard::Figures figures = managed.device->figures;
  return {.worker = managed.device->worker,
          .arch = managed.arch,
          .kind = managed.kind,
          .seconds_per_token = [figures] { return figures->seconds_per_token(); },
          .device_is_idle = [figures] { return figures->idle(); }};
}

// -- unloading

Task<bool> ModelSupervisor::on(UnloadModel unload) {
  auto found = models_.find(unload.name);
  if (found == models_.end() || found->second.loading) co_return false;
  directory_->remove(unload.name);
  const protocol::ArchId arch = found->second.arch;
  const Device* device = found->second.device;
  if (found->second.registry) found->second.registry.stop();
  models_.erase(found);
  if (device == nullptr) co_return true;  // it never got as far
  auto asked = device->worker.ask(protocol::DropArch{arch}, kLoadDeadline);
  const Result<protocol::ArchDropped> dropped = co_await asked;
  log("model '" + unload.name + "' is unloaded");
  co_return dropped.ok();
}

Task<void> ModelSupervisor::drop(Managed& managed) {
  const protocol::ArchId arch = std::exchange(managed.arch, {});
  if (managed.device == nullptr) co_return;
  auto asked = managed.device->worker.ask(protocol::DropArch{arch}, kLoadDeadline);
  const Result<protocol::ArchDropped> dropped = co_await asked;
  static_cast<void>(dropped);  // a device that does not answer has nothing any more
}

}  // namespace reprise::actors
