#pragma once
// ModelSupervisor: brings models onto their devices, takes them off, and brings them back when a device failed.
//
// Each device that a model asks for has one worker, made when the first model comes; models on different
// devices share nothing.
//
// Loading is single-flight: whoever asks for a model that is being loaded waits for that load. A model whose
// step failed is dropped and loaded anew, within limits; its registry stays and knows that its snapshots are
// lost. A device that hangs (StepWatch) is left behind with its worker, the requests on it are told, and
// all its models are loaded on a new one; so it is where the worker itself ended by an exception. A GPU that
// hangs, or that CUDA gave up, is lost with the process: what hangs on it cannot be stopped.
//
// Adapters come with the model, or while it is served; those that are there when a model fails come back with it. One
// that cannot be loaded with its model is listed with the reason, and the model serves. Unloading takes an adapter out
// of the directory, tells the requests that use it, has the worker end their sequences and drop its snapshots, and the
// registry forget them.
//
// What is loaded stands in the ModelDirectory, which everybody may read without asking.
//
// Failure: what goes wrong while a model is loaded fails that model, with its reason in the directory. What
// leaves a handler all the same makes the supervisor start anew, its children with it: running requests are
// told, and all models of the directory are loaded again. A registry that failed too often fails its model.
// More than kMostRestarts failures within kRestartWindow, and nothing is served any more, as Engine::health()
// tells.
//
// Threading: an actor on a thread of its own, for it reads files.

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/engine_options.h"
#include "actors/request/request_actor.h"
#include "actors/served/model_directory.h"
#include "actors/served/restart_log.h"
#include "actors/worker/worker_figures.h"
#include "protocol/server_desk.h"
#include "runtime/actor.h"
#include "runtime/system.h"

namespace reprise::actors {

/// The figures of every device that models were brought onto, for everybody to read without asking. A device keeps its
/// figures for as long as the engine lives, whoever works on it. Any thread; a short lock around a map of pointers.
class DeviceBoard {
 public:
  using Figures = std::shared_ptr<WorkerFigures>;

  /// By the name that models/device.h gives it; made at the first asking.
  Figures of(const std::string& device) {
    const std::lock_guard lock(mutex_);
    Figures& figures = devices_[device];
    if (!figures) figures = std::make_shared<WorkerFigures>();
    return figures;
  }

  std::map<std::string, Figures> all() const {
    const std::lock_guard lock(mutex_);
    return devices_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Figures> devices_;
};

struct LoadModel {
  using Reply = Outcome<protocol::ModelCard, protocol::ServiceError>;
  ModelSpec spec;
};
struct UnloadModel {
  using Reply = bool;  // whether there was such a model
  std::string name;
};

/// One whose path is empty is where the model's configuration says.
struct LoadModelAdapter {
  using Reply = protocol::Answer<protocol::AdapterCard>;
  std::string model;  // empty: the first
  AdapterSpec spec;
  std::string refused{};  // not empty: what is to be answered, and nothing done
};
struct UnloadModelAdapter {
  using Reply = protocol::Answer<protocol::AdapterCard>;
  std::string model;
  std::string name;
};

/// Whether an adapter may be called so: "MODEL:NAME" must be clear.
bool is_adapter_name(const std::string& name);

class ModelSupervisor : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<LoadModel, UnloadModel, LoadModelAdapter, UnloadModelAdapter,
                                    protocol::ArchFailed, RegistryStarted, runtime::Down>;
  static constexpr const char* kName = "supervisor";
  static constexpr std::uint32_t kMostRestarts = 3;
  static constexpr std::chrono::minutes kRestartWindow{10};
  static constexpr std::uint32_t kConcurrentHandlers = 256;

  ModelSupervisor(EngineOptions options, std::shared_ptr<ModelDirectory> directory,
                  std::shared_ptr<DeviceBoard> board, std::shared_ptr<RequestRoll> requests,
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
  using Error = std::optional<protocol::ServiceError>;
  struct Device {
    std::string name;
    runtime::RefOf<DeviceWorker> worker;
    DeviceBoard::Figures figures;
    StepWatch steps{};  // of that worker
    bool lost = false;  // this process cannot use it again

    bool is_gpu() const { return name.starts_with("cuda"); }
  };
  struct Managed {
    ModelSpec spec;                           // with the adapters that are there now
    std::vector<AdapterSpec> configured;      // adapters that it was asked for with
    std::set<std::string> adapters_changing;  // names that are being loaded or unloaded
    Device* device = nullptr;                 // where it is, or was last
    protocol::ArchId arch{};
    std::uint64_t weight_bytes = 0;
    protocol::StateKind kind{};  // of its states
    runtime::RefOf<PrefixRegistry> registry;
    bool registry_was_born = false;  // its first start has been told
    std::shared_ptr<RegistryFigures> figures = std::make_shared<RegistryFigures>();
    bool loading = false;
    bool failed_early = false;                   // its arch has failed while its adapters were being loaded
    std::shared_ptr<protocol::LoadMeter> meter;  // of the load under way, or the last
    std::vector<runtime::ReplyTo<LoadModel::Reply>> waiting;
    std::deque<runtime::TimePoint> reloads;
  };

  // -- loading and unloading
  /// The device that a spec names, with its worker. Throws models::SettingError.
  Device& device_for(const ModelSpec& spec);
  void spawn_worker(Device& device);
  void begin_load(Managed& managed, ModelSpec spec);
  runtime::Task<void> load(std::string name);
  runtime::Task<Error> bring(Managed& managed);
  void log_plan(const ModelSpec& spec) const;
  /// Of a model whose budget for keys and values makes no sense, or that cannot keep to one.
  static Error refusal_of_budget(const ModelSpec& spec, const protocol::ArchLoaded& loaded);
  runtime::Task<void> drop(Managed& managed);
  void end_load(Managed& managed, const Error& error);
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
  runtime::Task<ServedAdapter> bring_adapter(runtime::RefOf<DeviceWorker> worker, protocol::ArchId arch,
                                             AdapterSpec spec);
  runtime::Task<std::vector<ServedAdapter>> bring_adapters(const Managed& managed);

  // -- when something breaks
  runtime::Task<void> reload(std::string name, std::string why);
  runtime::Task<Error> reload_within_limits(Managed& managed, const std::string& why);
  runtime::Task<void> give_up(std::string name, std::string why);
  runtime::Task<void> watch_workers();
  void look_at(Device& device);
  void replace_worker(Device& device, const std::string& why);
  runtime::Task<void> lose_device(Device& device, std::string why);
  // Empty: of all devices.

  EngineOptions options_;
  const std::shared_ptr<ModelDirectory> directory_;
  const std::shared_ptr<DeviceBoard> board_;
  const std::shared_ptr<RequestRoll> requests_;
  const std::shared_ptr<Restarts> restarts_;
  const protocol::TierRef tier_;  // below the devices; may be nobody
  const protocol::TurnStoreRef turn_store_;
  const std::shared_ptr<protocol::TurnBook> turns_ = std::make_shared<protocol::TurnBook>();
  std::map<std::string, Device> devices_;  // by name; they stay
  std::map<std::string, Managed> models_;
};

}  // namespace reprise::actors
