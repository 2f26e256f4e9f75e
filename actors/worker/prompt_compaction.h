#pragma once
// PromptCompaction: when a prompt with a budget for its keys and values (base/kv_budget.h) has been computed, what is kept of it
// is gathered into pages of its own, and the sequence goes on with those.
//
// All checkpoints of the prompt have been taken by then, and hold its pages as they were. The pages are taken beside the
// prompt's own, and were promised with its admission; where others have them, the prompt waits for them like any slice.
//
// Threading: the device worker's thread, while no step is under way.

#include <functional>

#include "actors/worker/memory_search.h"
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

}  // namespace reprise::actors
