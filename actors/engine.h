#pragma once
// Engine: all of it as a library. Load models, submit requests, read their streams; no HTTP needed.
//
//   runtime::System system;
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
// Failure: every actor of the engine has its own rule, in its header; actors/README.md lists them. None of
// them takes the engine with it: what cannot be mended fails a model, or all, and health() says which and
// why.
//
// Threading: as protocol/service.h says; ask_load() within an actor's turn; load(), unload() and
// wait_until_ready() block, and are for threads that are no actor's.

#include <chrono>
#include <memory>
#include <string>

#include "actors/model_supervisor.h"
#include "actors/request/text_pool.h"
#include "base/bounded_count.h"
#include "protocol/service.h"
#include "runtime/system.h"

namespace reprise::actors {

class Engine : public protocol::Service {
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
  protocol::Health health() const override;
  std::vector<protocol::Figure> figures() const override;

  Outcome<protocol::ModelCard, protocol::ServiceError> load(ModelSpec spec,
                                                            std::chrono::milliseconds timeout);
  /// The same for an actor, which awaits it.
  runtime::Ask<LoadModel::Reply> ask_load(ModelSpec spec, std::chrono::milliseconds timeout);
  bool unload(const std::string& name, std::chrono::milliseconds timeout);
  /// Until every model is loaded or has failed; the error of the first that failed.
  std::optional<protocol::ServiceError> wait_until_ready(std::chrono::milliseconds timeout);

  /// For tests, where the worker was made to obey. Returns when the worker knows.
  void inject(protocol::InjectFault fault);
  /// Returns when the crash has happened.
  void inject(protocol::InjectCrash crash);
  std::size_t running_requests() { return requests_->size(); }
  /// Of a device, by its name.
  const WorkerFigures& device_figures(const std::string& device) const { return *board_->of(device); }

 private:
  std::uint32_t running_count() const;

  runtime::System& system_;
  const EngineOptions options_;
  const std::shared_ptr<ModelDirectory> directory_ = std::make_shared<ModelDirectory>();
  const std::shared_ptr<DeviceBoard> board_ = std::make_shared<DeviceBoard>();
  const std::shared_ptr<RequestRoll> requests_ = std::make_shared<RequestRoll>();
  const std::shared_ptr<BoundedCount> running_;
  const std::shared_ptr<BoundedCount> idle_;
  const std::shared_ptr<Restarts> restarts_;
  const std::shared_ptr<const TextPool> texts_;
  runtime::RefOf<ModelSupervisor> supervisor_;
};

}  // namespace reprise::actors
