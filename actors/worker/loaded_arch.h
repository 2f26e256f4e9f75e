#pragma once
// A model on a device: its weights and step runner, its state store, and the tables of its sequences and
// snapshots. All ids of it carry its generation.
//
// Threading: the device worker's thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "actors/worker/sequence_run.h"
#include "actors/worker/step_runner.h"
#include "gpu/snapshot_group.h"
#include "gpu/state_store.h"
#include "protocol/job.h"

namespace reprise::actors {

struct SnapshotRecord {
  gpu::Snapshot state;
  SharedTokens tokens;           // of which the state is
  protocol::SequenceId owner{};  // until it is adopted
  bool adopted = false;
  // Raw snapshots carry what their sequence needs to go on.
  bool raw = false;
  std::uint32_t prompt_end = 0;
  std::vector<float> logits{};
};

class LoadedArch {
 public:
  /// `memory`: where its state lives; none: on the host.
  LoadedArch(std::uint32_t generation, std::unique_ptr<StepRunner> runner, gpu::ByteBudget& budget,
             gpu::BlockMemory* memory);

  /// But for the device.
  protocol::ArchLoaded describe() const;

  StepRunner& runner() { return *runner_; }
  const models::Model& model() const { return runner_->model(); }
  gpu::StateStore& store() { return store_; }
  gpu::SnapshotGroup& adopted() { return adopted_; }
  std::uint32_t generation() const { return generation_; }
  DeviceRules rules() const { return runner_->rules(); }

  std::uint64_t page_bytes() const { return store_.sizes().page_bytes; }
  std::uint64_t slot_bytes() const { return store_.sizes().slot_bytes; }
  /// Of a sequence of so many tokens, the first `shared` of them in pages that others hold too.
  std::uint64_t price(std::uint64_t tokens, std::uint64_t shared = 0) const;

  SequenceRun* find(protocol::SequenceId id);
  SnapshotRecord* find(protocol::SnapshotId id);
  SequenceRun* find_ticket(std::uint64_t ticket);
  SequenceRun& add_sequence(std::uint64_t ticket);
  protocol::SnapshotId add_snapshot(SnapshotRecord record);
  void remove(protocol::SequenceId id);
  /// Bytes that came free.
  std::uint64_t remove(protocol::SnapshotId id);

  std::unordered_map<std::uint64_t, SequenceRun>& sequences() { return sequences_; }
  std::unordered_map<std::uint64_t, SnapshotRecord>& snapshots() { return snapshots_; }

  // Whom to ask for bytes.
  runtime::Ref<protocol::Reclaim> registry;
  std::function<std::int64_t()> oldest_use;
  std::uint64_t steps = 0;
  bool failed = false;  // a step failed: nothing more is computed until it is dropped

 private:
  const std::uint32_t generation_;
  gpu::ByteBudget& budget_;
  // The store outlives all that holds its blocks, and the runner goes first: it may be computing.
  std::unique_ptr<gpu::StateStore> store_holder_;
  gpu::StateStore& store_;
  gpu::SnapshotGroup adopted_;
  std::unordered_map<std::uint64_t, SnapshotRecord> snapshots_;
  std::unordered_map<std::uint64_t, SequenceRun> sequences_;
  std::unordered_map<std::uint64_t, std::uint64_t> tickets_;  // -> numbers of sequences
  std::uint64_t next_number_ = 1;
  std::unique_ptr<StepRunner> runner_;
};

}  // namespace reprise::actors
