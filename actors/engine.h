#pragma once
// Engine: all of it as a library. Load models, submit requests, read their streams; no HTTP needed.
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
// The system must outlive the engine. Destroying the engine stops its actors; requests that run end with a
// Failed event or their stream's end.
//
// Failure: every actor of the engine has its own rule, in its header; docs/dev/failure-model.md lists them. None of
// them takes the engine with it: what cannot be mended fails a model, or all, and health() says which and
// why.
//
// Threading: as protocol/service.h says; ask_load() within an actor's turn; load(), unload(), those of adapters and
// wait_until_ready() block, and are for threads that are no actor's.

#include <chrono>
#include <memory>
#include <string>

#include "actors/engine_options.h"
#include "protocol/server_desk.h"
#include "protocol/service.h"

namespace reprise::runtime {
class System;
}
namespace reprise::protocol {}  // namespace reprise::protocol

namespace reprise::actors {

struct WorkerFigures;

class Engine : public protocol::Service, public protocol::ServerDesk, private protocol::AdapterDesk {
 public:
  /// Begins to load the models; they are there when health() says so.
  Engine(runtime::System& system, EngineOptions options);
  ~Engine() override;

  runtime::StreamReader<protocol::Event> generate(protocol::GenerateRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Tokenized>> tokenize(protocol::TokenizeRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Detokenized>> detokenize(
      protocol::DetokenizeRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Rendered>> render(protocol::RenderRequest request) override;

  std::vector<protocol::ModelCard> models() const override;
  protocol::AdapterDesk* adapter_desk() override { return this; }
  protocol::Health health() const override;
  std::vector<protocol::RunningRequest> running() const override;
  bool end_reasoning(const std::string& reply_id, const std::string& tenant) override;
  std::vector<protocol::Figure> figures() const override;
  std::shared_ptr<protocol::NamedSnapshots> named_snapshots() override;

  runtime::Task<protocol::ServerCache> view_cache(protocol::CacheScope scope,
                                                  std::uint32_t most_nodes) override;
  runtime::Task<protocol::Answer<std::uint64_t>> drop_cache(std::string model) override;
  runtime::Task<protocol::Answer<protocol::ModelCard>> load_model(std::string name) override;
  runtime::Task<protocol::Answer<std::string>> unload_model(std::string name) override;

  using Loaded = Outcome<protocol::ModelCard, protocol::ServiceError>;
  Loaded load(ModelSpec spec, std::chrono::milliseconds timeout);
  /// The same for an actor, which awaits it.
  runtime::Ask<Loaded> ask_load(ModelSpec spec, std::chrono::milliseconds timeout);
  bool unload(const std::string& name, std::chrono::milliseconds timeout);
  using AdapterAnswer = protocol::Answer<protocol::AdapterCard>;
  /// To a model that is loaded, by name; empty: the first.
  AdapterAnswer load_adapter(const std::string& model, AdapterSpec spec, std::chrono::milliseconds timeout);
  AdapterAnswer unload_adapter(const std::string& model, const std::string& name,
                               std::chrono::milliseconds timeout);
  /// Until every model, with its adapters, is loaded or has failed; the error of the first that failed.
  std::optional<protocol::ServiceError> wait_until_ready(std::chrono::milliseconds timeout);

  std::size_t running_requests() const;
  /// Of a device, by its name.
  const WorkerFigures& device_figures(const std::string& device) const;

 private:
  runtime::Ask<AdapterAnswer> load_adapter(protocol::AdapterWish wish) override;
  runtime::Ask<AdapterAnswer> unload_adapter(protocol::AdapterWish wish) override;

  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace reprise::actors
