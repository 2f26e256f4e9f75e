#pragma once
// ModelSupervisor: loads models onto devices, unloads them, and reloads them after a device failure.
//
// Each device has one worker, created for its first model. Models on different devices share nothing.
//
// Concurrent requests to load a model wait for one load. A model whose step failed is dropped and reloaded,
// within limits; its registry stays and records its snapshots as lost. If a device hangs (StepWatch) or
// its worker ends by an exception, the worker is abandoned, the requests on it are told, and all its models
// are loaded on a new one. A GPU that hangs, or whose CUDA context failed, cannot be recovered within the
// process and is lost.
//
// Adapters are loaded with the model or later; a reload restores those present at the failure. If an adapter
// fails to load with its model, it is listed with the reason and the model serves without it. Unloading
// removes an adapter from the directory, tells the requests that use it, makes the worker end their sequences
// and drop its snapshots, and the registry forget them.
//
// Loaded models are published in the ModelDirectory.
//
// Failure: an error while loading fails that model, with the reason in the directory. Any other exception in
// a handler restarts the supervisor and its children: running requests are told, and all models of the
// directory are reloaded. A registry that fails too often fails its model. After more than kMaxRestarts
// failures within kRestartWindow nothing is served, as Engine::health() reports.
//
// Threading: an actor on its own thread, because it reads files.

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/cache/prefix_registry.h"
#include "actors/engine_options.h"
#include "actors/models/model_directory.h"
#include "actors/models/restart_log.h"
#include "actors/request/request_actor.h"
#include "actors/supervised_devices.h"
#include "protocol/server_admin.h"
#include "runtime/actor.h"
#include "runtime/system.h"

namespace reprise::actors {

struct LoadModel {
  using Reply = Outcome<protocol::ModelCard, protocol::Error>;
  ModelSpec spec;
};
struct UnloadModel {
  using Reply = bool;  // false: no such model
  std::string name;
};

/// An empty path: as in the model's configuration.
struct LoadModelAdapter {
  using Reply = protocol::Answer<protocol::AdapterCard>;
  std::string model;  // empty: the first
  AdapterSpec spec;
  std::string refused{};  // not empty: reply with this error and do nothing
};
struct UnloadModelAdapter {
  using Reply = protocol::Answer<protocol::AdapterCard>;
  std::string model;
  std::string name;
};

/// Returns true if the name is valid for an adapter: "MODEL:NAME" must be unambiguous.
bool is_adapter_name(const std::string& name);

class ModelSupervisor : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<LoadModel, UnloadModel, LoadModelAdapter, UnloadModelAdapter,
                                    protocol::ArchFailed, RegistryStarted, runtime::Down>;
  static constexpr const char* kName = "supervisor";
  static constexpr std::uint32_t kMaxRestarts = 3;
  static constexpr std::chrono::minutes kRestartWindow{10};
  static constexpr std::uint32_t kConcurrentHandlers = 256;

  ModelSupervisor(EngineOptions options, std::shared_ptr<ModelDirectory> directory,
                  std::shared_ptr<DeviceMetrics> board, std::shared_ptr<ActiveRequests> requests,
                  std::shared_ptr<Restarts> restarts, protocol::TierRef tier = {},
                  protocol::TurnStoreRef turn_store = {});

  void on_start();
  void on(LoadModel load, runtime::ReplyTo<LoadModel::Reply> reply);
  runtime::Task<bool> on(UnloadModel unload);
  runtime::Task<LoadModelAdapter::Reply> on(LoadModelAdapter load);
  runtime::Task<UnloadModelAdapter::Reply> on(UnloadModelAdapter unload);
  void on(protocol::ArchFailed failed);
  void on(RegistryStarted started);
  void on(runtime::Down down);

 private:
  using Failure = std::optional<protocol::Error>;
  struct Managed {
    ModelSpec spec;                           // includes the current adapters
    std::vector<AdapterSpec> configured;      // adapters of the original spec
    std::set<std::string> adapters_changing;  // names being loaded or unloaded
    SupervisedDevice* device = nullptr;       // current or last device
    protocol::ArchId arch{};
    std::uint64_t weight_bytes = 0;
    protocol::StateKind kind{};  // format of its states
    runtime::RefOf<PrefixRegistry> registry;
    bool registry_was_born = false;  // its first start was reported
    std::shared_ptr<RegistryFigures> figures = std::make_shared<RegistryFigures>();
    bool loading = false;
    bool failed_early = false;                   // its arch failed while adapters were loading
    std::shared_ptr<protocol::LoadMeter> meter;  // the current or last load
    std::vector<runtime::ReplyTo<LoadModel::Reply>> waiting;
    std::deque<runtime::TimePoint> reloads;
  };

  // -- loading and unloading
  void begin_load(Managed& managed, ModelSpec spec);
  runtime::Task<void> load(std::string name);
  runtime::Task<Failure> bring(Managed& managed);
  void log_plan(const ModelSpec& spec) const;
  /// Returns an error if the model's KV budget is invalid, or not supported by the model.
  static Failure refusal_of_budget(const ModelSpec& spec, const protocol::ArchLoaded& loaded);
  runtime::Task<void> drop(Managed& managed);
  /// Makes the tier in host memory free the states of an unloaded model, unless it is served under another
  /// name, or those of an unloaded adapter, whose namespaces begin with `prefix`.
  void free_states(std::uint64_t model, const std::string& prefix) const;
  void end_load(Managed& managed, const Failure& error);
  std::shared_ptr<const ServedModel> make_served(Managed& managed, const protocol::ArchLoaded& loaded);
  void give_chat(const Managed& managed, ServedModel& served);
  void give_registry(Managed& managed, ServedModel& served);
  BindRegistry binding_of(const Managed& managed) const;
  void publish_state(Managed& managed, protocol::ModelCard::State state, const std::string& detail);
  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  void log_error(const std::string& line) const { options_.log_error ? options_.log_error(line) : log(line); }

  // -- adapters
  runtime::Task<ServedAdapter> bring_adapter(protocol::OperatorRef worker, protocol::ArchId arch,
                                             AdapterSpec spec);
  runtime::Task<std::vector<ServedAdapter>> bring_adapters(const Managed& managed);

  // -- failures
  runtime::Task<void> reload(std::string name, std::string why);
  runtime::Task<Failure> reload_within_limits(Managed& managed, const std::string& why);
  runtime::Task<void> give_up(std::string name, std::string why);
  runtime::Task<void> watch_workers();
  void look_at(SupervisedDevice& device);
  void replace_worker(SupervisedDevice& device, const std::string& why);
  runtime::Task<void> lose_device(SupervisedDevice& device, std::string why);

  EngineOptions options_;
  const std::shared_ptr<ModelDirectory> directory_;
  const std::shared_ptr<ActiveRequests> requests_;
  const std::shared_ptr<Restarts> restarts_;
  const protocol::TierRef tier_;  // below the devices; may be null
  const protocol::TurnStoreRef turn_store_;
  const std::shared_ptr<protocol::TurnCache> turns_ = std::make_shared<protocol::TurnCache>();
  SupervisedDevices devices_;
  std::map<std::string, Managed> models_;
};

}  // namespace reprise::actors
