#include "actors/model_supervisor.h"

#include <algorithm>

#include "actors/chat_template.h"
#include "models/chat_template_source.h"
#include "models/load_error.h"
#include "models/tokenizer_load.h"
#include "runtime/wait.h"

namespace reprise::actors {

using protocol::ModelCard;
using protocol::ServiceError;
using protocol::ServiceErrorCode;
using runtime::Result;
using runtime::Task;

namespace {

constexpr std::chrono::hours kLoadDeadline{1};
constexpr std::chrono::milliseconds kWatchPeriod{50};
constexpr std::chrono::milliseconds kLastWords{500};  // for answers to reach their clients

}  // namespace

// -- what others see

std::optional<ModelDirectory::Entry> ModelDirectory::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (name.empty() || entry.card.id == name) return entry;
  }
  return std::nullopt;
}

void ModelDirectory::set(Entry entry) {
  const std::lock_guard lock(mutex_);
  for (Entry& old : entries_) {
    if (old.card.id != entry.card.id) continue;
    old = std::move(entry);
    return;
  }
  entries_.push_back(std::move(entry));
}

void ModelDirectory::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.card.id == name; });
}

void RequestRoll::add(runtime::RefOf<RequestActor> request) {
  const std::lock_guard lock(mutex_);
  if (requests_.size() >= prune_at_) {
    std::erase_if(requests_, [](const auto& one) { return one.stopped(); });
    prune_at_ = std::max<std::size_t>(64, requests_.size() * 2);
  }
  requests_.push_back(std::move(request));
}

void RequestRoll::tell_all(const ModelLost& lost) {
  const std::lock_guard lock(mutex_);
  for (const auto& request : requests_) {
    if (!request.stopped()) request.tell(lost);
  }
}

std::size_t RequestRoll::size() {
  const std::lock_guard lock(mutex_);
  std::erase_if(requests_, [](const auto& one) { return one.stopped(); });
  return requests_.size();
}

// -- the supervisor

ModelSupervisor::ModelSupervisor(EngineOptions options, std::shared_ptr<ModelDirectory> directory,
                                 std::shared_ptr<RequestRoll> requests)
    : options_(std::move(options)), directory_(std::move(directory)), requests_(std::move(requests)) {}

void ModelSupervisor::on_start() {
  spawn_worker();
  launch(watch_worker());
}

void ModelSupervisor::spawn_worker() {
  WorkerOptions options = options_.worker;
  options.supervisor = self(*this);
  worker_ =
      spawn<DeviceWorker>({.name = "device " + options.device, .placement = runtime::Placement::own_thread()},
                          std::move(options));
}

void ModelSupervisor::publish_state(const Managed& managed, ModelCard::State state,
                                    const std::string& detail) {
  ModelCard card;
  if (const auto entry = directory_->find(managed.spec.name)) card = entry->card;
  card.id = managed.spec.name;
  card.state = state;
  directory_->set({std::move(card), nullptr, detail});
}

void ModelSupervisor::on(LoadModel load, runtime::ReplyTo<LoadModel::Reply> reply) {
  const std::string name = load.spec.name;
  const auto [found, is_new] = models_.try_emplace(name);
  Managed& managed = found->second;
  if (!is_new && !managed.loading && managed.arch) {
    const auto entry = directory_->find(name);
    return reply.answer(LoadModel::Reply(entry ? entry->card : ModelCard{}));
  }
  managed.waiting.push_back(std::move(reply));
  if (managed.loading) return;
  managed.spec = std::move(load.spec);
  managed.loading = true;
  publish_state(managed, ModelCard::State::kLoading, "is being loaded");
  launch(this->load(name));
}

Task<void> ModelSupervisor::load(std::string name) {
  Managed& managed = models_.at(name);  // stays: unloading waits for this
  std::optional<ServiceError> error;
  const ModelSpec& spec = managed.spec;
  auto asked = worker_.ask(
      protocol::LoadArch{
          .path = spec.path, .compute = spec.compute, .kv_dtype = spec.kv_dtype, .isa = spec.isa},
      kLoadDeadline);
  const Result<protocol::JobResult<protocol::ArchLoaded>> loaded = co_await asked;
  if (!loaded.ok()) {
    error = ServiceError{ServiceErrorCode::kUnavailable,
                         "the device did not load it: " + loaded.error().describe()};
  } else if (!loaded->ok()) {
    error = ServiceError{ServiceErrorCode::kInvalid, loaded->error().message, "model"};
  } else {
    try {
      managed.arch = (*loaded)->arch;
      managed.device = (*loaded)->device;
      std::shared_ptr<const ServedModel> served = make_served(managed, **loaded);
      log("model '" + name + "' is loaded on " + managed.device + ": " + served->card.architecture + ", " +
          std::to_string(served->arch.weight_bytes >> 20) + " MiB of weights, " +
          std::to_string(served->arch.token_bytes) + " bytes of state a token and " +
          std::to_string(served->arch.slot_bytes) + " a snapshot, " +
          std::to_string(served->arch.state_bytes >> 20) + " MiB of state memory");
      directory_->set({served->card, served, ""});
    } catch (const std::exception& failure) {
      error = ServiceError{ServiceErrorCode::kInvalid, failure.what(), "model"};
    }
  }
  managed.loading = false;
  if (error) {
    log("model '" + name + "' cannot be loaded: " + error->message);
    publish_state(managed, ModelCard::State::kFailed, error->message);
  }
  const auto entry = directory_->find(name);
  for (auto& reply : std::exchange(managed.waiting, {})) {
    reply.answer(error ? LoadModel::Reply(*error) : LoadModel::Reply(entry->card));
  }
}

std::shared_ptr<const ServedModel> ModelSupervisor::make_served(Managed& managed,
                                                                const protocol::ArchLoaded& loaded) {
  auto served = std::make_shared<ServedModel>();
  const models::Checkpoint checkpoint = models::Checkpoint::open(managed.spec.path);
  served->special = checkpoint.config().tokens;
  served->sampling = checkpoint.config().sampling;
  try {
    served->tokenizer = std::make_shared<const models::Tokenizer>(models::load_tokenizer(managed.spec.path));
  } catch (const models::LoadError& error) {
    log("model '" + managed.spec.name + "' takes token ids alone: " + error.what());
  }
  if (served->tokenizer && !served->tokenizer->covers_all_text()) served->tokenizer.reset();
  served->arch = loaded;
  served->worker = worker_;
  served->limits = options_.requests;
  served->warn = options_.log;
  ModelCard& card = served->card;
  card.id = managed.spec.name;
  card.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  card.architecture = loaded.architecture;
  card.context = loaded.context;
  card.vocab = loaded.vocab;
  card.takes_text = served->tokenizer != nullptr;
  card.state = ModelCard::State::kReady;
  const std::optional<std::string> source = models::load_chat_template(managed.spec.path);
  if (served->tokenizer && source) {
    auto renderer = make_chat_renderer(*source, *served->tokenizer);
    if (renderer.ok()) {
      card.chat_template = *source;
      served->render = std::move(*renderer);
      const auto probe = [&](const std::vector<const char*>& texts) -> std::optional<protocol::TokenList> {
        protocol::ChatPrompt chat{.messages = protocol::Json::array(), .add_generation_prompt = false};
        for (std::size_t i = 0; i < texts.size(); ++i) {
          chat.messages.push_back(
              protocol::Json{{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", texts[i]}});
        }
        auto rendered = served->render(chat);
        if (!rendered.ok()) return std::nullopt;
        return served->tokenizer->encode(*rendered);
      };
      served->shape = learn_shape(probe, [&](TokenId id) { return served->tokenizer->is_special(id); });
    } else {
      log("model '" + managed.spec.name + "' has no chat: " + renderer.error());
    }
  }
  if (options_.cache) {
    if (!managed.registry || managed.registry.stopped()) {
      RegistryOptions registry = options_.registry;
      registry.cache.grid = loaded.grid;
      registry.cache.any_token = loaded.any_token;
      if (registry.budget_bytes == 0) registry.budget_bytes = loaded.state_bytes;
      registry.figures = managed.figures;
      registry.warn = options_.log;
      const std::uint64_t budget = registry.budget_bytes;
      managed.registry =
          spawn<PrefixRegistry>({.name = "registry " + managed.spec.name}, std::move(registry));
      const std::uint64_t entry = loaded.slot_bytes + 8192 * loaded.token_bytes;
      if (entry * 5 > budget) {
        log("the cache's budget of " + std::to_string(budget >> 20) +
            " MiB holds fewer than five prompts of 8,192 tokens (" + std::to_string(entry >> 20) +
            " MiB each) of model '" + managed.spec.name + "'");
      }
    }
    managed.registry.tell(BindRegistry{.worker = worker_, .generation = loaded.arch.generation});
    worker_.tell(protocol::AttachRegistry{
        .arch = loaded.arch, .registry = managed.registry, .oldest_use = [figures = managed.figures] {
          return figures->oldest_use_ns.load(std::memory_order_relaxed);
        }});
    served->registry = managed.registry;
  }
  served->registry_figures = managed.figures;
  return served;
}

Task<bool> ModelSupervisor::on(UnloadModel unload) {
  auto found = models_.find(unload.name);
  if (found == models_.end() || found->second.loading) co_return false;
  directory_->remove(unload.name);
  const protocol::ArchId arch = found->second.arch;
  if (found->second.registry) found->second.registry.stop();
  models_.erase(found);
  auto asked = worker_.ask(protocol::DropArch{arch}, kLoadDeadline);
  const Result<protocol::ArchDropped> dropped = co_await asked;
  log("model '" + unload.name + "' is unloaded");
  co_return dropped.ok();
}

// -- faults

Task<protocol::Nothing> ModelSupervisor::on(protocol::InjectFault fault) {
  auto asked = worker_.ask(fault, kLoadDeadline);
  const Result<protocol::Nothing> injected = co_await asked;
  co_return injected.ok() ? *injected : protocol::Nothing{};
}

void ModelSupervisor::on(protocol::ArchFailed failed) {
  if (failed.device_lost) {
    launch(lose_device(failed.why));
    return;
  }
  for (auto& [name, managed] : models_) {
    if (managed.arch == failed.arch && !managed.loading) {
      managed.loading = true;
      launch(reload(name, failed.why));
    }
  }
}

Task<void> ModelSupervisor::reload(std::string name, std::string why) {
  Managed& managed = models_.at(name);
  const runtime::TimePoint now = runtime::Clock::now();
  while (!managed.reloads.empty() && now - managed.reloads.front() > options_.reload_window) {
    managed.reloads.pop_front();
  }
  log("model '" + name + "' has failed: " + why);
  if (managed.reloads.size() >= options_.most_reloads) {
    managed.loading = false;
    managed.arch = {};
    publish_state(managed, ModelCard::State::kFailed, "failed too often: " + why);
    co_return;
  }
  managed.reloads.push_back(now);
  publish_state(managed, ModelCard::State::kLoading, "is being loaded anew after a fault: " + why);
  const protocol::ArchId old = std::exchange(managed.arch, {});
  auto dropping = worker_.ask(protocol::DropArch{old}, kLoadDeadline);
  const Result<protocol::ArchDropped> dropped = co_await dropping;
  static_cast<void>(dropped);
  Task<void> loading = load(name);
  co_await loading;
}

Task<void> ModelSupervisor::lose_device(std::string why) {
  if (std::exchange(device_lost_, true)) co_return;
  log("the device is lost: " + why);
  for (auto& [name, managed] : models_) {
    managed.arch = {};
    publish_state(managed, ModelCard::State::kFailed, "the device is lost: " + why);
  }
  requests_->tell_all({.why = why});
  auto pause = runtime::sleep_for(kLastWords);
  const Result<void> rested = co_await pause;
  static_cast<void>(rested);
  if (options_.device_lost) options_.device_lost(why);
}

// A device that hangs answers nothing, so it is watched from here.
Task<void> ModelSupervisor::watch_worker() {
  for (;;) {
    auto pause = runtime::sleep_for(kWatchPeriod);
    const Result<void> rested = co_await pause;
    if (!rested.ok()) co_return;
    const std::int64_t began = options_.worker.figures->step_began_ns.load(std::memory_order_relaxed);
    const auto now = runtime::Clock::now().time_since_epoch();
    if (began == 0 || now - std::chrono::nanoseconds(began) < options_.longest_step) continue;
    const std::string why =
        "the device hangs: a step takes longer than " + std::to_string(options_.longest_step.count()) + " ms";
    requests_->tell_all({.why = why});
    const bool on_gpu = std::any_of(models_.begin(), models_.end(),
                                    [](const auto& one) { return one.second.device.starts_with("cuda"); });
    if (on_gpu) {
      launch(lose_device(why));
      co_return;
    }
    worker_.stop();
    options_.worker.figures->step_began_ns.store(0, std::memory_order_relaxed);
    spawn_worker();
    for (auto& [name, managed] : models_) {
      if (managed.loading) continue;
      managed.loading = true;
      launch(reload(name, why));
    }
  }
}

}  // namespace reprise::actors
