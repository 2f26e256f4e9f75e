#pragma once
// ModelSupervisor: brings models onto the device, takes them off, and brings them back when the device
// failed.
//
// Loading is single-flight: whoever asks for a model that is being loaded waits for that load. A model whose
// step failed is dropped and loaded anew, within limits; its registry stays and knows that its snapshots are
// lost. A step that takes longer than `longest_step` is a device that hangs: its worker is left behind, the
// requests on it are told, and all its models are loaded on a new one. A GPU that hangs, or that CUDA gave
// up, is lost with the process: what hangs on it cannot be stopped.
//
// What is loaded stands in the ModelDirectory, which everybody may read without asking.
//
// Threading: an actor on a thread of its own, for it reads files.

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/request_actor.h"
#include "actors/served_model.h"
#include "runtime/actor.h"
#include "runtime/system.h"

namespace reprise::actors {

struct ModelSpec {
  std::string name;
  std::string path;
  std::string compute = "auto";
  std::string kv_dtype = "auto";
  std::string isa{};
};

struct EngineOptions {
  std::vector<ModelSpec> models{};
  WorkerOptions worker{};  // state_bytes 0: what suits the device
  bool cache = true;
  RegistryOptions registry{};  // budget_bytes 0: all of the state memory
  RequestLimits requests{};
  std::uint32_t most_requests = 1024;
  std::uint32_t most_idle = 4;  // requests that do idle work
  std::chrono::milliseconds longest_step{120'000};
  std::uint32_t most_reloads = 3;  // of a model, within reload_window
  std::chrono::minutes reload_window{10};
  std::function<void(const std::string&)> log{};  // may be empty; called from any thread
  /// The device cannot be used again in this process: its requests have been told, its models have failed.
  /// May be empty; a server ends itself here, for its service manager to start it anew.
  std::function<void(const std::string& why)> device_lost{};
};

/// What is served now. Threading: any thread; a short lock around a vector of pointers.
class ModelDirectory {
 public:
  struct Entry {
    protocol::ModelCard card;
    std::shared_ptr<const ServedModel> model;  // null: loading or failed
    std::string detail;                        // why
  };
  std::vector<Entry> all() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  /// By name; empty: the first.
  std::optional<Entry> find(const std::string& name) const;
  void set(Entry entry);
  void remove(const std::string& name);

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

/// The requests that run, to be told when their model is lost. Threading: any thread.
class RequestRoll {
 public:
  void add(runtime::RefOf<RequestActor> request);
  void tell_all(const ModelLost& lost);
  std::size_t size();

 private:
  std::mutex mutex_;
  std::vector<runtime::RefOf<RequestActor>> requests_;
  std::size_t prune_at_ = 64;
};

struct LoadModel {
  using Reply = protocol::Outcome<protocol::ModelCard, protocol::ServiceError>;
  ModelSpec spec;
};
struct UnloadModel {
  using Reply = bool;  // whether there was such a model
  std::string name;
};

class ModelSupervisor : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<LoadModel, UnloadModel, protocol::ArchFailed, protocol::InjectFault>;
  static constexpr const char* kName = "supervisor";
  static constexpr std::uint32_t kConcurrentHandlers = 256;

  ModelSupervisor(EngineOptions options, std::shared_ptr<ModelDirectory> directory,
                  std::shared_ptr<RequestRoll> requests);

  void on_start();
  void on(LoadModel load, runtime::ReplyTo<LoadModel::Reply> reply);
  runtime::Task<bool> on(UnloadModel unload);
  void on(protocol::ArchFailed failed);
  runtime::Task<protocol::Nothing> on(protocol::InjectFault fault);

 private:
  struct Managed {
    ModelSpec spec;
    protocol::ArchId arch{};
    std::string device;  // where it was loaded last
    runtime::RefOf<PrefixRegistry> registry;
    std::shared_ptr<RegistryFigures> figures = std::make_shared<RegistryFigures>();
    bool loading = false;
    std::vector<runtime::ReplyTo<LoadModel::Reply>> waiting;
    std::deque<runtime::TimePoint> reloads;
  };

  void spawn_worker();
  runtime::Task<void> load(std::string name);
  runtime::Task<void> reload(std::string name, std::string why);
  runtime::Task<void> watch_worker();
  runtime::Task<void> lose_device(std::string why);
  std::shared_ptr<const ServedModel> make_served(Managed& managed, const protocol::ArchLoaded& loaded);
  void publish_state(const Managed& managed, protocol::ModelCard::State state, const std::string& detail);
  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  EngineOptions options_;
  const std::shared_ptr<ModelDirectory> directory_;
  const std::shared_ptr<RequestRoll> requests_;
  runtime::RefOf<DeviceWorker> worker_;
  std::map<std::string, Managed> models_;
  bool device_lost_ = false;
};

}  // namespace reprise::actors
