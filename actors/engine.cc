#include "actors/engine.h"

#include <algorithm>
#include <functional>

namespace reprise::actors {

using protocol::Event;
using protocol::Figure;
using protocol::ServiceError;
using protocol::ServiceErrorCode;

namespace {

constexpr std::chrono::seconds kTextDeadline{30};

}  // namespace

/// Counts its holders, up to a bound.
class Engine::Count : public std::enable_shared_from_this<Engine::Count> {
 public:
  explicit Count(std::uint32_t most) : most_(most) {}

  /// For `weight` of them. Null: there would be more than there may be.
  std::shared_ptr<void> take(std::uint32_t weight = 1) {
    // relaxed: only the number matters.
    if (now_.fetch_add(weight, std::memory_order_relaxed) + weight > most_) {
      now_.fetch_sub(weight, std::memory_order_relaxed);
      return nullptr;
    }
    return std::shared_ptr<void>(this, [count = shared_from_this(), weight](void*) {
      count->now_.fetch_sub(weight, std::memory_order_relaxed);
    });
  }
  std::uint32_t now() const { return now_.load(std::memory_order_relaxed); }

 private:
  const std::uint32_t most_;
  std::atomic<std::uint32_t> now_{0};
};

namespace {

EngineOptions with_figures(EngineOptions options) {
  if (!options.worker.figures) options.worker.figures = std::make_shared<WorkerFigures>();
  return options;
}

}  // namespace

Engine::Engine(runtime::System& system, EngineOptions options)
    : system_(system),
      options_(with_figures(std::move(options))),
      running_(std::make_shared<Count>(options_.most_requests)),
      idle_(std::make_shared<Count>(options_.most_idle)) {
  supervisor_ = system_.spawn<ModelSupervisor>({.placement = runtime::Placement::own_thread()}, options_,
                                               directory_, requests_);
  texts_ = system_.spawn<TextActor>({}, directory_);
  for (const ModelSpec& spec : options_.models) {
    protocol::ModelCard card;
    card.id = spec.name;
    directory_->set({std::move(card), nullptr, "is being loaded"});
    supervisor_.tell(LoadModel{spec});
  }
}

Engine::~Engine() {
  requests_->tell_all({.why = "the engine is shutting down"});
  texts_.stop();
  supervisor_.stop();  // and with it the device and the registries
}

runtime::StreamReader<Event> Engine::generate(protocol::GenerateRequest request) {
  auto [writer, reader] = runtime::make_stream<Event>(protocol::kEventWindow);
  const auto refuse = [&writer = writer](ServiceError error) {
    Event event = protocol::Failed{std::move(error)};
    static_cast<void>(writer.try_write(event));
    writer.close();
  };
  auto found = find_model(*directory_, request.model);
  const std::uint32_t choices = std::clamp(request.n, 1U, options_.requests.most_choices);
  std::shared_ptr<void> slot = running_->take(choices);
  if (auto* error = std::get_if<ServiceError>(&found)) {
    refuse(std::move(*error));
  } else if (!slot) {
    refuse({ServiceErrorCode::kOverloaded, "too many requests at once", "", std::chrono::seconds(1)});
  } else {
    try {
      const std::hash<std::string> number;
      const std::uint64_t tenant = request.tenant.empty() ? 0 : number(request.tenant);
      const std::uint64_t group = request.id.empty() ? 0 : number(request.id);
      requests_->add(system_.spawn<RequestActor>(
          {}, RequestJob{.request = std::move(request),
                         .model = std::get<std::shared_ptr<const ServedModel>>(std::move(found)),
                         .out = std::move(writer),
                         .tenant = tenant,
                         .group = group,
                         .slot = std::move(slot),
                         .idle_slot = idle_->take()}));
    } catch (const std::exception& error) {
      // The job, and with it the writer, went with the actor that could not be made: the stream has ended.
    }
  }
  return std::move(reader);
}

runtime::Ask<protocol::Answer<protocol::Tokenized>> Engine::tokenize(protocol::TokenizeRequest request) {
  return texts_.ask(TokenizeJob{std::move(request)}, kTextDeadline);
}
runtime::Ask<protocol::Answer<protocol::Detokenized>> Engine::detokenize(
    protocol::DetokenizeRequest request) {
  return texts_.ask(DetokenizeJob{std::move(request)}, kTextDeadline);
}
runtime::Ask<protocol::Answer<protocol::Rendered>> Engine::render(protocol::RenderRequest request) {
  return texts_.ask(RenderJob{std::move(request)}, kTextDeadline);
}

// -- looking at it

std::vector<protocol::ModelCard> Engine::models() const {
  std::vector<protocol::ModelCard> cards;
  for (const ModelDirectory::Entry& entry : directory_->all()) cards.push_back(entry.card);
  return cards;
}

protocol::Health Engine::health() const {
  protocol::Health health{.ready = true, .detail = {}};
  const auto entries = directory_->all();
  if (entries.empty()) return {.ready = false, .detail = "no model is loaded"};
  for (const ModelDirectory::Entry& entry : entries) {
    if (entry.model) continue;
    health = {.ready = false, .detail = "model '" + entry.card.id + "' " + entry.detail};
  }
  return health;
}

std::uint32_t Engine::running_count() const {
  return running_->now();
}

// -- models

protocol::Outcome<protocol::ModelCard, ServiceError> Engine::load(ModelSpec spec,
                                                                  std::chrono::milliseconds timeout) {
  runtime::Result<LoadModel::Reply> loaded = supervisor_.ask_blocking(LoadModel{std::move(spec)}, timeout);
  if (loaded.ok()) return std::move(*loaded);
  return ServiceError{ServiceErrorCode::kUnavailable, loaded.error().describe()};
}

runtime::Ask<LoadModel::Reply> Engine::ask_load(ModelSpec spec, std::chrono::milliseconds timeout) {
  return supervisor_.ask(LoadModel{std::move(spec)}, timeout);
}

bool Engine::unload(const std::string& name, std::chrono::milliseconds timeout) {
  const runtime::Result<bool> unloaded = supervisor_.ask_blocking(UnloadModel{name}, timeout);
  return unloaded.ok() && *unloaded;
}

std::optional<ServiceError> Engine::wait_until_ready(std::chrono::milliseconds timeout) {
  const runtime::TimePoint deadline = runtime::deadline_after(timeout);
  for (const ModelSpec& spec : options_.models) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - runtime::Clock::now());
    auto loaded = load(spec, left);
    if (!loaded.ok()) return loaded.error();
  }
  return std::nullopt;
}

}  // namespace reprise::actors
