#pragma once
// SnapshotJobs takes snapshots of sequences and restores sequences from them.
//
// Snapshots. Memory for a raw snapshot was reserved at admission, so it waits until that is free. A canonical
// one is optional: it uses only memory that is not reserved, waits for a reclaim in progress, and is skipped
// if that frees too little. States with non-finite values are not kept. A canonical snapshot with a plan is a
// checkpoint; the registry is told of it, and of checkpoints that a prefill skipped. When memory fills up,
// checkpoints of least value are skipped: every second spaced one of a prompt, counted from its end, and
// those inside replies.
//
// Restores. The state goes to the sequence's own slot if it has one. If memory is short, a restore of a raw
// snapshot waits until the worker gives it up, another at most `patience`, since its tokens can be computed
// instead. A snapshot of another adapter is refused. A snapshot of other tokens, or with a wrong checksum, is
// dropped. Waiting jobs are retried in every round, the oldest sequence first. Loading a state from a lower
// tier follows the same rules.
//
// Threading: the device worker's thread.

#include <chrono>
#include <functional>
#include <optional>

#include "actors/device/device_state.h"
#include "actors/device/memory_reclaimer.h"
#include "actors/device/worker_figures.h"

namespace reprise::actors {

class SnapshotJobs {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using TakenReply = runtime::ReplyTo<protocol::JobResult<protocol::SnapshotTaken>>;
  using RestoredReply = runtime::ReplyTo<protocol::JobResult<protocol::Restored>>;

  /// Reports a checkpoint to the registry of the table's model. Returns false if the model has none.
  using Report = std::function<bool(const StateTable&, protocol::CheckpointTaken)>;

  /// `state`, `memory` and `figures` must outlive it.
  SnapshotJobs(DeviceState& state, MemoryReclaimer& memory, WorkerFigures& figures,
               std::chrono::milliseconds patience, Report report)
      : state_(state), memory_(memory), figures_(figures), patience_(patience), report_(std::move(report)) {}

  /// Prepares a checkpoint that the next step passes. With a `state`, the step writes it. Without one, the
  /// checkpoint is skipped, unless `availability` is kComing: then the step must end at the checkpoint.
  struct Begun {
    Availability availability = Availability::kNone;
    std::optional<gpu::Snapshot> state{};
  };
  Begun begin_checkpoint(StateTable& table, const SequenceRun& run, std::uint32_t at);
  /// Keeps and reports a checkpoint that the step has passed, the first that the prefill still has to take.
  /// `healthy` is false if logits showed non-finite values.
  void end_checkpoint(StateTable& table, SequenceRun& run, std::uint32_t at,
                      std::optional<gpu::Snapshot> state, bool healthy);
  /// Takes the checkpoint that a prefill has reached. Leaves it due if a reclaim for it is in progress.
  void take_checkpoint(StateTable& table, SequenceRun& run);
  /// Skips and reports a checkpoint whose state is not finite, as the logits showed.
  void skip_unhealthy_checkpoint(StateTable& table, SequenceRun& run);
  /// Takes a checkpoint inside a reply, or skips it if there is no memory: decoding never waits for it.
  void take_reply_checkpoint(StateTable& table, SequenceRun& run, const protocol::SharedPlan& plan);

  void snapshot(protocol::SnapshotKv job, TakenReply reply);
  void restore(const protocol::RestoreKv& job, RestoredReply reply, Time now);
  void load(protocol::LoadKv job, RestoredReply reply, Time now);
  /// Reads an adopted snapshot; others may be freed before the reader uses them. One that does not match its
  /// checksums is dropped, so that no tier keeps it.
  protocol::ReadKv::Reply read(const protocol::ReadKv& job);

  /// Retries waiting jobs. Returns false if some still wait for memory.
  bool try_waiting(Time now);
  /// Returns the time at which the first waiting restore gives up; nullopt if none waits.
  std::optional<Time> patience_ends() const;

 private:
  struct Capture {
    Availability availability = Availability::kNone;
    bool healthy = true;
    std::optional<protocol::SnapshotTaken> taken{};
    SharedTokens tokens{};  // tokens of the snapshot
  };
  Capture capture(StateTable& table, SequenceRun& run, protocol::SnapshotKv::Kind kind);
  /// Adds the captured state of the first `at` tokens to the table if it is finite.
  void keep(StateTable& table, SequenceRun& run, std::uint32_t at, gpu::Snapshot state, bool raw,
            Capture& capture);
  /// Returns true if the checkpoint is skipped because memory fills up. Those that other requests wait for
  /// are not.
  bool is_spared(const SequenceRun& run, std::uint32_t at);
  bool report(const StateTable& table, const SequenceRun& run, const protocol::SharedPlan& plan,
              std::uint32_t at, const Capture& capture);
  void try_snapshot(StateTable& table, SequenceRun& run);
  void begin_restore(StateTable& table, SequenceRun& run, RestoredReply reply);
  void try_restore(StateTable& table, SequenceRun& run, Time now);
  void try_load(StateTable& table, SequenceRun& run, Time now);
  static void end_restore(SequenceRun& run, protocol::JobResult<protocol::Restored> result);
  void drop_damaged(StateTable& table, protocol::SnapshotId snapshot);

  DeviceState& state_;
  MemoryReclaimer& memory_;
  WorkerFigures& figures_;
  const std::chrono::milliseconds patience_;
  const Report report_;
};

}  // namespace reprise::actors
