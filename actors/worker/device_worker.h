#pragma once
// DeviceWorker: the one owner of a device. Weights, pages, slots and snapshots are its alone; everybody else
// holds ids and sends jobs (protocol/job.h).
//
// It computes in steps and takes messages between them, so that whatever is asked waits for one step at most; on a
// GPU, or for a model that is being loaded (LoadQueue: elsewhere that goes on aside). Work on a sequence:
// OpenSequence, then RestoreKv or nothing, Prefill, Decode, CloseSequence.
//
// The actor routes, owns the device and waits; what is decided is decided by plain classes, each with its rules in
// its header:
//   DeviceState    the models' tables (StateTable: sequences, snapshots, who owns them) and the one budget of bytes
//   Admission      who gets a sequence, and when: prices, promises, shares of tenants
//   MemorySearch   where bytes come from: the registries, then sequences that give way
//   SnapshotJobs   what is kept of a sequence and restored into one; checkpoints go to the registry from here
//   PromptCompaction  what is kept of a prompt that has a budget
//   DeviceStep     one step: who runs (batch.h), its work for the StepRunner, what follows from it
//   Decoding       the next token, and its way to the reader
//   LoadQueue      models and adapters that are being read, beside the steps
//
// Rounds. Every message may have made work possible, and posts one RunStep. A round first tries jobs that wait for
// memory, then admits, then builds a step, of one model after the other. Where nothing runs and somebody is short,
// the worker does not poll: whatever frees memory, or lets a registry free some, is a message (CloseSequence, a
// drop, MoreToReclaim). It sets one clock, to give up when somebody has been short for `patience`.
//
// Faults. A step that throws fails its model: every job on it ends with kDeviceFailed, its sequences and
// snapshots go, and the supervisor is told, until DropArch. Drops answer all the while. A device that cannot
// be used again in this process (gpu::DeviceLost) is told of besides.
//
// Failure: whatever else leaves a handler ends the actor. Its supervisor watches it and replaces it, as it does
// with one that hangs.
//
// Threading: an actor on a thread of its own, which computes in its turns.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/worker/admission.h"
#include "actors/worker/device_step.h"
#include "actors/worker/load_model.h"
#include "actors/worker/memory_search.h"
#include "actors/worker/snapshot_jobs.h"
#include "actors/worker/worker_figures.h"
#include "actors/worker/worker_settings.h"
#include "models/device.h"
#include "protocol/job.h"
#include "runtime/actor.h"

namespace reprise::actors {

struct WorkerOptions : WorkerSettings {
  std::shared_ptr<WorkerFigures> figures{};  // none: the worker makes its own
  runtime::Ref<protocol::ArchFailed> supervisor{};
};

class DeviceWorker : public runtime::Actor {
 public:
  struct RunStep {};
  struct StepDone {};
  struct LoadDone {};
  struct AdapterRead {};
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

  void on(protocol::LoadArch job, runtime::ReplyTo<protocol::JobResult<protocol::ArchLoaded>> reply);
  void on(protocol::AttachRegistry job);
  void on(protocol::DropArch job, runtime::ReplyTo<protocol::ArchDropped> reply);
  void on(protocol::LoadAdapter job, runtime::ReplyTo<protocol::JobResult<protocol::AdapterLoaded>> reply);
  void on(protocol::DropAdapter job, runtime::ReplyTo<protocol::AdapterDropped> reply);
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
  class LoadedArch;

  // -- jobs
  void open_device();
  static std::uint32_t next_generation();
  protocol::ArchLoaded take_in(LoadedModel loaded);
  LoadedArch* arch_of(std::uint32_t generation);
  void kick();
  void publish();
  void drop_arch(std::uint32_t generation, runtime::ReplyTo<protocol::ArchDropped> reply);
  void close(StateTable& table, SequenceRun& run);

  // -- adapters
  void take_in_adapters();
  /// Whose bytes were taken from the budget.
  protocol::JobResult<protocol::AdapterLoaded> take_in(LoadedArch& arch, const models::Adapter& adapter,
                                                       std::uint64_t bytes);
  void drop_adapter(protocol::AdapterId adapter, runtime::ReplyTo<protocol::AdapterDropped> reply);

  // -- steps, and what they wait for
  void run_step();
  void start_step(LoadedArch& arch);
  void finish_step();
  void clear_step();
  runtime::Task<void> write_when_credited(protocol::SequenceId id, protocol::DecodeEvent event);
  runtime::Task<void> reclaim(std::uint64_t bytes, bool ahead);
  bool report(std::uint32_t generation, protocol::CheckpointTaken taken);
  void wait_for_memory(std::chrono::steady_clock::time_point now);
  runtime::Task<void> look_again_at(std::chrono::steady_clock::time_point time);
  bool give_up_one();

  // -- faults
  // Does `work`, which touches the device's memory. False: it threw, and all models fail, at once or when the
  // step that runs has ended.
  bool survives(const std::function<void()>& work);
  void fail_all();
  void fail_arch(LoadedArch& arch, const std::string& why, bool device_lost = false);

  WorkerOptions options_;
  const std::shared_ptr<WorkerFigures> figures_;
  std::unique_ptr<models::Device> device_;  // none until a model is loaded
  BatchLimits limits_;
  DeviceState state_;
  std::vector<std::unique_ptr<LoadedArch>> archs_;  // whose tables are in state_
  std::uint32_t turn_ = 0;                          // whose model's step is next

  MemorySearch memory_;
  Admission admission_;
  SnapshotJobs snapshots_;
  PromptCompaction compaction_;
  Decoding decoding_;
  DeviceStep step_;
  WorkerPlots plots_;

  bool step_runs_ = false;  // on the runner's thread
  std::vector<std::pair<std::uint32_t, runtime::ReplyTo<protocol::ArchDropped>>> drops_after_step_;
  std::vector<std::pair<protocol::AdapterId, runtime::ReplyTo<protocol::AdapterDropped>>>
      adapter_drops_after_step_;
  std::vector<AdapterLoads::Result> adapters_read_;  // wait for the end of a step, or for memory
  bool step_posted_ = false;
  bool arrivals_taken_ = false;
  bool clock_is_set_ = false;  // look_again_at() is under way
  /// Somebody has been short without a break, and nothing has run.
  std::optional<std::chrono::steady_clock::time_point> short_since_;
  struct Broken {
    std::string why;
    bool device_lost;
  };
  std::optional<Broken> broken_;  // the device failed outside of a step
  // Last: their ends wait for what is being read, the model's for one that comes to the device.
  AdapterLoads adapter_loads_{"adapter loader"};
  ModelLoads loads_{"model loader"};
};

}  // namespace reprise::actors
