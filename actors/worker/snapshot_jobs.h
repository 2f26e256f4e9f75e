#pragma once
// SnapshotJobs: takes snapshots of sequences, and restores sequences from them.
//
// One function captures, whoever asks: the checkpoints of a prefill, and SnapshotKv. A raw snapshot was promised
// when its sequence was admitted, and waits for its memory; a canonical one is worth less than what others were
// promised: it waits for what the registries give back, and is skipped where that is nothing. States that are
// not finite are never kept. A canonical one with a plan is a checkpoint, of which the registry is told; so it is
// of those that a prefill missed. While memory fills, places that are worth least are left out: every second of the
// spaced ones of a prompt, counted from its end, and those inside replies.
//
// A restore into a sequence uses the sequence's own slot where it has one. Where memory is short it is looked
// for: a raw snapshot is waited for, another for `patience`, since what it holds can be computed. One of another
// adapter than the sequence's is not restored, whoever asks. A snapshot
// that is of other tokens, or is not what it was when it was taken, is dropped. Jobs that wait stay with their
// sequence and are tried again in every round, the oldest sequence's first. A state from a tier below is loaded by the
// same rules.
//
// Threading: the device worker's thread.

#include <chrono>
#include <functional>
#include <optional>

#include "actors/worker/device_state.h"
#include "actors/worker/memory_search.h"
#include "actors/worker/worker_figures.h"

namespace reprise::actors {

class SnapshotJobs {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using TakenReply = runtime::ReplyTo<protocol::JobResult<protocol::SnapshotTaken>>;
  using RestoredReply = runtime::ReplyTo<protocol::JobResult<protocol::Restored>>;

  /// Tells the registry of the table's model; false: there is none.
  using Report = std::function<bool(const StateTable&, protocol::CheckpointTaken)>;

  /// `state`, `memory` and `figures` must outlive it.
  SnapshotJobs(DeviceState& state, MemorySearch& memory, WorkerFigures& figures,
               std::chrono::milliseconds patience, Report report)
      : state_(state), memory_(memory), figures_(figures), patience_(patience), report_(std::move(report)) {}

  /// Of a prefill's checkpoint that its next step passes. With a state, for the step to write; without one the place is
  /// left out, unless room is kComing: then the step must end there.
  struct Begun {
    Room room = Room::kNone;
    std::optional<gpu::Snapshot> state{};
  };
  Begun begin_checkpoint(StateTable& table, const SequenceRun& run, std::uint32_t at);
  /// The step has passed it, and with it the first of the prefill's checkpoints. `healthy`: as far as logits tell.
  void end_checkpoint(StateTable& table, SequenceRun& run, std::uint32_t at,
                      std::optional<gpu::Snapshot> state, bool healthy);
  /// Of a prefill that stands at a checkpoint. Leaves it due if its memory is on the way.
  void take_checkpoint(StateTable& table, SequenceRun& run);
  /// The same where the logits have told that the state is not finite.
  void skip_unhealthy_checkpoint(StateTable& table, SequenceRun& run);
  /// Of a reply that has come to one. Its decoding never waits for it: without room there is none.
  void take_reply_checkpoint(StateTable& table, SequenceRun& run, const protocol::SharedPlan& plan);

  void snapshot(protocol::SnapshotKv job, TakenReply reply);
  void restore(const protocol::RestoreKv& job, RestoredReply reply, Time now);
  void load(protocol::LoadKv job, RestoredReply reply, Time now);
  /// Of an adopted one: what a sequence still owns may be gone when it is wanted.
  protocol::ReadKv::Reply read(const protocol::ReadKv& job) const;

  /// False: some still wait for memory.
  bool try_waiting(Time now);
  /// When the patience of the first restore that waits ends; nothing: none has to be woken.
  std::optional<Time> patience_ends() const;

 private:
  struct Capture {
    Room room = Room::kNone;
    bool healthy = true;
    std::optional<protocol::SnapshotTaken> taken{};
    SharedTokens tokens{};  // of what was taken
  };
  Capture capture(StateTable& table, SequenceRun& run, protocol::SnapshotKv::Kind kind);
  /// What has been captured of its first `at` tokens becomes the table's, if it is healthy.
  void keep(StateTable& table, SequenceRun& run, std::uint32_t at, gpu::Snapshot state, bool raw,
            Capture& capture);
  /// A place that is left out while memory fills, unless another waits for it.
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
  MemorySearch& memory_;
  WorkerFigures& figures_;
  const std::chrono::milliseconds patience_;
  const Report report_;
};

}  // namespace reprise::actors
