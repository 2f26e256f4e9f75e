#include "actors/engine_parts.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <functional>

#include "actors/served/model_choice.h"
#include "actors/tiers/name_records.h"
#include "models/device.h"

namespace reprise::actors {

using protocol::Event;
using protocol::Figure;
using protocol::ServiceError;
using protocol::ServiceErrorCode;

namespace {

constexpr std::chrono::minutes kAdapterTime{10};

/// Of the device that most models are on, or of one that a model names: GPUs share what is pinned.
std::shared_ptr<gpu::TransferBuffers> buffers_for(const EngineOptions& options) {
  const std::uint64_t most = std::max(options.host.most_bytes > 0 ? options.host.loading_bytes : 0,
                                      options.disk.folder.empty() ? 0 : options.disk.loading_bytes);
  auto buffers = models::transfer_buffers(options.worker.device, most);
  for (const ModelSpec& spec : options.models) {
    if (!buffers && !spec.device.empty()) buffers = models::transfer_buffers(spec.device, most);
  }
  return buffers;
}

}  // namespace

Engine::Parts::Parts(runtime::System& host, EngineOptions wishes)
    : system(host),
      options(std::move(wishes)),
      running(std::make_shared<BoundedCount>(options.most_requests)),
      idle(std::make_shared<BoundedCount>(options.most_idle)),
      restarts(std::make_shared<Restarts>(TextPool::size_for(system.workers()) + TextPool::kMaskMakers)),
      texts(std::make_shared<const TextPool>(system, TextPool::size_for(system.workers()),
                                             TextPool::limits_for(TextPool::size_for(system.workers())),
                                             directory, restarts)),
      mask_makers(std::make_shared<const TextPool>(system, TextPool::kMaskMakers,
                                                   TextPool::limits_for_masks(options.most_requests),
                                                   directory, restarts)) {
  if (const auto fault = options.worker.pressure.fault()) throw std::invalid_argument(*fault);
  for (const ModelSpec& spec : options.models) {
    protocol::ModelCard card;
    card.id = spec.name;
    directory->set({std::move(card), nullptr, "is being loaded", spec});
  }
  if (options.cache) spawn_tiers();
  // It loads what stands in the directory.
  supervisor =
      system.spawn<ModelSupervisor>({.placement = runtime::Placement::own_thread(),
                                     .on_failure = runtime::OnFailure::restart(
                                         ModelSupervisor::kMostRestarts, ModelSupervisor::kRestartWindow)},
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
  if (options.host.most_bytes > 0) {
    HostTierSettings settings = options.host;
    if (!settings.buffers) settings.buffers = buffers;
    if (!settings.log) settings.log = options.log;
    const auto figures = figures_of(protocol::Tier::kHost);
    tiers.back().actor = system.spawn<HostTier>(
        {.placement = runtime::Placement::own_thread(),
         .on_failure = OnFailure::restart(HostTier::kMostRestarts, HostTier::kRestartWindow)},
        std::move(settings), figures);
  }
  const auto add_store = [&](TierSettings settings) {
    if (!settings.buffers) settings.buffers = buffers;
    if (!settings.log) settings.log = options.log;
    const auto figures = figures_of(settings.tier);
    const auto tier = system.spawn<StoreTier>(
        {.on_failure = OnFailure::restart(StoreTier::kMostRestarts, StoreTier::kRestartWindow)}, settings,
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
      {.on_failure = runtime::OnFailure::restart(TierStack::kMostRestarts, TierStack::kRestartWindow)},
      std::move(refs), turn_stores);
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
  parts_->supervisor.stop();  // and with it the device and the registries
  if (parts_->all_tiers) parts_->all_tiers.stop();
  for (const Parts::LowerTier& lower : parts_->tiers) lower.actor.stop();
}

runtime::StreamReader<Event> Engine::generate(protocol::GenerateRequest request) {
  auto [writer, reader] = runtime::make_stream<Event>(protocol::kEventWindow);
  const bool ends_trace = !request.trace;  // nobody follows it outside
  if (ends_trace) request.trace = traces::RequestTrace(request.id.empty() ? "nameless" : request.id, "asked");
  const auto refuse = [&writer = writer](ServiceError error) {
    Event event = protocol::Failed{std::move(error)};
    static_cast<void>(writer.try_write(event));
    writer.close();
  };
  auto found = choose_model(*parts_->directory, request.model, request.adapter);
  const std::uint32_t choices = std::clamp(request.n, 1U, parts_->options.requests.most_choices);
  std::shared_ptr<void> slot = parts_->running->take(choices);
  if (auto* error = std::get_if<ServiceError>(&found)) {
    refuse(std::move(*error));
  } else if (!slot) {
    refuse({ServiceErrorCode::kOverloaded,
            "the server has reached its limit of requests answered at once (http.max_requests)", "",
            std::chrono::seconds(1)});
  } else {
    try {
      auto& choice = std::get<ModelChoice>(found);
      std::string name_space = choice.name_space(request.name_space);
      std::string name = choice.name();
      const std::hash<std::string> number;
      const std::uint64_t tenant = request.tenant.empty() ? 0 : number(request.tenant);
      const std::uint64_t group = request.id.empty() ? 0 : number(request.id);
      auto meter = std::make_shared<RequestMeter>(++parts_->requests_begun, name);
      std::string reply_id = request.reply_id;
      std::string tenant_name = request.tenant;
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
      // The job, and with it the writer, went with the actor that could not be made: the stream has ended.
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

// -- looking at it

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

void Engine::inject(protocol::InjectFault fault) {
  static_cast<void>(parts_->supervisor.ask_blocking(fault, std::chrono::seconds(60)));
}

void Engine::inject(protocol::InjectCrash crash) {
  if (crash.where != protocol::InjectCrash::Where::kTexts) {
    static_cast<void>(parts_->supervisor.ask_blocking(crash, std::chrono::seconds(60)));
  } else if (parts_->options.worker.obey_faults) {
    parts_->texts->crash();
  }
}

// -- models

Engine::Loaded Engine::load(ModelSpec spec, std::chrono::milliseconds timeout) {
  runtime::Result<LoadModel::Reply> loaded =
      parts_->supervisor.ask_blocking(LoadModel{std::move(spec)}, timeout);
  if (loaded.ok()) return std::move(*loaded);
  return ServiceError{ServiceErrorCode::kUnavailable, loaded.error().describe()};
}

runtime::Ask<Engine::Loaded> Engine::ask_load(ModelSpec spec, std::chrono::milliseconds timeout) {
  return parts_->supervisor.ask(LoadModel{std::move(spec)}, timeout);
}

bool Engine::unload(const std::string& name, std::chrono::milliseconds timeout) {
  const runtime::Result<bool> unloaded = parts_->supervisor.ask_blocking(UnloadModel{name}, timeout);
  return unloaded.ok() && *unloaded;
}

Engine::AdapterAnswer Engine::load_adapter(const std::string& model, AdapterSpec spec,
                                           std::chrono::milliseconds timeout) {
  runtime::Result<AdapterAnswer> loaded =
      parts_->supervisor.ask_blocking(LoadModelAdapter{model, std::move(spec)}, timeout);
  if (loaded.ok()) return std::move(*loaded);
  return ServiceError{ServiceErrorCode::kUnavailable, loaded.error().describe()};
}

Engine::AdapterAnswer Engine::unload_adapter(const std::string& model, const std::string& name,
                                             std::chrono::milliseconds timeout) {
  runtime::Result<AdapterAnswer> unloaded =
      parts_->supervisor.ask_blocking(UnloadModelAdapter{model, name}, timeout);
  if (unloaded.ok()) return std::move(*unloaded);
  return ServiceError{ServiceErrorCode::kUnavailable, unloaded.error().describe()};
}

// What comes from outside may name files in one folder alone; that is checked here, for the supervisor trusts its
// senders.
runtime::Ask<Engine::AdapterAnswer> Engine::load_adapter(protocol::AdapterWish wish) {
  LoadModelAdapter load{.model = std::move(wish.model), .spec = {.name = std::move(wish.name), .path = {}}};
  if (!wish.path.empty()) {
    const std::filesystem::path path = std::filesystem::path(wish.path).lexically_normal();
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

runtime::Ask<Engine::AdapterAnswer> Engine::unload_adapter(protocol::AdapterWish wish) {
  return parts_->supervisor.ask(UnloadModelAdapter{std::move(wish.model), std::move(wish.name)},
                                kAdapterTime);
}

std::optional<ServiceError> Engine::wait_until_ready(std::chrono::milliseconds timeout) {
  const runtime::TimePoint deadline = runtime::deadline_after(timeout);
  for (const ModelSpec& spec : parts_->options.models) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - runtime::Clock::now());
    auto loaded = load(spec, left);
    if (!loaded.ok()) return loaded.error();
    const auto entry = parts_->directory->find(spec.name);
    if (!entry) continue;
    for (const ServedAdapter& adapter : entry->adapters) {
      if (!adapter.ready()) return ServiceError{ServiceErrorCode::kInvalid, adapter.error, "adapters"};
    }
  }
  return std::nullopt;
}

}  // namespace reprise::actors
