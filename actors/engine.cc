#include "actors/engine.h"

#include <algorithm>
#include <functional>

namespace reprise::actors {

using protocol::Event;
using protocol::Figure;
using protocol::ServiceError;
using protocol::ServiceErrorCode;

Engine::Engine(runtime::System& system, EngineOptions options)
    : system_(system),
      options_(std::move(options)),
      running_(std::make_shared<BoundedCount>(options_.most_requests)),
      idle_(std::make_shared<BoundedCount>(options_.most_idle)),
      restarts_(std::make_shared<Restarts>(TextPool::size_for(system.workers()))),
      texts_(std::make_shared<const TextPool>(system, TextPool::size_for(system.workers()), directory_,
                                              restarts_)) {
  for (const ModelSpec& spec : options_.models) {
    protocol::ModelCard card;
    card.id = spec.name;
    directory_->set({std::move(card), nullptr, "is being loaded", spec});
  }
  // It loads what stands in the directory.
  supervisor_ =
      system_.spawn<ModelSupervisor>({.placement = runtime::Placement::own_thread(),
                                      .on_failure = runtime::OnFailure::restart(
                                          ModelSupervisor::kMostRestarts, ModelSupervisor::kRestartWindow)},
                                     options_, directory_, board_, requests_, restarts_);
}

Engine::~Engine() {
  requests_->tell_all({.why = "the engine is shutting down"});
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
          {}, RequestJob{.request = std::make_shared<const protocol::GenerateRequest>(std::move(request)),
                         .model = std::get<std::shared_ptr<const ServedModel>>(std::move(found)),
                         .out = std::move(writer),
                         .texts = texts_,
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
  return texts_->ask<TokenizeJob>(std::move(request));
}
runtime::Ask<protocol::Answer<protocol::Detokenized>> Engine::detokenize(
    protocol::DetokenizeRequest request) {
  return texts_->ask<DetokenizeJob>(std::move(request));
}
runtime::Ask<protocol::Answer<protocol::Rendered>> Engine::render(protocol::RenderRequest request) {
  return texts_->ask<RenderJob>(std::move(request));
}

// -- looking at it

std::vector<protocol::ModelCard> Engine::models() const {
  std::vector<protocol::ModelCard> cards;
  for (const ModelDirectory::Entry& entry : directory_->all()) cards.push_back(entry.card);
  return cards;
}

protocol::Health Engine::health() const {
  std::string problems;
  const auto problem = [&](const std::string& text) { problems += (problems.empty() ? "" : "; ") + text; };
  if (supervisor_.stopped()) {
    problem("the engine has failed too often and serves nothing any more");
  } else if (supervisor_.cell()->life() == runtime::Cell::Life::kRestarting) {
    problem("the engine has failed and starts anew");
  }
  const auto entries = directory_->all();
  if (entries.empty()) problem("no model is loaded");
  for (const ModelDirectory::Entry& entry : entries) {
    if (!entry.model) problem("model '" + entry.card.id + "' " + entry.detail);
  }
  if (texts_->failed() || restarts_->texts.too_often()) {
    problem("what tokenises and renders fails again and again");
  }
  return {.ready = problems.empty(), .detail = std::move(problems)};
}

std::uint32_t Engine::running_count() const {
  return running_->now();
}

void Engine::inject(protocol::InjectFault fault) {
  static_cast<void>(supervisor_.ask_blocking(fault, std::chrono::seconds(60)));
}

void Engine::inject(protocol::InjectCrash crash) {
  if (crash.where != protocol::InjectCrash::Where::kTexts) {
    static_cast<void>(supervisor_.ask_blocking(crash, std::chrono::seconds(60)));
  } else if (options_.worker.obey_faults) {
    texts_->crash();
  }
}

// -- models

Outcome<protocol::ModelCard, ServiceError> Engine::load(ModelSpec spec, std::chrono::milliseconds timeout) {
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
