#pragma once
// DeviceModels loads models and adapters onto a device, and drops them.
//
// Models and adapters are read by a loader (load_model.h), during steps if the device permits it. The
// loader calls `done` when it has finished; the worker then calls finish_load() or adapter_read(), which adds
// the result. An adapter waits for memory, so the worker calls add_adapters() in every round.
//
// A drop that names the model of a running step is deferred until drop_deferred(), because the step uses the
// model's sequences. Every drop is answered, also of a model that is unknown or has failed, and its answer
// finds the memory free: `freed` is called before.
//
// Errors of a load are its answer. Exceptions from the device's memory leave the call that caused them.
//
// Threading: the worker's thread. The destructor waits for loads in progress.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/device/admission.h"
#include "actors/device/batch.h"
#include "actors/device/device_state.h"
#include "actors/device/load_model.h"
#include "actors/device/memory_reclaimer.h"
#include "actors/device/step_runner.h"
#include "actors/device/worker_figures.h"
#include "actors/device/worker_settings.h"
#include "models/device.h"
#include "protocol/jobs/models.h"
#include "runtime/reply.h"

namespace reprise::actors {

/// A loaded model: its weights, its step runner, and the table of its sequences and snapshots. All ids carry
/// its generation.
class ModelInstance : public StateTable {
 public:
  /// `memory` holds the state; null: host memory.
  ModelInstance(std::uint32_t generation, std::unique_ptr<StepRunner> runner,
                const models::Fingerprint& fingerprint, gpu::ByteBudget& budget, gpu::BlockMemory* memory);

  /// Describes the model; the caller fills in the device.
  protocol::ArchLoaded describe() const;
  const models::Fingerprint& fingerprint() const { return fingerprint_; }

  StepRunner& runner() { return *runner_; }
  const models::Model& model() const { return runner_->model(); }

  /// The model's registry: reclaims bytes, and receives checkpoints.
  runtime::Ref<protocol::Reclaim, protocol::CheckpointTaken> registry;
  std::function<std::int64_t()> oldest_use;

 private:
  gpu::ByteBudget& budget_;
  const models::Fingerprint fingerprint_;
  std::unique_ptr<StepRunner> runner_;  // destroyed before the table: it may be computing
};

/// Ends the sequence's work and closes it, at the end of the step that includes it.
void close_sequence(StateTable& table, SequenceRun& run, MemoryReclaimer& memory);

class DeviceModels {
 public:
  using Models = std::vector<std::unique_ptr<ModelInstance>>;
  using LoadReply = runtime::ReplyTo<protocol::LoadArch::Reply>;
  using DropReply = runtime::ReplyTo<protocol::DropArch::Reply>;
  using AdapterReply = runtime::ReplyTo<protocol::LoadAdapter::Reply>;
  using AdapterDropReply = runtime::ReplyTo<protocol::DropAdapter::Reply>;
  /// Called on the loading thread when a load has finished.
  using Done = std::function<void()>;

  /// The references must outlive it. `freed` is called after a drop and before its answer.
  DeviceModels(const WorkerSettings& settings, DeviceState& state, MemoryReclaimer& memory,
               Admission& admission, WorkerFigures& figures, std::function<void()> freed);
  DeviceModels(const DeviceModels&) = delete;
  DeviceModels& operator=(const DeviceModels&) = delete;

  /// In the order of loading.
  const Models& all() const { return models_; }
  /// Returns null if no model has this generation.
  ModelInstance* find(std::uint32_t generation) const;
  /// The limits of a step. Requires: a model was loaded.
  const BatchLimits& limits() const { return limits_; }

  /// Opens the device at the first load, so that a bad setting is the answer to that load.
  void load(protocol::LoadArch job, LoadReply reply, Done done);
  void finish_load();
  void attach(protocol::AttachRegistry job);
  /// `in_step`: the model of the running step; null: none runs.
  void drop(const protocol::DropArch& job, DropReply reply, const StateTable* in_step);

  void load_adapter(const protocol::LoadAdapter& job, AdapterReply reply, Done done);
  void adapter_read();
  /// Adds the adapters for which there is memory; refuses them if none can be freed. Requires: no step runs.
  void add_adapters();
  void drop(const protocol::DropAdapter& job, AdapterDropReply reply, const StateTable* in_step);

  /// Requires: no step runs.
  void drop_deferred();

  /// Destroys all models; waits for the step of each.
  void clear() { models_.clear(); }

 private:
  static std::uint32_t next_generation();
  void open_device();
  protocol::ArchLoaded add(LoadedModel loaded);
  /// Adds an adapter whose `bytes` the caller has taken from the budget.
  protocol::LoadAdapter::Reply add(ModelInstance& model, const models::Adapter& adapter, std::uint64_t bytes);
  void drop(std::uint32_t generation, DropReply reply);
  void drop(protocol::AdapterId adapter, AdapterDropReply reply);

  const WorkerSettings& settings_;
  DeviceState& state_;
  MemoryReclaimer& memory_;
  Admission& admission_;
  WorkerFigures& figures_;
  const std::function<void()> freed_;

  std::unique_ptr<models::Device> device_;  // null until a model is loaded
  BatchLimits limits_;
  Models models_;                                    // their tables are in state_
  std::vector<AdapterLoads::Result> adapters_read_;  // wait for memory or the end of a step
  std::vector<std::pair<std::uint32_t, DropReply>> deferred_;
  std::vector<std::pair<protocol::AdapterId, AdapterDropReply>> deferred_adapters_;
  // Last members: their destructors wait for loads in progress, a model load also for a device operation.
  AdapterLoads adapter_loads_{"adapter loader"};
  ModelLoads loads_{"model loader"};
};

}  // namespace reprise::actors
