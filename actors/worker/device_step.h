#pragma once
// DeviceStep: one step of one model, from who could run to what follows from it.
//
//   build()       who can run (actors/worker/batch.h decides), the pages that its tokens need, and the work for
//                 the model's runner. Checkpoints that are due are taken first, prompts that wait for it compacted.
//                 A prefill ends its slice at its next checkpoint; where the model can write states on the way
//                 (ModelRules::exports_slots) it passes them, unless the memory for one is still on the way.
//   the runner    computes work(); until it has, the sequences of the step are its own
//   take_apart()  tokens computed, checkpoints, logits and chosen tokens go to their sequences
//   clear()       sequences that were to be closed go
//
// Between build() and clear() a step is under way: its table must stay.
//
// PromptCompaction. When a prompt with a budget for its keys and values (base/kv_budget.h) has been computed, what is kept
// of it is gathered into pages of its own, and the sequence goes on with those. All checkpoints of the prompt have been
// taken by then, and hold its pages as they were. The pages are taken beside the prompt's own, and were promised with its
// admission; where others have them, the prompt waits for them like any slice.
//
// Threading: the device worker's thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "actors/worker/batch.h"
#include "actors/worker/memory_search.h"
#include "actors/worker/sequence_work.h"
#include "actors/worker/snapshot_jobs.h"
#include "actors/worker/step_runner.h"
#include "models/compaction.h"

namespace reprise::actors {

class PromptCompaction {
 public:
  /// Has the table's model choose and gather.
  using Compact = std::function<void(const StateTable&, const models::Compaction&)>;

  /// `budget`, `memory` and `figures` must outlive it.
  PromptCompaction(gpu::ByteBudget& budget, MemorySearch& memory, WorkerFigures& figures, Compact compact)
      : budget_(budget), memory_(memory), figures_(figures), compact_(std::move(compact)) {}

  /// Of a sequence for which it is due. It is still due afterwards where the memory is not there; its work has ended, with an
  /// error, where the queries are not.
  void compact(StateTable& table, SequenceRun& run);

 private:
  void compact_into(gpu::PageRun pages, StateTable& table, SequenceRun& run);

  gpu::ByteBudget& budget_;
  MemorySearch& memory_;
  WorkerFigures& figures_;
  const Compact compact_;
};

/// Of logits that a device changes before it draws, for one sequence and step.
inline constexpr std::size_t kMostAdjustments = 4096;

class DeviceStep {
 public:
  /// All of these must outlive it.
  DeviceStep(gpu::ByteBudget& budget, MemorySearch& memory, SnapshotJobs& snapshots,
             PromptCompaction& compaction, Decoding& decoding, WorkerFigures& figures)
      : budget_(budget),
        memory_(memory),
        snapshots_(snapshots),
        compaction_(compaction),
        decoding_(decoding),
        figures_(figures) {}

  /// The next step of this table's model. False: nobody can run, and no step is under way.
  bool build(StateTable& table, const BatchLimits& limits);
  StateTable* table() const { return table_; }  // null: no step is under way
  StepWork& work() { return work_; }
  std::size_t prefilled_tokens() const;  // by the step

  /// The runner has given the sequences back.
  void release_sequences();
  /// Of a step that has been computed, whose sequences have been released.
  void take_apart();
  /// True: sequences were closed.
  bool clear();
  /// Before its table goes, whatever the step is at.
  void drop_passed() { passed_.clear(); }

 private:
  std::vector<Runnable> runnable(StateTable& table);
  void add_slice(StateTable& table, const BatchSlice& slice);
  /// Checkpoints that the sequence passes between these places; gives where its slice ends.
  std::uint32_t pass_checkpoints(StateTable& table, SequenceRun& run, std::uint32_t at, std::uint32_t end);
  void take_passed(std::uint64_t key, SequenceRun& run, bool healthy);
  static void wish_hidden(SequenceRun& run, std::uint32_t at, std::uint32_t end, models::Slice& part);
  void finish_prefill(SequenceRun& run, std::span<const float> logits,
                      const std::optional<models::DrawnToken>& drawn);
  /// The reply's first token is drawn behind the prefill's last slice, where the device can.
  void draw_first(const SequenceRun& run, models::Slice& part);
  void end_prefill(StateTable& table, SequenceRun& run);

  gpu::ByteBudget& budget_;
  MemorySearch& memory_;
  SnapshotJobs& snapshots_;
  PromptCompaction& compaction_;
  Decoding& decoding_;
  WorkerFigures& figures_;

  StateTable* table_ = nullptr;
  StepWork work_;
  std::vector<std::uint64_t> prefills_;  // sequence numbers, as in work_
  std::vector<std::uint64_t> decodes_;
  std::vector<std::vector<TokenId>> tokens_;  // that the slices of work_ point into, as into these
  std::vector<std::vector<models::SlotExport>> exports_;
  struct FirstToken {
    models::DrawPlan plan;
    std::optional<models::DrawnToken> drawn{};
  };
  std::deque<FirstToken> first_tokens_;
  /// Checkpoints inside the slices, ascending within each.
  struct Passed {
    std::uint64_t key;  // of the sequence
    std::uint32_t at;
    std::optional<gpu::Snapshot> state;  // nothing: left out
  };
  std::vector<Passed> passed_;
};

}  // namespace reprise::actors
