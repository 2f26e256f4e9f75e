#pragma once
// DeviceStep prepares one step of one model and applies its results:
//
//   build()       chooses the sequences (actors/device/batch.h), finds pages for their tokens, and fills in
//                 the work for the model's runner. It first takes checkpoints and compacts prompts that are
//                 due. A prefill's slice ends at its next checkpoint; if the model can write states during a
//                 step (ModelRules::exports_slots), it passes the checkpoint instead, unless the memory for
//                 it is still being reclaimed.
//   the runner    computes work() and owns the sequences of the step meanwhile
//   take_apart()  applies tokens, checkpoints, logits and sampled tokens to their sequences
//   clear()       removes sequences that were closed during the step
//
// From build() to clear() a step is in progress, and its table must not be removed.
//
// PromptCompaction compacts a prompt that has a KV budget (base/kv_budget.h) after its prefill: the kept
// entries are gathered into new pages, with which the sequence continues. The checkpoints of the prompt are
// taken before that and keep the original pages. The new pages were reserved at admission; if others hold
// them, the prompt waits like any slice.
//
// Threading: the device worker's thread.

#include <cstdint>
#include <functional>
#include <vector>

#include "actors/device/batch.h"
#include "actors/device/memory_reclaimer.h"
#include "actors/device/sequence_work.h"
#include "actors/device/snapshot_jobs.h"
#include "actors/device/step_runner.h"
#include "models/compaction.h"

namespace reprise::actors {

class PromptCompaction {
 public:
  /// Lets the model of the table choose the kept entries and gather them.
  using Compact = std::function<void(const StateTable&, const models::Compaction&)>;

  /// `budget`, `memory` and `figures` must outlive it.
  PromptCompaction(gpu::ByteBudget& budget, MemoryReclaimer& memory, WorkerFigures& figures, Compact compact)
      : budget_(budget), memory_(memory), figures_(figures), compact_(std::move(compact)) {}

  /// Compacts the prompt of a sequence. Requires: compaction_is_due(). Without memory the compaction stays
  /// due. If the queries of the last tokens are missing, the work of the sequence ends with an error.
  void compact(StateTable& table, SequenceRun& run);

 private:
  void compact_into(gpu::PageRun pages, StateTable& table, SequenceRun& run);

  gpu::ByteBudget& budget_;
  MemoryReclaimer& memory_;
  WorkerFigures& figures_;
  const Compact compact_;
};

/// The largest number of logits that the device adjusts per sequence and step before it samples.
inline constexpr std::size_t kMaxAdjustments = 4096;

class DeviceStep {
 public:
  /// All arguments must outlive it.
  DeviceStep(gpu::ByteBudget& budget, MemoryReclaimer& memory, SnapshotJobs& snapshots,
             PromptCompaction& compaction, Decoding& decoding, WorkerFigures& figures)
      : budget_(budget),
        memory_(memory),
        snapshots_(snapshots),
        compaction_(compaction),
        decoding_(decoding),
        figures_(figures) {}

  /// Prepares the next step of the model. Returns false if nothing can run; then no step is in progress.
  bool build(StateTable& table, const BatchLimits& limits);
  StateTable* table() const { return table_; }  // null: no step is in progress
  StepWork& work() { return work_; }
  std::size_t prefilled_tokens() const;

  /// Takes the sequences back from the runner, which has finished.
  void release_sequences();
  /// Applies the results of the step. Requires: release_sequences().
  void take_apart();
  /// Ends the step. Returns true if it closed sequences.
  bool clear();
  /// Frees the checkpoints of the step before its table is removed.
  void drop_passed() { passed_.clear(); }

 private:
  std::vector<Runnable> runnable(StateTable& table);
  void add_slice(StateTable& table, const BatchSlice& slice);
  /// Prepares the checkpoints between `at` and `end` and returns where the slice must end.
  std::uint32_t pass_checkpoints(StateTable& table, SequenceRun& run, std::uint32_t at, std::uint32_t end);
  void take_passed(std::uint64_t key, SequenceRun& run, bool healthy);
  static void request_hidden(SequenceRun& run, std::uint32_t at, std::uint32_t end, models::Slice& part);
  void finish_prefill(SequenceRun& run, std::span<const float> logits);
  void end_prefill(StateTable& table, SequenceRun& run);

  gpu::ByteBudget& budget_;
  MemoryReclaimer& memory_;
  SnapshotJobs& snapshots_;
  PromptCompaction& compaction_;
  Decoding& decoding_;
  WorkerFigures& figures_;

  StateTable* table_ = nullptr;
  StepWork work_;
  std::vector<std::uint64_t> prefills_;  // numbers of the sequences in work_, in its order
  std::vector<std::uint64_t> decodes_;
  std::vector<std::vector<TokenId>> tokens_;  // the slices of work_ point into these
  std::vector<std::vector<models::SlotExport>> exports_;
  /// Checkpoints inside slices, ascending within each.
  struct Passed {
    std::uint64_t key;
    std::uint32_t at;
    std::optional<gpu::Snapshot> state;  // nullopt: skipped
  };
  std::vector<Passed> passed_;
};

}  // namespace reprise::actors
