#pragma once
// Engine: the inference engine as a library: load models, submit requests, read their event streams. Needs no
// HTTP.
//
//   runtime::System system;                              // runtime/system.h
//   actors::Engine engine(system, {.models = {{.name = "m", .path = "model-folder"}}});
//   engine.wait_until_ready(1min);
//   auto events = engine.generate({.prompt = "Once upon a time", .max_tokens = 20});
//   for (;;) {
//     auto next = events.next();                       // within an actor; or events.next_blocking(deadline)
//     runtime::Result<protocol::Event> event = co_await next;
//     ...
//   }
//
// The system must outlive the engine. Destroying the engine stops its actors; running requests end with a
// Failed event or the end of their stream.
//
// Failure: each actor's header has its rule; docs/dev/failure-model.md lists them. No failure ends the
// engine: an unrecoverable one fails a model, or all models, as health() reports with the reason.
//
// Threading: as in protocol/service.h; ask_load() within an actor's turn; load(), unload(), the adapter
// functions and wait_until_ready() block and must not be called by actors.

#include <chrono>
#include <memory>
#include <string>

#include "actors/engine_options.h"
#include "protocol/server_admin.h"
#include "protocol/service.h"

namespace reprise::runtime {
class System;
}

namespace reprise::actors {

struct WorkerFigures;

class Engine : public protocol::Service, public protocol::ServerAdmin, private protocol::AdapterAdmin {
 public:
  /// Starts loading the models; health() tells when they are ready.
  Engine(runtime::System& system, EngineOptions options);
  ~Engine() override;

  // -- requests (protocol/service.h)

  runtime::StreamReader<protocol::Event> generate(protocol::GenerateRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Tokenized>> tokenize(protocol::TokenizeRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Detokenized>> detokenize(
      protocol::DetokenizeRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Rendered>> render(protocol::RenderRequest request) override;

  std::vector<protocol::ModelCard> models() const override;
  protocol::AdapterAdmin* adapter_admin() override { return this; }
  protocol::Health health() const override;
  std::vector<protocol::RunningRequest> running() const override;
  bool end_reasoning(const std::string& reply_id, const std::string& tenant) override;
  std::vector<protocol::Figure> figures() const override;
  std::shared_ptr<protocol::NamedSnapshots> named_snapshots() override;

  // -- the operator: models, adapters and caches (protocol/server_admin.h)

  runtime::Task<protocol::ServerCache> view_cache(protocol::CacheScope scope,
                                                  std::uint32_t max_nodes) override;
  runtime::Task<protocol::Answer<std::uint64_t>> drop_cache(std::string model) override;
  runtime::Task<protocol::Answer<protocol::ModelCard>> load_model(std::string name) override;
  runtime::Task<protocol::Answer<std::string>> unload_model(std::string name) override;

  using Loaded = Outcome<protocol::ModelCard, protocol::Error>;
  /// Loads a model and waits; returns an error on failure or timeout.
  Loaded load(ModelSpec spec, std::chrono::milliseconds timeout);
  /// The asynchronous variant of load(), for actors.
  runtime::Ask<Loaded> ask_load(ModelSpec spec, std::chrono::milliseconds timeout);
  bool unload(const std::string& name, std::chrono::milliseconds timeout);
  using AdapterAnswer = protocol::Answer<protocol::AdapterCard>;
  /// Loads an adapter of a loaded model; empty `model`: the first.
  AdapterAnswer load_adapter(const std::string& model, AdapterSpec spec, std::chrono::milliseconds timeout);
  AdapterAnswer unload_adapter(const std::string& model, const std::string& name,
                               std::chrono::milliseconds timeout);
  /// Waits until every model and its adapters are loaded or have failed; returns the first error, if any.
  std::optional<protocol::Error> wait_until_ready(std::chrono::milliseconds timeout);

  // -- tests and measurements

  /// Returns the number of requests that have an actor, including those that only work on after their answer.
  std::size_t running_requests() const;
  /// `device`: its name.
  const WorkerFigures& device_figures(const std::string& device) const;

 private:
  runtime::Ask<AdapterAnswer> load_adapter(protocol::AdapterRequest request) override;
  runtime::Ask<AdapterAnswer> unload_adapter(protocol::AdapterRequest request) override;

  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace reprise::actors
