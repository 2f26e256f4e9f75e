#include "actors/worker/prompt_compaction.h"

#include <utility>

namespace reprise::actors {

void PromptCompaction::compact(StateTable& table, SequenceRun& run) {
  if (!run.tail || !run.tail->covers(run.prompt_end)) {
    return run.end_work(
        {protocol::JobFault::kBadJob, "the last tokens of a prompt must be computed before it is compacted"});
  }
  const std::uint64_t bytes = (run.kv.tokens + gpu::kPageTokens - 1) / gpu::kPageTokens * table.page_bytes();
  const MemoryNeed need{.bytes = bytes, .block = table.page_bytes(), .needy = &run};
  while (memory_.find(need) == Room::kHere) {
    std::optional<gpu::PageRun> into = table.store().take_pages(run.kv.tokens);
    if (into) return compact_into(std::move(*into), table, run);
    if (budget_.has_room(0, need.block)) return;  // else the memory had no block: more must go
  }
}

void PromptCompaction::compact_into(gpu::PageRun pages, StateTable& table, SequenceRun& run) {
  compact_(table, {.sequence = &*run.state, .tail = run.tail.get(), .budget = run.kv, .into = &pages});
  run.kept = KvKept{.tokens = run.kv.tokens,
                    .bytes = pages.size() * table.page_bytes(),
                    .full_bytes = run.state->pages().size() * table.page_bytes()};
  run.state->replace_pages(std::move(pages), run.kv.tokens);
  run.tail.reset();
  run.priced_pages = run.priced_compacted;
  WorkerFigures::add(figures_.compactions);
  WorkerFigures::add(figures_.compacted_full_bytes, run.kept->full_bytes);
  WorkerFigures::add(figures_.compacted_kept_bytes, run.kept->bytes);
  run.trace.mark("compacted", {{"tokens", run.prompt_end}, {"kept", run.kv.tokens}});
  memory_.memory_changed();
}

}  // namespace reprise::actors
