#include "actors/engine.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>

#include "actors/model_supervisor.h"
#include "actors/models/model_directory.h"
#include "actors/request/text_pool.h"
#include "actors/tiers/host_tier.h"
#include "actors/tiers/store_io.h"
#include "actors/tiers/store_tier.h"
#include "actors/tiers/tier_stack.h"
#include "base/bounded_count.h"
#include "models/device.h"
#include "protocol/named_snapshots.h"
#include "runtime/system.h"

namespace reprise::actors {

using protocol::Error;
using protocol::ErrorKind;
using protocol::Event;
using protocol::Figure;
using protocol::ModelCard;
using runtime::Result;
using runtime::Task;

struct Engine::Parts {
  Parts(runtime::System& host, EngineOptions engine_options);
  void spawn_tiers();
  /// Loads the snapshot names from that tier's store, and stores changes there.
  void keep_names(const TierSettings& settings, const runtime::RefOf<StoreTier>& tier) const;

  runtime::System& system;
  const EngineOptions options;
  const std::shared_ptr<ModelDirectory> directory = std::make_shared<ModelDirectory>();
  const std::shared_ptr<DeviceMetrics> board = std::make_shared<DeviceMetrics>();
  const std::shared_ptr<ActiveRequests> requests = std::make_shared<ActiveRequests>();
  std::atomic<std::uint64_t> requests_begun{0};  // source of request numbers
  const std::shared_ptr<BoundedCount> running;
  const std::shared_ptr<BoundedCount> idle;
  const std::shared_ptr<Restarts> restarts;
  const std::shared_ptr<const TextPool> texts;
  const std::shared_ptr<const TextPool> mask_makers;
  /// Lower tiers, from nearest to farthest.
  struct LowerTier {
    protocol::Tier tier{};
    std::shared_ptr<TierFigures> figures{};
    protocol::OneTierRef actor{};
  };
  std::vector<LowerTier> tiers{};
  const std::shared_ptr<protocol::NamedSnapshots> names = std::make_shared<protocol::NamedSnapshots>();
  runtime::RefOf<TierStack> all_tiers;  // null: none
  runtime::RefOf<ModelSupervisor> supervisor;
};

namespace {

constexpr std::chrono::minutes kAdapterTime{10};
constexpr std::chrono::seconds kViewTime{10};
constexpr std::chrono::minutes kDeskTime{30};  // for loading or unloading a model

std::uint64_t read(const std::atomic<std::uint64_t>& figure) {
  return figure.load(std::memory_order_relaxed);
}

/// Returns the pinned transfer buffers of the default device, or of a model's; GPUs share them.
std::shared_ptr<gpu::TransferBuffers> buffers_for(const EngineOptions& options) {
  const std::uint64_t most = std::max(options.host.max_bytes > 0 ? options.host.loading_bytes : 0,
                                      options.disk.folder.empty() ? 0 : options.disk.loading_bytes);
  auto buffers = models::transfer_buffers(options.worker.device, most);
  for (const ModelSpec& spec : options.models) {
    if (!buffers && !spec.device.empty()) buffers = models::transfer_buffers(spec.device, most);
  }
  return buffers;
}

}  // namespace

Engine::Parts::Parts(runtime::System& host, EngineOptions engine_options)
    : system(host),
      options(std::move(engine_options)),
      running(std::make_shared<BoundedCount>(options.max_requests)),
      idle(std::make_shared<BoundedCount>(options.max_idle)),
      restarts(std::make_shared<Restarts>(TextPool::size_for(system.workers()) + TextPool::kMaskMakers)),
      texts(std::make_shared<const TextPool>(system, TextPool::size_for(system.workers()),
                                             TextPool::limits_for(TextPool::size_for(system.workers())),
                                             directory, restarts)),
      mask_makers(std::make_shared<const TextPool>(system, TextPool::kMaskMakers,
                                                   TextPool::limits_for_masks(options.max_requests),
                                                   directory, restarts)) {
  for (const ModelSpec& spec : options.models) {
    protocol::ModelCard card;
    card.id = spec.name;
    directory->set({std::move(card), nullptr, "is being loaded", spec});
  }
  if (options.cache) spawn_tiers();
  // At its start it loads the models in the directory.
  supervisor =
      system.spawn<ModelSupervisor>({.placement = runtime::Placement::own_thread(),
                                     .on_failure = runtime::OnFailure::restart(
                                         ModelSupervisor::kMaxRestarts, ModelSupervisor::kRestartWindow)},
                                    options, directory, board, requests, restarts,
                                    all_tiers ? protocol::TierRef(all_tiers) : protocol::TierRef(),
                                    all_tiers ? protocol::TurnStoreRef(all_tiers) : protocol::TurnStoreRef());
}

void Engine::Parts::spawn_tiers() {
  using runtime::OnFailure;
  const auto figures_of = [&](protocol::Tier tier) {
    tiers.push_back({.tier = tier, .figures = std::make_shared<TierFigures>()});
    return tiers.back().figures;
  };
  const std::shared_ptr<gpu::TransferBuffers> buffers = buffers_for(options);
  std::vector<protocol::TurnStoreRef> turn_stores;
  runtime::Ref<protocol::UnloadStates> host;
  if (options.host.max_bytes > 0) {
    HostTierSettings settings = options.host;
    if (!settings.buffers) settings.buffers = buffers;
    if (!settings.log) settings.log = options.log;
    const auto figures = figures_of(protocol::Tier::kHost);
    const auto tier = system.spawn<HostTier>(
        {.placement = runtime::Placement::own_thread(),
         .on_failure = OnFailure::restart(HostTier::kMaxRestarts, HostTier::kRestartWindow)},
        std::move(settings), figures);
    tiers.back().actor = tier;
    host = tier;
  }
  const auto add_store = [&](TierSettings settings) {
    if (!settings.buffers) settings.buffers = buffers;
    if (!settings.log) settings.log = options.log;
    const auto figures = figures_of(settings.tier);
    const auto tier = system.spawn<StoreTier>(
        {.on_failure = OnFailure::restart(StoreTier::kMaxRestarts, StoreTier::kRestartWindow)}, settings,
        figures);
    tiers.back().actor = tier;
    turn_stores.emplace_back(tier);
    if (settings.tier == protocol::Tier::kDisk) keep_names(settings, tier);
  };
  if (!options.disk.folder.empty()) add_store(tier_settings(options.disk));
  if (options.remote.redis) add_store(tier_settings(options.remote));
  if (tiers.empty()) return;
  std::vector<protocol::OneTierRef> refs;
  for (const LowerTier& lower : tiers) refs.emplace_back(lower.actor);
  all_tiers = system.spawn<TierStack>(
      {.on_failure = runtime::OnFailure::restart(TierStack::kMaxRestarts, TierStack::kRestartWindow)},
      std::move(refs), turn_stores, host);
}

void Engine::Parts::keep_names(const TierSettings& settings, const runtime::RefOf<StoreTier>& tier) const {
  const auto store = settings.open_store();
  names->load(read_names(*store, settings.master_key), std::time(nullptr));
  names->set_listener([store_of_names = runtime::Ref<protocol::NameChange>(tier)](
                          protocol::NameChange change) { store_of_names.tell(std::move(change)); });
}

Engine::Engine(runtime::System& system, EngineOptions options)
    : parts_(std::make_unique<Parts>(system, std::move(options))) {}

Engine::~Engine() {
  parts_->names->set_listener({});
  parts_->requests->tell_all({.why = "the engine is shutting down"});
  parts_->supervisor.stop();  // stops devices and registries, too
  if (parts_->all_tiers) parts_->all_tiers.stop();
  for (const Parts::LowerTier& lower : parts_->tiers) lower.actor.stop();
}

runtime::StreamReader<Event> Engine::generate(protocol::GenerateRequest request) {
  auto [writer, reader] = runtime::make_stream<Event>(protocol::kEventWindow);
  const bool ends_trace = !request.origin.trace;  // otherwise the caller ends it
  if (ends_trace)
    request.origin.trace =
        traces::RequestTrace(request.origin.id.empty() ? "nameless" : request.origin.id, "asked");
  const auto refuse = [&writer = writer](Error error) {
    Event event = protocol::Failed{std::move(error)};
    static_cast<void>(writer.try_write(event));
    writer.close();
  };
  auto found = choose_model(*parts_->directory, request.model, request.adapter);
  const std::uint32_t choices = std::clamp(request.n, 1U, parts_->options.requests.max_choices);
  std::shared_ptr<void> slot = parts_->running->take(choices);
  if (auto* error = std::get_if<Error>(&found)) {
    refuse(std::move(*error));
  } else if (!slot) {
    refuse({ErrorKind::kOverloaded,
            "the server has reached its limit of requests answered at once (http.max_requests)", "",
            std::chrono::seconds(1)});
  } else {
    try {
      auto& choice = std::get<ModelChoice>(found);
      std::string name_space = choice.name_space(request.cache.name_space);
      std::string name = choice.name();
      const std::hash<std::string> number;
      const std::uint64_t tenant = request.origin.tenant.empty() ? 0 : number(request.origin.tenant);
      const std::uint64_t group = request.origin.id.empty() ? 0 : number(request.origin.id);
      auto meter = std::make_shared<RequestMeter>(++parts_->requests_begun, name);
      std::string reply_id = request.origin.reply_id;
      std::string tenant_name = request.origin.tenant;
      auto actor = parts_->system.spawn<RequestActor>(
          {}, RequestJob{.request = std::make_shared<const protocol::GenerateRequest>(std::move(request)),
                         .model = std::move(choice.model),
                         .adapter = std::move(choice.adapter),
                         .name = std::move(name),
                         .name_space = std::move(name_space),
                         .out = std::move(writer),
                         .texts = parts_->texts,
                         .mask_makers = parts_->mask_makers,
                         .tenant = tenant,
                         .group = group,
                         .slot = std::move(slot),
                         .idle_slot = parts_->idle->take(),
                         .ends_trace = ends_trace,
                         .meter = meter});
      parts_->requests->add({.request = std::move(actor),
                             .meter = std::move(meter),
                             .reply_id = std::move(reply_id),
                             .tenant = std::move(tenant_name)});
    } catch (const std::exception& error) {
      // The job, including the writer, was destroyed with the failed actor, so the stream has ended.
    }
  }
  return std::move(reader);
}

runtime::Ask<protocol::Answer<protocol::Tokenized>> Engine::tokenize(protocol::TokenizeRequest request) {
  return parts_->texts->ask(TokenizeJob{std::move(request)});
}
runtime::Ask<protocol::Answer<protocol::Detokenized>> Engine::detokenize(
    protocol::DetokenizeRequest request) {
  return parts_->texts->ask(DetokenizeJob{std::move(request)});
}
runtime::Ask<protocol::Answer<protocol::Rendered>> Engine::render(protocol::RenderRequest request) {
  return parts_->texts->ask(RenderJob{std::move(request)});
}

// -- inspection

std::vector<protocol::ModelCard> Engine::models() const {
  std::vector<protocol::ModelCard> cards;
  for (const ModelDirectory::Entry& entry : parts_->directory->all()) {
    cards.push_back(entry.card);
    if (entry.meter) cards.back().loaded_permille = entry.meter->permille.load(std::memory_order_relaxed);
    for (const ServedAdapter& adapter : entry.adapters) {
      protocol::ModelCard card = entry.card;
      card.id += ":" + adapter.name;
      for (std::string& alias : card.aliases) alias += ":" + adapter.name;
      card.parent = entry.card.id;
      if (!adapter.ready()) {
        card.state = protocol::ModelCard::State::kFailed;
        card.problem = adapter.error;
      }
      cards.push_back(std::move(card));
    }
  }
  return cards;
}

protocol::Health Engine::health() const {
  std::string problems;
  const auto problem = [&](const std::string& text) { problems += (problems.empty() ? "" : "; ") + text; };
  if (parts_->supervisor.stopped()) {
    problem("the engine has failed too often and was stopped; restart the server");
  } else if (parts_->supervisor.cell()->life() == runtime::Cell::Life::kRestarting) {
    problem("the engine has failed and is restarting");
  }
  const auto entries = parts_->directory->all();
  if (entries.empty()) problem("no model is loaded");
  for (const ModelDirectory::Entry& entry : entries) {
    if (!entry.model) problem("model '" + entry.card.id + "' " + entry.detail);
    if (entry.card.state == protocol::ModelCard::State::kLoading && entry.meter) {
      problems += " (" + std::to_string(entry.meter->permille.load(std::memory_order_relaxed) / 10) + " %)";
    }
    for (const ServedAdapter& adapter : entry.adapters) {
      if (!adapter.ready()) {
        problem("adapter '" + adapter.name + "' of model '" + entry.card.id +
                "' cannot be used: " + adapter.error);
      }
    }
  }
  if (parts_->texts->failed() || parts_->mask_makers->failed() || parts_->restarts->texts.too_often()) {
    problem("the tokenizer and template actors fail repeatedly");
  }
  if (const auto stuck = parts_->texts->problem()) problem(*stuck);
  if (const auto stuck = parts_->mask_makers->problem()) problem(*stuck);
  const bool ready = problems.empty();
  return {.ready = ready, .detail = std::move(problems)};
}

std::shared_ptr<protocol::NamedSnapshots> Engine::named_snapshots() {
  return parts_->names;
}

std::vector<protocol::RunningRequest> Engine::running() const {
  return parts_->requests->running();
}

bool Engine::end_reasoning(const std::string& reply_id, const std::string& tenant) {
  return parts_->requests->end_reasoning(reply_id, tenant);
}

std::size_t Engine::running_requests() const {
  return parts_->requests->size();
}

const WorkerFigures& Engine::device_figures(const std::string& device) const {
  return *parts_->board->of(device);
}

// -- models

Engine::Loaded Engine::load(ModelSpec spec, std::chrono::milliseconds timeout) {
  Result<LoadModel::Reply> loaded = parts_->supervisor.ask_blocking(LoadModel{std::move(spec)}, timeout);
  if (loaded.ok()) return std::move(*loaded);
  return Error{ErrorKind::kUnavailable, loaded.error().describe()};
}

runtime::Ask<Engine::Loaded> Engine::ask_load(ModelSpec spec, std::chrono::milliseconds timeout) {
  return parts_->supervisor.ask(LoadModel{std::move(spec)}, timeout);
}

bool Engine::unload(const std::string& name, std::chrono::milliseconds timeout) {
  const Result<bool> unloaded = parts_->supervisor.ask_blocking(UnloadModel{name}, timeout);
  return unloaded.ok() && *unloaded;
}

Engine::AdapterAnswer Engine::load_adapter(const std::string& model, AdapterSpec spec,
                                           std::chrono::milliseconds timeout) {
  Result<AdapterAnswer> loaded =
      parts_->supervisor.ask_blocking(LoadModelAdapter{model, std::move(spec)}, timeout);
  if (loaded.ok()) return std::move(*loaded);
  return Error{ErrorKind::kUnavailable, loaded.error().describe()};
}

Engine::AdapterAnswer Engine::unload_adapter(const std::string& model, const std::string& name,
                                             std::chrono::milliseconds timeout) {
  Result<AdapterAnswer> unloaded = parts_->supervisor.ask_blocking(UnloadModelAdapter{model, name}, timeout);
  if (unloaded.ok()) return std::move(*unloaded);
  return Error{ErrorKind::kUnavailable, unloaded.error().describe()};
}

// Checks that a path from outside is inside the adapter folder, because the supervisor trusts its senders.
runtime::Ask<Engine::AdapterAnswer> Engine::load_adapter(protocol::AdapterRequest request) {
  LoadModelAdapter load{.model = std::move(request.model),
                        .spec = {.name = std::move(request.name), .path = {}}};
  if (!request.path.empty()) {
    const std::filesystem::path path = std::filesystem::path(request.path).lexically_normal();
    const bool inside = path.is_relative() && !path.empty() && *path.begin() != "..";
    if (parts_->options.adapter_folder.empty() || !inside) {
      load.refused = parts_->options.adapter_folder.empty()
                         ? "path: not allowed, because engine.adapter_folder is not set on this server"
                         : "path: must be relative to engine.adapter_folder and inside it";
    } else {
      load.spec.path = (std::filesystem::path(parts_->options.adapter_folder) / path).string();
    }
  }
  return parts_->supervisor.ask(std::move(load), kAdapterTime);
}

runtime::Ask<Engine::AdapterAnswer> Engine::unload_adapter(protocol::AdapterRequest request) {
  return parts_->supervisor.ask(UnloadModelAdapter{std::move(request.model), std::move(request.name)},
                                kAdapterTime);
}

std::optional<Error> Engine::wait_until_ready(std::chrono::milliseconds timeout) {
  const runtime::TimePoint deadline = runtime::deadline_after(timeout);
  for (const ModelSpec& spec : parts_->options.models) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - runtime::Clock::now());
    auto loaded = load(spec, left);
    if (!loaded.ok()) return loaded.error();
    const auto entry = parts_->directory->find(spec.name);
    if (!entry) continue;
    for (const ServedAdapter& adapter : entry->adapters) {
      if (!adapter.ready()) return Error{ErrorKind::kInvalid, adapter.error, "adapters"};
    }
  }
  return std::nullopt;
}

// -- operator requests (protocol/server_admin.h)

namespace {

protocol::CacheCounts counts_of(const RegistryFigures& figures) {
  protocol::CacheCounts out{.bytes = read(figures.adopted_bytes),
                            .budget_bytes = read(figures.budget_bytes),
                            .entries = read(figures.entries),
                            .path_tokens = read(figures.path_tokens),
                            .computing = read(figures.flights),
                            .lookups = read(figures.lookups),
                            .prompt_tokens = read(figures.prompt_tokens),
                            .restored_tokens = read(figures.restored_tokens),
                            .evicted = read(figures.evicted),
                            .expired = read(figures.expired),
                            .superseded = read(figures.superseded)};
  std::ranges::transform(figures.by_reason, out.by_reason.begin(), read);
  std::ranges::transform(figures.lost_tokens, out.lost_tokens.begin(), read);
  std::ranges::transform(figures.hits_by_origin, out.hits.begin(), read);
  std::ranges::transform(figures.inserts_by_origin, out.inserts.begin(), read);
  return out;
}

Error no_such_model(const std::string& name, const EngineOptions& options) {
  std::string known;
  for (const ModelSpec& spec : options.models) known += (known.empty() ? "'" : ", '") + spec.name + "'";
  return {ErrorKind::kUnknownModel,
          "the configuration has no model '" + name + "'" + (known.empty() ? "" : "; configured: " + known),
          "model"};
}

}  // namespace

Task<protocol::ServerCache> Engine::view_cache(protocol::CacheScope scope, std::uint32_t max_nodes) {
  protocol::ServerCache out;
  const std::vector<ModelDirectory::Entry> entries = parts_->directory->all();
  for (const ModelDirectory::Entry& entry : entries) {
    protocol::ModelCache model{.model = entry.card.id, .state = std::string(name_of(entry.card.state))};
    if (entry.model && entry.model->registry) {
      auto asked =
          entry.model->registry.ask(protocol::ViewCache{.scope = scope, .max_nodes = max_nodes}, kViewTime);
      Result<protocol::CacheView> view = co_await asked;
      model.cached = view.ok();
      if (view.ok()) model.view = std::move(*view);
      if (scope.all) model.counts = counts_of(*entry.model->registry_figures);
      for (const protocol::ViewedSpace& space : model.view.spaces) {
        max_nodes -= std::min(max_nodes, static_cast<std::uint32_t>(space.nodes.size()));
      }
    }
    out.models.push_back(std::move(model));
  }
  for (const ModelSpec& spec : parts_->options.models) {
    const auto is_it = [&](const protocol::ModelCache& model) { return model.model == spec.name; };
    if (std::ranges::none_of(out.models, is_it)) {
      out.models.push_back({.model = spec.name, .state = "unloaded"});
    }
  }
  if (scope.all) {
    for (const Parts::LowerTier& lower : parts_->tiers) {
      out.tiers.push_back({.tier = lower.tier,
                           .off = read(lower.figures->off) != 0,
                           .bytes = read(lower.figures->bytes),
                           .budget_bytes = read(lower.figures->budget_bytes),
                           .stored = read(lower.figures->stored),
                           .loaded = read(lower.figures->loaded),
                           .evicted = read(lower.figures->evicted)});
    }
  }
  co_return out;
}

Task<protocol::Answer<std::uint64_t>> Engine::drop_cache(std::string model) {
  const auto entry = parts_->directory->find(model);
  if (!entry || !entry->model) {
    co_return Error{ErrorKind::kUnknownModel, "there is no model '" + model + "'", "model"};
  }
  if (!entry->model->registry) co_return std::uint64_t{0};
  const std::uint64_t before = read(entry->model->registry_figures->entries);
  auto asked = entry->model->registry.ask(protocol::DropNamespaces{}, kViewTime);
  const Result<protocol::Nothing> dropped = co_await asked;
  if (!dropped.ok()) {
    co_return Error{ErrorKind::kUnavailable, dropped.error().describe()};
  }
  const std::uint64_t after = read(entry->model->registry_figures->entries);
  co_return before - std::min(before, after);
}

Task<protocol::Answer<ModelCard>> Engine::load_model(std::string name) {
  const auto spec = std::ranges::find(parts_->options.models, name, &ModelSpec::name);
  if (spec == parts_->options.models.end()) co_return no_such_model(name, parts_->options);
  auto asked = ask_load(*spec, kDeskTime);
  const Result<Loaded> loaded = co_await asked;
  if (!loaded.ok()) co_return Error{ErrorKind::kUnavailable, loaded.error().describe()};
  if (!loaded->ok()) co_return loaded->error();
  co_return **loaded;
}

Task<protocol::Answer<std::string>> Engine::unload_model(std::string name) {
  const auto entry = parts_->directory->find(name);
  if (name.empty() || !entry) {
    const auto spec = std::ranges::find(parts_->options.models, name, &ModelSpec::name);
    if (spec == parts_->options.models.end()) co_return no_such_model(name, parts_->options);
    co_return name;  // already unloaded
  }
  auto asked = parts_->supervisor.ask(UnloadModel{name}, kDeskTime);
  const Result<bool> unloaded = co_await asked;
  if (!unloaded.ok()) co_return Error{ErrorKind::kUnavailable, unloaded.error().describe()};
  if (!*unloaded) {
    co_return Error{ErrorKind::kUnavailable, "model '" + name + "' is being loaded", "model"};
  }
  co_return name;
}

// -- figures, with Prometheus names

namespace {

class Listing {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  template <class Value>
  void counter(const char* name, const char* help, const Value& value, Labels labels = {}) {
    add(Figure::Kind::kCounter, name, help, value, std::move(labels));
  }
  template <class Value>
  void gauge(const char* name, const char* help, const Value& value, Labels labels = {}) {
    add(Figure::Kind::kGauge, name, help, value, std::move(labels));
  }
  std::vector<Figure> take() { return std::move(figures_); }

 private:
  template <class Value>
  void add(Figure::Kind kind, const char* name, const char* help, const Value& value, Labels labels) {
    figures_.push_back(
        {kind, std::string("reprise_") + name, help, std::move(labels), static_cast<double>(value)});
  }
  std::vector<Figure> figures_;
};

/// Sums figures over all devices.
class Together {
 public:
  explicit Together(const std::map<std::string, DeviceMetrics::Figures>& devices) : devices_(devices) {}

  std::uint64_t operator()(std::atomic<std::uint64_t> WorkerFigures::*figure) const {
    std::uint64_t sum = 0;
    for (const auto& [name, figures] : devices_) sum += read((*figures).*figure);
    return sum;
  }

 private:
  const std::map<std::string, DeviceMetrics::Figures>& devices_;
};

void list_devices(const std::map<std::string, DeviceMetrics::Figures>& devices, Listing& list) {
  const Together all(devices);
  list.counter("steps_total", "Steps computed, over all devices.", all(&WorkerFigures::steps));
  list.counter("prefill_tokens_total", "Prompt tokens computed.", all(&WorkerFigures::prefill_tokens));
  list.counter("decode_tokens_total", "Reply tokens decoded.", all(&WorkerFigures::decode_tokens));
  list.gauge("state_limit_bytes", "Memory available to sequences and snapshots, in bytes.",
             all(&WorkerFigures::limit_bytes));
  list.gauge("state_used_bytes", "Memory held by sequences and snapshots, in bytes.",
             all(&WorkerFigures::used_bytes));
  list.gauge("sequences", "Open sequences.", all(&WorkerFigures::sequences));
  list.gauge("sequences_most", "Most sequences that were open at once.", all(&WorkerFigures::max_sequences));
  list.gauge("snapshots", "Snapshots that the device holds.", all(&WorkerFigures::snapshots));
  list.gauge("requests_waiting", "Requests that wait for memory.", all(&WorkerFigures::waiting));
  list.counter("checkpoints_total", "Checkpoints taken.", all(&WorkerFigures::checkpoints));
  list.counter("checkpoints_skipped_total", "Checkpoints not taken because no memory was free.",
               all(&WorkerFigures::checkpoints_skipped));
  list.counter("checkpoints_spared_total", "Checkpoints not taken to save memory while it was filling.",
               all(&WorkerFigures::checkpoints_spared));
  list.counter("state_copied_bytes_total", "Bytes of state copied by snapshots and restores.",
               all(&WorkerFigures::copied_bytes));
  list.counter("unhealthy_states_total", "Computed states that had infinite or NaN values.",
               all(&WorkerFigures::unhealthy));
  list.counter("damaged_snapshots_total", "Snapshots whose checksum was wrong when they were restored.",
               all(&WorkerFigures::damaged));
  list.counter("preemptions_total", "Sequences preempted because an older one needed their memory.",
               all(&WorkerFigures::preemptions));
  list.counter("kv_compactions_total", "Prompts whose keys and values were compacted to a KV budget.",
               all(&WorkerFigures::compactions));
  list.counter("kv_compacted_full_bytes_total", "Bytes of compacted prompts before their compaction.",
               all(&WorkerFigures::compacted_full_bytes));
  list.counter("kv_compacted_kept_bytes_total", "Bytes of compacted prompts after their compaction.",
               all(&WorkerFigures::compacted_kept_bytes));
  list.counter("reclaims_total", "Times that memory was reclaimed from the cache.",
               all(&WorkerFigures::reclaims));
  list.counter("reclaims_ahead_total", "Times that memory was reclaimed from the cache ahead of need.",
               all(&WorkerFigures::reclaims_ahead));
  list.counter("admission_waits_total", "Requests that waited for memory before their admission.",
               all(&WorkerFigures::admission_waits));
  list.counter("admission_wait_seconds_total", "Time that requests waited for memory before their admission.",
               static_cast<double>(all(&WorkerFigures::admission_wait_ns)) * 1e-9);
  list.counter("device_faults_total", "Device steps that failed.", all(&WorkerFigures::faults));
  for (const auto& [name, figures] : devices) {
    const Listing::Labels of{{"device", name}};
    list.counter("device_steps_total", "Steps computed, by device.", read(figures->steps), of);
    list.gauge("device_state_limit_bytes",
               "Memory available to sequences and snapshots, in bytes, by device.",
               read(figures->limit_bytes), of);
    list.gauge("device_state_used_bytes", "Memory held by sequences and snapshots, in bytes, by device.",
               read(figures->used_bytes), of);
  }
}

void list_tier(protocol::Tier tier, const TierFigures& figures, Listing& list) {
  const auto with = [&](const char* key, std::string_view value) {
    return Listing::Labels{{"tier", std::string(name_of(tier))}, {key, std::string(value)}};
  };
  const Listing::Labels of{{"tier", std::string(name_of(tier))}};
  list.gauge("tier_off", "1 while writes to the cache tier are disabled after a failure, by tier.",
             read(figures.off), of);
  list.gauge("tier_bytes", "Bytes of snapshots in the cache tier, by tier.", read(figures.bytes), of);
  list.gauge("tier_budget_bytes", "Maximum bytes of snapshots in the cache tier, by tier.",
             read(figures.budget_bytes), of);
  list.gauge("tier_waiting", "Snapshots waiting to be written to the cache tier, by tier.",
             read(figures.waiting), of);
  list.counter("tier_fetches_total", "Prompts looked up in the cache tier, by tier.", read(figures.fetches),
               of);
  list.counter("tier_loaded_total", "Snapshots read from the cache tier, by tier.", read(figures.loaded), of);
  list.counter("tier_loaded_tokens_total", "Tokens of the snapshots read from the cache tier, by tier.",
               read(figures.loaded_tokens), of);
  list.counter("tier_loaded_bytes_total", "Bytes of the snapshots read from the cache tier, by tier.",
               read(figures.loaded_bytes), of);
  list.counter("tier_load_seconds_total", "Time spent reading from the cache tier, by tier.",
               static_cast<double>(read(figures.load_ns)) * 1e-9, of);
  list.counter("tier_slower_total",
               "Snapshots not read from the cache tier because computing was faster, by tier.",
               read(figures.slower), of);
  list.counter("tier_stored_total", "Snapshots written to the cache tier, by tier.", read(figures.stored),
               of);
  list.counter("tier_stored_bytes_total", "Bytes written to the cache tier, by tier.",
               read(figures.stored_bytes), of);
  list.counter(
      "tier_overtaken_total",
      "Snapshots not written to the cache tier because they were evicted first or too many waited, by tier.",
      read(figures.overtaken), of);
  list.counter("tier_no_room_total", "Snapshots not written because the cache tier had no space, by tier.",
               read(figures.no_space), of);
  list.counter("tier_evicted_total", "Snapshots evicted from the cache tier, by tier.", read(figures.evicted),
               of);
  list.counter("tier_expired_total",
               "Snapshots removed from the cache tier because their TTL ended, by tier.",
               read(figures.expired), of);
  list.counter("tier_failures_total", "Failed writes to the cache tier, by tier.", read(figures.failures),
               of);
  for (std::size_t i = 0; i < TierFigures::kRefusals; ++i) {
    const auto reason = name_of(static_cast<protocol::snapshots::Refusal>(i));
    list.counter("tier_refused_total",
                 "Snapshots of the cache tier that could not be used, by tier and reason.",
                 read(figures.refused[i]), with("reason", reason));
  }
}

void list_registry(const std::string& model, const RegistryFigures& registry, Listing& list) {
  const auto with = [&](const char* key, std::string_view value) {
    return Listing::Labels{{"model", model}, {key, std::string(value)}};
  };
  const Listing::Labels of{{"model", model}};
  list.counter("cache_lookups_total", "Prompts looked up in the prefix cache.", read(registry.lookups), of);
  list.counter("cache_prompt_tokens_total", "Tokens of the prompts looked up in the prefix cache.",
               read(registry.prompt_tokens), of);
  list.counter("cache_restored_tokens_total",
               "Prompt tokens restored from the prefix cache instead of computed.",
               read(registry.restored_tokens), of);
  for (std::size_t i = 0; i < protocol::kMissReasons; ++i) {
    list.counter("cache_lookup_results_total", "Lookups, by the reason why no more was restored.",
                 read(registry.by_reason[i]), with("reason", name_of(static_cast<protocol::MissReason>(i))));
  }
  for (std::size_t i = 0; i < protocol::kMissReasons; ++i) {
    list.counter(
        "cache_lost_tokens_total", "Prompt tokens computed before that could not be restored, by reason.",
        read(registry.lost_tokens[i]), with("reason", name_of(static_cast<protocol::MissReason>(i))));
  }
  for (std::size_t i = 0; i < protocol::kOrigins; ++i) {
    const auto origin = with("origin", name_of(static_cast<protocol::Origin>(i)));
    list.counter("cache_hits_total", "Restored prompts, by the origin of the checkpoint.",
                 read(registry.hits_by_origin[i]), origin);
    list.counter("cache_inserts_total", "Snapshots inserted into the prefix cache, by origin.",
                 read(registry.inserts_by_origin[i]), origin);
  }
  for (std::size_t i = 1; i < protocol::kTiers; ++i) {
    const auto tier = with("tier", name_of(static_cast<protocol::Tier>(i)));
    list.counter("cache_brought_total", "Prompts restored from a cache tier outside the device, by tier.",
                 read(registry.brought[i]), tier);
    list.counter("cache_brought_tokens_total",
                 "Prompt tokens restored from a cache tier outside the device, by tier.",
                 read(registry.brought_tokens[i]), tier);
  }
  for (const auto& [result, figure] :
       {std::pair{"exact", &registry.exact}, {"partial", &registry.partial}, {"miss", &registry.missed}}) {
    list.counter("cache_requests_total", "Requests, by how much of the prompt was restored.", read(*figure),
                 with("result", result));
  }
  list.counter("cache_capped_total", "Snapshots evicted because their conversation had too many.",
               read(registry.capped), of);
  list.counter("cache_thrashed_total", "Snapshots that were made again soon after their eviction.",
               read(registry.thrashed), of);
  list.gauge("cache_index_bytes", "Memory of the prefix cache's index, in bytes.", read(registry.index_bytes),
             of);
  list.counter("cache_evicted_total", "Snapshots evicted from the prefix cache.", read(registry.evicted), of);
  list.counter("cache_expired_total", "Snapshots removed from the prefix cache because their TTL ended.",
               read(registry.expired), of);
  list.counter("cache_superseded_total", "Snapshots replaced by those of a later turn.",
               read(registry.superseded), of);
  list.counter("cache_self_evicted_total",
               "Snapshots dropped at once because they exceed the cache's budget.",
               read(registry.self_evicted), of);
  list.counter("cache_followers_total", "Requests that waited while another one computed the same prefix.",
               read(registry.followers), of);
  list.gauge("cache_entries", "Snapshots in the prefix cache.", read(registry.entries), of);
  list.gauge("cache_leases", "Uses of snapshots by running requests.", read(registry.leases), of);
  list.gauge("cache_pinned", "Pinned snapshots in the prefix cache.", read(registry.pinned), of);
  list.gauge("cache_flights", "Prompts being computed that later requests can wait for.",
             read(registry.flights), of);
  list.gauge("cache_path_tokens", "Tokens in the prefix cache's index.", read(registry.path_tokens), of);
  list.gauge("cache_namespaces", "Namespaces in the prefix cache's index.", read(registry.namespaces), of);
  list.gauge("cache_bytes", "Memory held by snapshots in bytes; shared pages count once.",
             read(registry.adopted_bytes), of);
  list.gauge("cache_budget_bytes", "Maximum memory of snapshots, in bytes.", read(registry.budget_bytes), of);
  list.counter("cache_verified_total", "Restored prompts that were recomputed and compared.",
               read(registry.verified), of);
  list.counter("cache_mismatches_total", "Restored prompts whose recomputation gave a different result.",
               read(registry.mismatches), of);
  list.counter("cache_unverified_total",
               "Restored prompts that were chosen for recomputation and could not be recomputed.",
               read(registry.unverified), of);
}

}  // namespace

std::vector<Figure> Engine::figures() const {
  Listing list;
  list.gauge("requests_running", "Requests accepted whose answer has not ended.", parts_->running->now());
  list_devices(parts_->board->all(), list);
  for (const auto& [actor, log] : {std::pair{"texts", &parts_->restarts->texts},
                                   {"registry", &parts_->restarts->registries},
                                   {"device", &parts_->restarts->devices},
                                   {"supervisor", &parts_->restarts->supervisors}}) {
    list.counter("actor_restarts_total", "Restarts of failed actors, by actor.", log->total(),
                 {{"actor", actor}});
  }
  for (const Parts::LowerTier& lower : parts_->tiers) list_tier(lower.tier, *lower.figures, list);
  for (const ModelDirectory::Entry& entry : parts_->directory->all()) {
    list.gauge("model_ready", "1 while the model can be used, by model.", entry.model ? 1 : 0,
               {{"model", entry.card.id}});
    if (entry.model && entry.model->registry)
      list_registry(entry.card.id, *entry.model->registry_figures, list);
  }
  return list.take();
}

}  // namespace reprise::actors
