#pragma once
// DeviceWorker owns a device: weights, pages, slots and snapshots. Other actors hold ids and send jobs
// (protocol/jobs/).
//
// It computes in steps and handles messages between them, so a message waits for at most one step, and on a
// GPU for a model being loaded. The jobs of a sequence are OpenSequence, optionally RestoreKv, Prefill,
// Decode, CloseSequence.
//
// The actor routes messages and waits. Decisions are made by plain classes:
//   DeviceState    the models' tables (sequences, snapshots and their owners) and the memory budget
//   Admission      the order of admission, costs, reservations, tenants' shares
//   MemoryReclaimer  frees memory: asks the registries, then preempts sequences
//   SnapshotJobs   takes and restores snapshots; reports checkpoints to the registry
//   PromptCompaction  compacts prompts that have a KV budget
//   DeviceStep     prepares a step (batch.h) and applies its results
//   Decoding       samples tokens and sends them to readers
//   DeviceModels   loads and drops models and adapters
//
// Rounds. Each message may make work possible and posts one RunStep. A round retries jobs that wait for
// memory, admits requests, and builds a step; models take turns. If nothing runs and a job lacks memory, the
// worker does not poll: whatever frees memory is a message (CloseSequence, a drop, MoreToReclaim). A timer
// ends the wait after `patience`.
//
// Faults. A step that throws fails its model: its jobs end with kDeviceFailed, its sequences and snapshots
// are freed, and the supervisor is told. Drops are still answered, until DropArch. If the device cannot be
// used again in this process (gpu::DeviceLost), the message says so.
//
// Failure: any other exception from a handler ends the actor. Its supervisor replaces it, as it replaces one
// whose step hangs.
//
// Threading: an actor with its own thread, on which it computes.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/device/admission.h"
#include "actors/device/device_models.h"
#include "actors/device/device_step.h"
#include "actors/device/memory_reclaimer.h"
#include "actors/device/snapshot_jobs.h"
#include "actors/device/worker_figures.h"
#include "actors/device/worker_settings.h"
#include "protocol/jobs/models.h"
#include "protocol/jobs/sequences.h"
#include "runtime/actor.h"

namespace reprise::actors {

struct WorkerOptions : WorkerSettings {
  std::shared_ptr<WorkerFigures> figures{};  // null: the worker makes its own
  runtime::Ref<protocol::ArchFailed> supervisor{};
};

class DeviceWorker : public runtime::Actor {
 public:
  // From the worker to itself. Releases: none is sent again if a full mailbox refuses it.
  struct RunStep {
    static constexpr bool kReleases = true;
  };
  struct StepDone {
    static constexpr bool kReleases = true;
  };
  struct LoadDone {
    static constexpr bool kReleases = true;
  };
  struct AdapterRead {
    static constexpr bool kReleases = true;
  };
  using Accepts =
      runtime::Messages<protocol::LoadArch, protocol::AttachRegistry, protocol::DropArch,
                        protocol::LoadAdapter, protocol::DropAdapter, protocol::OpenSequence,
                        protocol::CloseSequence, protocol::Cancel, protocol::LeaveOff, protocol::RestoreKv,
                        protocol::LoadKv, protocol::ReadKv, protocol::SnapshotKv, protocol::AdoptKvSnapshot,
                        protocol::DropKvSnapshot, protocol::DropAdopted, protocol::MoreToReclaim,
                        protocol::Prefill, protocol::AddCheckpoint, protocol::Decode, protocol::MaskReady,
                        protocol::QueryMemory, RunStep, StepDone, LoadDone, AdapterRead>;
  static constexpr const char* kName = "device";

  explicit DeviceWorker(WorkerOptions options);
  ~DeviceWorker() override;

  void on(protocol::LoadArch job, DeviceModels::LoadReply reply);
  void on(protocol::AttachRegistry job);
  void on(protocol::DropArch job, DeviceModels::DropReply reply);
  void on(protocol::LoadAdapter job, DeviceModels::AdapterReply reply);
  void on(protocol::DropAdapter job, DeviceModels::AdapterDropReply reply);
  void on(protocol::OpenSequence job, runtime::ReplyTo<protocol::JobResult<protocol::Opened>> reply);
  void on(protocol::CloseSequence job);
  void on(protocol::Cancel job);
  void on(protocol::LeaveOff job);
  void on(protocol::RestoreKv job, runtime::ReplyTo<protocol::JobResult<protocol::Restored>> reply);
  void on(protocol::LoadKv job, runtime::ReplyTo<protocol::JobResult<protocol::Restored>> reply);
  protocol::ReadKv::Reply on(protocol::ReadKv job);
  void on(protocol::SnapshotKv job, runtime::ReplyTo<protocol::JobResult<protocol::SnapshotTaken>> reply);
  protocol::JobResult<protocol::Adopted> on(protocol::AdoptKvSnapshot job);
  protocol::Dropped on(protocol::DropKvSnapshot job);
  protocol::Dropped on(protocol::DropAdopted job);
  void on(protocol::MoreToReclaim job);
  void on(protocol::Prefill job, runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>> reply);
  bool on(protocol::AddCheckpoint job);
  void on(protocol::Decode job);
  void on(protocol::MaskReady ready);
  protocol::Memory on(protocol::QueryMemory);
  void on(RunStep);
  void on(StepDone);
  void on(LoadDone);
  void on(AdapterRead);

 private:
  void kick();
  void publish();

  // -- steps and waits
  void run_step();
  void start_step(ModelInstance& arch);
  void finish_step();
  void clear_step();
  runtime::Task<void> write_when_credited(protocol::SequenceId id, protocol::DecodeEvent event);
  runtime::Task<void> reclaim(std::uint64_t bytes, bool ahead);
  bool report(std::uint32_t generation, protocol::CheckpointTaken taken);
  void wait_for_memory(std::chrono::steady_clock::time_point now);
  runtime::Task<void> look_again_at(std::chrono::steady_clock::time_point time);
  bool give_up_one();

  // -- faults
  // Runs `work`, which uses device memory. Returns false if it threw: then all models fail, at once or when
  // the step in progress has ended.
  bool survives(const std::function<void()>& work);
  void fail_all();
  void fail_arch(ModelInstance& arch, const std::string& why, bool device_lost = false);

  WorkerOptions options_;
  const std::shared_ptr<WorkerFigures> figures_;
  DeviceState state_;
  std::uint32_t turn_ = 0;  // index of the next model

  MemoryReclaimer memory_;
  Admission admission_;
  SnapshotJobs snapshots_;
  PromptCompaction compaction_;
  Decoding decoding_;
  DeviceStep step_;
  WorkerPlots plots_;

  bool step_runs_ = false;
  bool step_posted_ = false;
  bool arrivals_taken_ = false;
  bool clock_is_set_ = false;  // look_again_at() is in progress
  /// Since when jobs have lacked memory while nothing ran.
  std::optional<std::chrono::steady_clock::time_point> short_since_;
  struct Broken {
    std::string why;
    bool device_lost;
  };
  std::optional<Broken> broken_;  // failure outside of a step
  DeviceModels models_;           // last: its destructor waits for loads in progress
};

}  // namespace reprise::actors
