#include "actors/model_supervisor.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "actors/models/grammar_cache.h"
#include "actors/request/chat_tokens.h"
#include "base/machine.h"
#include "models/device.h"
#include "models/files/load_error.h"
#include "models/memory_plan.h"
#include "models/text/chat_template_source.h"
#include "models/text/tokenizer_load.h"
#include "protocol/chat/named_templates.h"
#include "runtime/wait.h"

namespace reprise::actors {

using protocol::AdapterCard;
using protocol::ModelCard;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::hours kLoadDeadline{1};
constexpr std::chrono::milliseconds kDeviceChange{500};  // for a failed device to be replaced
constexpr int kMaxDevices = 3;                           // attempts per load

std::string file_name_of(const std::string& path) {
  std::filesystem::path file(path);
  if (!file.has_filename()) file = file.parent_path();  // "folder/"
  return file.filename().string();
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  if (what.empty()) return;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

/// Removes the parent folder of `path`, as given and with links resolved, from an error text for clients: for
/// "/srv/models/qwen", "/srv/models/qwen/config.json: is missing" becomes "qwen/config.json: is missing".
std::string redact_paths(std::string text, const std::string& path) {
  std::error_code unknown;
  for (std::filesystem::path one : {std::filesystem::path(path), std::filesystem::canonical(path, unknown)}) {
    if (!one.has_filename()) one = one.parent_path();  // "folder/"
    const std::string folder = one.parent_path().string();
    replace_all(text, one.string(), one.filename().string());
    if (folder.size() > 1) replace_all(text, folder + "/", "");  // files beside it
  }
  return text;
}

constexpr std::chrono::minutes kAdapterDeadline{10};

AdapterCard card_of(const std::string& model, const ServedAdapter& adapter) {
  return {.model = model,
          .name = adapter.name,
          .matrices = adapter.loaded.matrices,
          .rank = adapter.loaded.rank,
          .bytes = adapter.loaded.bytes,
          .fingerprint = adapter.loaded.fingerprint};
}

ServiceErrorCode code_of(protocol::JobFault fault) {
  switch (fault) {
    case protocol::JobFault::kBadJob:
      return ServiceErrorCode::kInvalid;
    case protocol::JobFault::kNoMemory:
      return ServiceErrorCode::kOverloaded;
    default:
      return ServiceErrorCode::kUnavailable;
  }
}

template <class List>
auto named(List& list, const std::string& name) {
  return std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.name == name; });
}

constexpr std::chrono::milliseconds kWatchPeriod{50};
constexpr std::chrono::milliseconds kLastWords{500};  // for answers to reach their clients

}  // namespace

ModelSupervisor::ModelSupervisor(EngineOptions options, std::shared_ptr<ModelDirectory> directory,
                                 std::shared_ptr<DeviceMetrics> board,
                                 std::shared_ptr<ActiveRequests> requests, std::shared_ptr<Restarts> restarts,
                                 protocol::TierRef tier, protocol::TurnStoreRef turn_store)
    : options_(std::move(options)),
      directory_(std::move(directory)),
      requests_(std::move(requests)),
      restarts_(std::move(restarts)),
      tier_(std::move(tier)),
      turn_store_(std::move(turn_store)),
      devices_(options_.worker, std::move(board), [this](WorkerOptions worker) {
        worker.supervisor = self(*this);
        const std::string name = "device " + worker.device;
        auto spawned = spawn<DeviceWorker>({.name = name, .placement = runtime::Placement::own_thread()},
                                           std::move(worker));
        watch(*this, spawned);
        return spawned;
      }) {}

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
  Managed& managed = models_.at(name);  // stays valid: unloading waits for the load
  Error error{};
  try {
    Task<Error> bringing = bring(managed);
    error = co_await bringing;
  } catch (const std::exception& failure) {  // a file error; what() names the file
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
    publish_state(managed, ModelCard::State::kFailed, redact_paths(error->message, managed.spec.path));
  }
  if (managed.waiting.empty()) return;
  const auto entry = directory_->find(managed.spec.name);
  const LoadModel::Reply loaded = error ? LoadModel::Reply(*error) : LoadModel::Reply(entry->card);
  for (auto& reply : std::exchange(managed.waiting, {})) reply.answer(loaded);
}

// If the device fails meanwhile, tries again on its replacement.
Task<ModelSupervisor::Error> ModelSupervisor::bring(Managed& managed) {
  const ModelSpec& spec = managed.spec;
  SupervisedDevice& device =
      devices_.get(models::Device::resolve(spec.device.empty() ? options_.worker.device : spec.device));
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
      if (rested.ok() && worker != device.worker && tries < kMaxDevices) continue;
      co_return ServiceError{ServiceErrorCode::kUnavailable,
                             "the device did not load the model: " + loaded.error().describe()};
    }
    if (worker != device.worker && tries < kMaxDevices) continue;
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
    const bool registry_failed = managed.registry && managed.registry.stopped();
    if ((worker != device.worker || managed.failed_early || registry_failed) && tries < kMaxDevices) {
      Task<void> dropping = drop(managed);
      co_await dropping;
      continue;
    }
    if (registry_failed)
      co_return ServiceError{ServiceErrorCode::kUnavailable, "its prefix cache failed while it was loaded"};
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

// Logs the expected memory. Ignores unreadable files; loading reports them.
void ModelSupervisor::log_plan(const ModelSpec& spec) const {
  try {
    const models::ComputeOptions options = models::compute_options(spec.compute, spec.kv_dtype, spec.isa);
    const models::MemoryPlan plan = models::plan_memory(models::ModelFiles::open(spec.path), options);
    log("model '" + spec.name + "' will use: " + models::describe(plan));
    log("model '" + spec.name +
        "' fits: " + models::verdict(plan, available_memory(), options_.worker.state_bytes));
  } catch (const std::exception&) {
  }
}

std::shared_ptr<const ServedModel> ModelSupervisor::make_served(Managed& managed,
                                                                const protocol::ArchLoaded& loaded) {
  auto served = std::make_shared<ServedModel>();
  const models::ModelFiles checkpoint = models::ModelFiles::open(managed.spec.path);
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
    served->constraints = std::make_shared<GrammarCache>(served->tokenizer, std::move(stops), loaded.vocab);
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
  const RegistrySettings settings = settings_for(options_.registry, loaded.any_token);
  served.checkpoints = CheckpointRules::of({.grid = loaded.grid,
                                            .any_token = loaded.any_token,
                                            .slot_bytes = loaded.slot_bytes,
                                            .state_bytes = loaded.state_bytes});
  served.checkpoints.reply_every = options_.requests.reply_checkpoint_tokens;
  served.checkpoints.max_in_reply = options_.requests.reply_checkpoints;
  if (!managed.registry || managed.registry.stopped()) {
    RegistryOptions registry{settings};
    registry.cache.grid = loaded.grid;
    registry.cache.any_token = loaded.any_token;
    if (registry.budget_bytes == 0) registry.budget_bytes = loaded.state_bytes;
    registry.figures = managed.figures;
    registry.warn = options_.log;
    registry.tier = tier_;
    const std::uint64_t budget = registry.budget_bytes;
    registry.model = managed.spec.name;
    registry.supervisor = self(*this);
    managed.registry_was_born = false;
    managed.registry =
        spawn<PrefixRegistry>({.name = "registry " + managed.spec.name,
                               .on_failure = runtime::OnFailure::restart(PrefixRegistry::kMaxRestarts,
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
  managed.device->worker.tell(protocol::AttachRegistry{
      .arch = loaded.arch, .registry = managed.registry, .oldest_use = [figures = managed.figures] {
        return figures->oldest_use_ns.load(std::memory_order_relaxed);
      }});
  served.registry = managed.registry;
  served.turns = turns_;
  served.turn_store = turn_store_;
}

BindRegistry ModelSupervisor::binding_of(const Managed& managed) const {
  const DeviceMetrics::Figures figures = managed.device->figures;
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
  const std::uint64_t model = found->second.kind.model;
  const SupervisedDevice* device = found->second.device;
  if (found->second.registry) found->second.registry.stop();
  models_.erase(found);
  if (device == nullptr) co_return true;  // it was never loaded
  auto asked = device->worker.ask(protocol::DropArch{arch}, kLoadDeadline);
  const Result<protocol::ArchDropped> dropped = co_await asked;
  free_states(model, "");
  log("model '" + unload.name + "' is unloaded");
  co_return dropped.ok();
}

// After the device has dropped them: none is being read any more.
void ModelSupervisor::free_states(std::uint64_t model, const std::string& prefix) const {
  const bool is_served = std::any_of(models_.begin(), models_.end(), [&](const auto& other) {
    return other.second.arch && other.second.kind.model == model;
  });
  if (tier_ && (!is_served || !prefix.empty())) tier_.tell(protocol::UnloadStates{model, prefix});
}

Task<void> ModelSupervisor::drop(Managed& managed) {
  const protocol::ArchId arch = std::exchange(managed.arch, {});
  if (managed.device == nullptr) co_return;
  auto asked = managed.device->worker.ask(protocol::DropArch{arch}, kLoadDeadline);
  const Result<protocol::ArchDropped> dropped = co_await asked;
  static_cast<void>(dropped);  // a device that does not answer holds nothing
}

// -- adapters

bool is_adapter_name(const std::string& name) {
  constexpr std::size_t kMaxLength = 256;
  return !name.empty() && name.size() <= kMaxLength && std::none_of(name.begin(), name.end(), [](char c) {
    return c == ':' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

// Returns an adapter that fails to load with its error; the model serves without it.
Task<ServedAdapter> ModelSupervisor::bring_adapter(protocol::OperatorRef worker, protocol::ArchId arch,
                                                   AdapterSpec spec) {
  ServedAdapter adapter{.name = spec.name};
  auto asked = worker.ask(protocol::LoadAdapter{.arch = arch, .path = spec.path}, kAdapterDeadline);
  const protocol::JobResult<protocol::AdapterLoaded> loaded = protocol::answer_of(co_await asked);
  if (loaded.ok()) {
    adapter.loaded = *loaded;
  } else {
    adapter.error = redact_paths(loaded.error().message, spec.path);
    log_error("adapter '" + spec.name + "' cannot be used: " + loaded.error().message);
    adapter.fault = loaded.error().kind;
  }
  co_return adapter;
}

Task<std::vector<ServedAdapter>> ModelSupervisor::bring_adapters(const Managed& managed) {
  std::vector<ServedAdapter> adapters;
  const std::vector<AdapterSpec> specs = managed.spec.adapters;
  for (const AdapterSpec& spec : specs) {
    Task<ServedAdapter> bringing = bring_adapter(managed.device->worker, managed.arch, spec);
    ServedAdapter adapter = co_await bringing;
    if (adapter.ready()) {
      log("adapter '" + spec.name + "' of model '" + managed.spec.name + "' is loaded: rank " +
          std::to_string(adapter.loaded.rank) + ", " + std::to_string(adapter.loaded.bytes >> 10) + " KiB");
    }
    adapters.push_back(std::move(adapter));
  }
  co_return adapters;
}

Task<LoadModelAdapter::Reply> ModelSupervisor::on(LoadModelAdapter load) {
  const auto refuse = [](ServiceErrorCode code, std::string why) {
    return LoadModelAdapter::Reply(ServiceError{code, std::move(why), "name"});
  };
  if (!load.refused.empty()) {
    co_return LoadModelAdapter::Reply(ServiceError{ServiceErrorCode::kInvalid, load.refused, "path"});
  }
  const std::string model = load.model;
  std::optional<ModelDirectory::Entry> entry = directory_->find(model);
  if (!entry) co_return refuse(ServiceErrorCode::kUnknownModel, "there is no model '" + model + "'");
  const auto found = models_.find(entry->card.id);
  if (found == models_.end() || found->second.loading || !entry->model) {
    co_return refuse(ServiceErrorCode::kUnavailable, "model '" + entry->card.id + "' is not ready");
  }
  Managed& managed = found->second;
  AdapterSpec spec = load.spec;
  if (!is_adapter_name(spec.name)) {
    co_return refuse(
        ServiceErrorCode::kInvalid,
        "name: an adapter's name must have 1 to 256 characters, without colons and control characters");
  }
  const auto known = named(managed.configured, spec.name);
  if (spec.path.empty()) {
    if (known == managed.configured.end()) {
      co_return refuse(ServiceErrorCode::kUnknownModel, "the configuration of model '" + managed.spec.name +
                                                            "' has no adapter '" + spec.name + "'");
    }
    spec.path = known->path;
  }
  if (const auto there = named(managed.spec.adapters, spec.name); there != managed.spec.adapters.end()) {
    const auto served = named(entry->adapters, spec.name);
    if (there->path != spec.path) {
      co_return refuse(ServiceErrorCode::kInvalid,
                       "adapter '" + spec.name + "' is already loaded from another path; unload it first");
    }
    if (served != entry->adapters.end() && served->ready()) {
      co_return LoadModelAdapter::Reply(card_of(managed.spec.name, *served));
    }
  }
  if (!managed.adapters_changing.insert(spec.name).second) {
    co_return refuse(ServiceErrorCode::kUnavailable,
                     "adapter '" + spec.name + "' is being loaded or unloaded; try again later");
  }
  const std::string name = managed.spec.name;
  const protocol::ArchId arch = managed.arch;
  Task<ServedAdapter> bringing = bring_adapter(managed.device->worker, arch, spec);
  const ServedAdapter adapter = co_await bringing;
  // The model may have been unloaded meanwhile, or reloaded without this adapter.
  const auto now = models_.find(name);
  if (now == models_.end()) co_return refuse(ServiceErrorCode::kUnavailable, "the model was unloaded");
  now->second.adapters_changing.erase(spec.name);
  if (!adapter.ready()) co_return refuse(code_of(adapter.fault), adapter.error);
  if (now->second.arch != arch)
    co_return refuse(ServiceErrorCode::kUnavailable, "the model was reloaded meanwhile; try again");
  std::vector<AdapterSpec>& specs = now->second.spec.adapters;
  std::erase_if(specs, [&](const AdapterSpec& one) { return one.name == spec.name; });
  specs.push_back(spec);
  directory_->change(name, [&](ModelDirectory::Entry& one) {
    std::erase_if(one.adapters, [&](const ServedAdapter& other) { return other.name == spec.name; });
    one.adapters.push_back(adapter);
    one.spec = now->second.spec;
  });
  log("adapter '" + spec.name + "' of model '" + name + "' is loaded");
  co_return LoadModelAdapter::Reply(card_of(name, adapter));
}

// Removes it from the directory first, then tells its requests, then frees what it held.
Task<UnloadModelAdapter::Reply> ModelSupervisor::on(UnloadModelAdapter unload) {
  const auto refuse = [](ServiceErrorCode code, std::string why) {
    return UnloadModelAdapter::Reply(ServiceError{code, std::move(why), "name"});
  };
  const std::optional<ModelDirectory::Entry> entry = directory_->find(unload.model);
  if (!entry) co_return refuse(ServiceErrorCode::kUnknownModel, "there is no model '" + unload.model + "'");
  const auto found = models_.find(entry->card.id);
  const auto served = named(entry->adapters, unload.name);
  if (found == models_.end() || served == entry->adapters.end()) {
    co_return refuse(ServiceErrorCode::kUnknownModel,
                     "model '" + entry->card.id + "' has no adapter '" + unload.name + "'");
  }
  Managed& managed = found->second;
  if (managed.loading || !managed.adapters_changing.insert(unload.name).second) {
    co_return refuse(ServiceErrorCode::kUnavailable,
                     "adapter '" + unload.name + "' is being loaded or unloaded; try again later");
  }
  const ServedAdapter& adapter = *served;
  const std::string name = managed.spec.name;
  std::erase_if(managed.spec.adapters, [&](const AdapterSpec& one) { return one.name == unload.name; });
  directory_->change(name, [&](ModelDirectory::Entry& one) {
    std::erase_if(one.adapters, [&](const ServedAdapter& other) { return other.name == unload.name; });
    one.spec = managed.spec;
  });
  const runtime::RefOf<PrefixRegistry> registry = managed.registry;
  const std::uint64_t model = managed.kind.model;
  if (adapter.ready()) {
    requests_->tell_all({.why = "adapter '" + unload.name + "' of model '" + name + "' was unloaded",
                         .worker = managed.device->worker.id(),
                         .adapter = adapter.loaded.adapter});
    auto dropping = managed.device->worker.ask(protocol::DropAdapter{.adapter = adapter.loaded.adapter},
                                               kAdapterDeadline);
    const Result<protocol::AdapterDropped> dropped = co_await dropping;
    static_cast<void>(dropped);  // a device that does not answer holds nothing
    if (registry) {
      auto forgetting =
          registry.ask(protocol::DropNamespaces{.prefix = adapter.name_space()}, kAdapterDeadline);
      const Result<protocol::Nothing> forgotten = co_await forgetting;
      static_cast<void>(forgotten);  // a restarted registry is empty anyway
      free_states(model, adapter.name_space());
    }
  }
  if (const auto now = models_.find(name); now != models_.end())
    now->second.adapters_changing.erase(unload.name);
  log("adapter '" + unload.name + "' of model '" + name + "' is unloaded");
  co_return UnloadModelAdapter::Reply(card_of(name, adapter));
}

// -- failure of a model

void ModelSupervisor::on(protocol::ArchFailed failed) {
  if (failed.device_lost) {
    SupervisedDevice* device = devices_.find(failed.device);
    if (device != nullptr) launch(lose_device(*device, failed.why));
    return;
  }
  for (auto& [name, managed] : models_) {
    if (managed.arch != failed.arch) continue;
    if (managed.loading) {
      managed.failed_early = true;
    } else {
      managed.loading = true;
      launch(reload(name, failed.why));
    }
  }
}

Task<void> ModelSupervisor::reload(std::string name, std::string why) {
  Managed& managed = models_.at(name);
  Error error{};
  try {
    Task<Error> reloading = reload_within_limits(managed, why);
    error = co_await reloading;
  } catch (const std::exception& failure) {
    error = ServiceError{ServiceErrorCode::kUnavailable, failure.what()};
  }
  if (error) {
    end_load(managed, error);
  } else {
    Task<void> loading = load(name);
    co_await loading;
  }
}

// Drops the model before a reload, or returns an error if it was reloaded too often.
Task<ModelSupervisor::Error> ModelSupervisor::reload_within_limits(Managed& managed, const std::string& why) {
  const runtime::TimePoint now = runtime::Clock::now();
  while (!managed.reloads.empty() && now - managed.reloads.front() > options_.reload_window) {
    managed.reloads.pop_front();
  }
  log_error("model '" + managed.spec.name + "' has failed: " + why);
  const bool too_often = managed.reloads.size() >= options_.max_reloads;
  if (!too_often) {
    managed.reloads.push_back(now);
    publish_state(managed, ModelCard::State::kLoading, "is being reloaded after a fault: " + why);
  }
  Task<void> dropping = drop(managed);
  co_await dropping;
  if (too_often) co_return ServiceError{ServiceErrorCode::kUnavailable, "failed too often: " + why};
  co_return std::nullopt;
}

Task<void> ModelSupervisor::give_up(std::string name, std::string why) {
  Managed& managed = models_.at(name);
  publish_state(managed, ModelCard::State::kFailed, why);
  Task<void> dropping = drop(managed);
  co_await dropping;
  auto asked_meanwhile = std::exchange(managed.waiting, {});
  end_load(managed, ServiceError{ServiceErrorCode::kUnavailable, why});
  if (asked_meanwhile.empty()) co_return;
  managed.waiting = std::move(asked_meanwhile);
  begin_load(managed, managed.spec);
}

// -- failure of a registry

void ModelSupervisor::on(RegistryStarted started) {
  const auto found = models_.find(started.model);
  if (found == models_.end()) return;
  Managed& managed = found->second;
  if (!std::exchange(managed.registry_was_born, true)) return;  // it was bound at creation
  restarts_->registries.note_restart();
  log("the prefix cache of model '" + started.model + "' has failed and was restarted empty");
  if (managed.arch) {
    managed.registry.tell(binding_of(managed));
  }
}

void ModelSupervisor::on(runtime::Down down) {
  if (SupervisedDevice* device = devices_.with_worker(down.who)) {
    if (!device->lost) replace_worker(*device, "the device's worker failed: " + down.why);
    return;
  }
  for (auto& [name, managed] : models_) {
    if (!managed.registry || managed.registry.id() != down.who || managed.loading) continue;
    managed.loading = true;
    launch(give_up(name, "its prefix cache failed too often: " + down.why));
  }
}

// -- failure of a device

void ModelSupervisor::replace_worker(SupervisedDevice& device, const std::string& why) {
  log(device.name + ": " + why);
  requests_->tell_all({.why = why, .worker = device.worker.id()});
  restarts_->devices.note_restart();
  devices_.replace_worker(device);
  for (auto& [name, managed] : models_) {
    if (managed.device != &device || managed.loading || !managed.arch) continue;
    managed.loading = true;
    launch(reload(name, why));
  }
}

// A hung device does not answer, so it is watched from here.
Task<void> ModelSupervisor::watch_workers() {
  for (;;) {
    auto pause = runtime::sleep_for(kWatchPeriod);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) co_return;
    for (auto& [name, device] : devices_.all()) {
      if (!device.lost) look_at(device);
    }
  }
}

void ModelSupervisor::look_at(SupervisedDevice& device) {
  StepPatience patience{.floor = options_.max_step, .on_gpu = device.is_gpu()};
  for (const auto& [name, managed] : models_) {
    if (managed.device == &device) {
      patience.weight_bytes = std::max(patience.weight_bytes, managed.weight_bytes);
    }
  }
  const std::string why =
      SupervisedDevices::hang_of(device, patience, runtime::Clock::now().time_since_epoch());
  if (why.empty()) return;
  if (device.is_gpu()) {
    launch(lose_device(device, why));
  } else {
    replace_worker(device, why);
  }
}

Task<void> ModelSupervisor::lose_device(SupervisedDevice& device, std::string why) {
  if (std::exchange(device.lost, true)) co_return;
  log_error(device.name + ": the device is lost: " + why);
  for (auto& [name, managed] : models_) {
    if (managed.device != &device) continue;
    managed.arch = {};
    publish_state(managed, ModelCard::State::kFailed, "the device is lost: " + why);
  }
  requests_->tell_all({.why = why, .worker = device.worker.id()});
  auto pause = runtime::sleep_for(kLastWords);
  const Result<void> rested = co_await pause;
  static_cast<void>(rested);
  if (options_.device_lost) options_.device_lost(why);
}

}  // namespace reprise::actors
