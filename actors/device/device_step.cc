#include "actors/device/device_step.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/digest.h"
#include "traces/trace.h"

namespace reprise::actors {

using protocol::Error;
using protocol::ErrorKind;
using Phase = SequenceRun::Phase;

namespace {

// No early exit, so that the compiler vectorizes it: a row may have hundreds of thousands of logits.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t infinite = 0;
  for (const float value : values) {
    infinite |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  }
  return infinite == 0;
}

}  // namespace

// -- building

bool DeviceStep::build(StateTable& table, const BatchLimits& limits) {
  static constexpr traces::ZoneSite kSite{"build step"};
  const traces::Zone zone(kSite);
  BatchLimits on_grid = limits;
  on_grid.grid = table.rules().grid;
  if (table.rules().phases_mix) on_grid.gather_from = 0;
  const std::vector<Runnable> able = runnable(table);
  const std::vector<BatchSlice> batch = plan_batch(able, on_grid, table.steps + 1);
  work_ = {};
  prefills_.clear();
  decodes_.clear();
  tokens_.clear();
  tokens_.reserve(batch.size());  // slices point into it
  exports_.clear();
  exports_.reserve(batch.size());
  passed_.clear();
  for (const BatchSlice& slice : batch) add_slice(table, slice);
  table_ = tokens_.empty() ? nullptr : &table;
  return table_ != nullptr;
}

std::vector<Runnable> DeviceStep::runnable(StateTable& table) {
  std::vector<Runnable> able;
  for (auto& [number, run] : table.sequences()) {
    if (!run.state || run.closing || run.in_step || !run.computes()) continue;
    if (run.checkpoint_is_due()) {
      snapshots_.take_checkpoint(table, run);
      if (run.checkpoint_is_due()) continue;  // its memory is being reclaimed
    }
    if (run.prompt_is_computed()) {  // it is complete but was not compacted for lack of memory
      end_prefill(table, run);
      if (run.phase != Phase::kDecode) continue;
    }
    Runnable one{.key = number,
                 .decodes = false,
                 .at = run.held_tokens(),
                 .stop_at = run.prompt_end,
                 .end = run.prompt_end,
                 .priority = run.priority,
                 .order = run.order,
                 .last_step = run.last_step};
    if (run.phase == Phase::kPrefill) {
      if (!run.prefill.checkpoints.empty() && !table.rules().exports_slots)
        one.stop_at = run.prefill.checkpoints.front();
    } else if (one.at < run.settled()) {  // recomputes a preempted state
      if (table.rules().replays_decoding) one.stop_at = one.end = run.settled();
      one.decodes = one.at >= one.stop_at;
    } else {
      if (run.decode.awaits_credit || run.decode.awaits_mask) continue;
      one.decodes = true;
    }
    able.push_back(one);
  }
  return able;
}

// Adds a slice to the step, or skips it if there is no memory for its tokens.
void DeviceStep::add_slice(StateTable& table, const BatchSlice& slice) {
  const auto found = table.sequences().find(slice.key);
  if (found == table.sequences().end()) return;
  SequenceRun& run = found->second;
  if (!run.state || run.phase == Phase::kIdle) return;  // preempted for an earlier slice
  const std::uint32_t at = run.held_tokens();
  std::uint32_t end = at + slice.tokens;
  const std::uint64_t kv_entries = run.state->stored() + slice.tokens;
  const std::uint64_t pages = (kv_entries + gpu::kPageTokens - 1) / gpu::kPageTokens;
  const std::uint64_t new_pages = pages - std::min<std::uint64_t>(pages, run.state->pages().size());
  const MemoryNeed need{.bytes = new_pages * table.page_bytes(),
                        .block = new_pages > 0 ? table.page_bytes() : 0,
                        .needy = &run};
  for (;;) {
    if (memory_.find(need) != Availability::kHere) return;
    if (run.state->reserve(slice.tokens)) break;
    if (budget_.has_room(0, need.block)) return;  // otherwise no block was free: reclaim more
  }
  const std::size_t passed_before = passed_.size();
  if (!slice.decodes && run.phase == Phase::kPrefill) end = pass_checkpoints(table, run, at, end);
  std::vector<TokenId>& tokens = tokens_.emplace_back();
  for (std::uint32_t i = at; i < end; ++i) tokens.push_back(run.token_at(i));
  run.in_step = true;
  run.step_end = end;
  run.last_step = table.steps + 1;
  models::Slice part{.sequence = &*run.state,
                     .tokens = tokens,
                     .logits = models::Slice::Logits::kLast,
                     .adapter = run.adapter};
  if (slice.decodes) {
    // Recomputed rows sample nothing.
    const bool chooses = table.facts().draws && end > run.settled();
    work_.decodes.slices.push_back(part);
    work_.decodes.plans.push_back(chooses ? run.decode.sampler->plan(kMaxAdjustments) : std::nullopt);
    const std::uint64_t step = chooses ? run.decode.sampler->state().step : 0;
    if (auto& plan = work_.decodes.plans.back();
        plan && run.decode.masks && run.decode.masks->is_masked(step)) {
      plan->masks = run.decode.masks;
      plan->step = step;
    }
    decodes_.push_back(slice.key);
  } else {
    const bool at_end = run.phase == Phase::kPrefill && end == run.prompt_end;
    // Without recurrent state, only the logits tell whether a checkpoint is finite.
    const bool passes = passed_.size() > passed_before;
    const bool judged =
        table.slot_bytes() == 0 && !run.prefill.checkpoints.empty() && run.prefill.checkpoints.front() <= end;
    if (!at_end && !judged) part.logits = models::Slice::Logits::kNone;
    run.decode.first.reset();
    // The device samples the first token of the reply, if it can and no mask is needed.
    const bool samples = at_end && run.decode.follows && table.facts().draws && !run.prefill.want_digest &&
                         !(run.decode.masks && run.decode.masks->is_masked(0));
    run.decode.first_plan = samples ? run.decode.sampler->plan(kMaxAdjustments) : std::nullopt;
    if (run.decode.first_plan) {
      part.plan = &*run.decode.first_plan;
      part.drawn = &run.decode.first;
    }
    if (passes) {
      std::vector<models::SlotExport>& exports = exports_.emplace_back();
      for (std::size_t i = passed_before; i < passed_.size(); ++i) {
        const Passed& one = passed_[i];
        if (!one.state) continue;
        std::byte* tail = one.state->tail_data();
        if (table.slot_bytes() == 0 && tail == nullptr) continue;  // the state is in full pages only
        exports.push_back({.after = one.at - at,
                           .slot = table.slot_bytes() == 0 ? nullptr : one.state->slot_data(),
                           .tail = tail});
      }
      part.exports = exports;
    }
    request_hidden(run, at, end, part);
    part.tail = run.phase == Phase::kPrefill ? run.compaction.tail.get() : nullptr;
    run.trace.mark("prefill_slice", {{"at", at}, {"tokens", end - at}, {"step", run.last_step}});
    work_.prefills.push_back(part);
    prefills_.push_back(slice.key);
  }
}

std::uint32_t DeviceStep::pass_checkpoints(StateTable& table, SequenceRun& run, std::uint32_t at,
                                           std::uint32_t end) {
  for (const std::uint32_t position : run.prefill.checkpoints) {
    if (position <= at || position >= end) break;
    SnapshotJobs::Begun begun = snapshots_.begin_checkpoint(table, run, position);
    if (begun.availability == Availability::kComing) return position;
    passed_.push_back({.key = run.id.number, .at = position, .state = std::move(begun.state)});
  }
  return end;
}

// A sum of hidden states must cover the whole prompt: a preempted sequence starts it again from token 0, and
// a restored one has none.
void DeviceStep::request_hidden(SequenceRun& run, std::uint32_t at, std::uint32_t end, models::Slice& part) {
  using Hidden = protocol::Prefill::Hidden;
  if (run.phase != Phase::kPrefill || run.prefill.hidden_kind == Hidden::kNone) return;
  part.adds_hidden = run.prefill.hidden_kind == Hidden::kSum;
  if (!part.adds_hidden && end < run.prompt_end) return;
  if (part.adds_hidden && at == 0) {
    std::fill(run.prefill.hidden.begin(), run.prefill.hidden.end(), 0.0f);
    run.prefill.hidden_until = 0;
  }
  if (part.adds_hidden && at != run.prefill.hidden_until) run.prefill.hidden.clear();
  run.prefill.hidden_until = end;
  part.hidden = run.prefill.hidden.empty() ? nullptr : run.prefill.hidden.data();
}

std::size_t DeviceStep::prefilled_tokens() const {
  std::size_t tokens = 0;
  for (const models::Slice& slice : work_.prefills) tokens += slice.tokens.size();
  return tokens;
}

// -- taking apart

void DeviceStep::release_sequences() {
  for (const auto* keys : {&prefills_, &decodes_}) {
    for (const std::uint64_t key : *keys) table_->sequences().at(key).in_step = false;
  }
}

void DeviceStep::take_apart() {
  static constexpr traces::ZoneSite kSite{"take step apart"};
  const traces::Zone zone(kSite);
  if (!decodes_.empty()) traces::frame("decode step");
  const std::size_t vocab = table_->facts().vocab;
  std::vector<gpu::Snapshot*> written;
  for (Passed& one : passed_) {
    if (one.state) written.push_back(&*one.state);
  }
  table_->store().end_captures(written);
  // Decoded rows first: the compaction of a prefill may preempt sequences, whose results must be applied by
  // then.
  const float* row = work_.decodes.logits.data();
  for (std::size_t i = 0; i < decodes_.size(); ++i) {
    SequenceRun& run = table_->sequences().at(decodes_[i]);
    WorkerFigures::add(figures_.decode_tokens);
    const auto& drawn = work_.decodes.drawn[i];
    if (run.phase == Phase::kDecode && !run.closing) {
      if (drawn) {
        decoding_.take_drawn(run, *drawn);
      } else {
        decoding_.take_logits(run, {row, vocab});
      }
      if (run.call_checkpoint_is_due()) {
        snapshots_.take_reply_checkpoint(*table_, run, std::exchange(run.decode.call_plan, nullptr));
      } else if (run.reply_checkpoint_is_due()) {
        run.set_next_reply_checkpoint(table_->rules().grid);
        snapshots_.take_reply_checkpoint(*table_, run, run.decode.reply_plan);
      }
    }
    if (!drawn) row += vocab;
  }
  row = work_.prefill_logits.data();
  for (std::size_t i = 0; i < prefills_.size(); ++i) {
    SequenceRun& run = table_->sequences().at(prefills_[i]);
    const bool has_row = work_.prefills[i].logits != models::Slice::Logits::kNone && !run.decode.first;
    const auto tokens = static_cast<std::uint32_t>(work_.prefills[i].tokens.size());
    WorkerFigures::add(figures_.prefill_tokens, tokens);
    run.prefill.computed += tokens;
    const std::span<const float> logits = has_row ? std::span(row, vocab) : std::span<const float>();
    if (run.phase == Phase::kPrefill && !run.closing) {
      run.tell_progress();
      finish_prefill(run, logits);
    }
    row += logits.size();
  }
}

void DeviceStep::take_passed(std::uint64_t key, SequenceRun& run, bool healthy) {
  for (Passed& one : passed_) {
    if (one.key == key) snapshots_.end_checkpoint(*table_, run, one.at, std::move(one.state), healthy);
  }
}

// `logits`: [vocab], or empty if none were requested or the device sampled from them.
void DeviceStep::finish_prefill(SequenceRun& run, std::span<const float> logits) {
  const bool healthy =
      run.decode.first ? run.decode.first->finite && run.decode.first->error != models::SampleError::kNoLogits
                       : all_finite(logits);
  take_passed(run.id.number, run, healthy);
  if (run.checkpoint_is_due()) {
    if (healthy) {
      snapshots_.take_checkpoint(*table_, run);
    } else {
      snapshots_.skip_unhealthy_checkpoint(*table_, run);
    }
  }
  if (run.held_tokens() < run.prompt_end) return;
  if (!healthy) {
    WorkerFigures::add(figures_.unhealthy);
    run.phase = Phase::kIdle;
    return run.answer_prefill(Error{ErrorKind::kUnhealthy, "the model's logits are not finite"});
  }
  run.logits.assign(logits.begin(), logits.end());
  end_prefill(*table_, run);
}

// Ends a prefill whose tokens are all computed and begins the decoding that it carries. If the prompt waits
// for memory to be compacted, does nothing yet.
void DeviceStep::end_prefill(StateTable& table, SequenceRun& run) {
  if (run.compaction_is_due()) compaction_.compact(table, run);
  if (run.phase != Phase::kPrefill || run.compaction_is_due()) return;
  run.phase = Phase::kIdle;
  if (run.prefill.hidden_kind != protocol::Prefill::Hidden::kNone && run.prefill.hidden.empty()) {
    return run.answer_prefill(
        Error{ErrorKind::kNoMemory,
              "the prompt was preempted and its hidden states were not kept; try again later"});
  }
  protocol::Prefilled done{.computed = run.prefill.computed, .digest = 0, .reported = run.reported};
  if (run.prefill.want_digest) {
    done.digest =
        digest_of(std::as_bytes(std::span(run.logits))) ^ table.store().look_at_slot(*run.state).checksum;
  }
  done.hidden = std::move(run.prefill.hidden);
  done.kept = run.compaction.kept;
  run.answer_prefill(std::move(done));
  if (run.decode.follows) decoding_.begin_carried(table, run);
}

bool DeviceStep::clear() {
  bool closed = false;
  for (const auto* keys : {&prefills_, &decodes_}) {
    for (const std::uint64_t key : *keys) {
      const auto found = table_->sequences().find(key);
      if (found == table_->sequences().end() || !found->second.closing) continue;
      table_->close(found->second.id);
      closed = true;
    }
  }
  passed_.clear();
  table_ = nullptr;
  work_ = {};
  return closed;
}

// -- compaction

void PromptCompaction::compact(StateTable& table, SequenceRun& run) {
  if (!run.compaction.tail || !run.compaction.tail->covers(run.prompt_end)) {
    return run.end_work({protocol::ErrorKind::kBadJob,
                         "the last tokens of a prompt must be computed before it is compacted"});
  }
  const std::uint64_t bytes =
      (run.compaction.budget.tokens + gpu::kPageTokens - 1) / gpu::kPageTokens * table.page_bytes();
  const MemoryNeed need{.bytes = bytes, .block = table.page_bytes(), .needy = &run};
  while (memory_.find(need) == Availability::kHere) {
    std::optional<gpu::PageRun> into = table.store().take_pages(run.compaction.budget.tokens);
    if (into) return compact_into(std::move(*into), table, run);
    if (budget_.has_room(0, need.block)) return;  // otherwise no block was free: reclaim more
  }
}

void PromptCompaction::compact_into(gpu::PageRun pages, StateTable& table, SequenceRun& run) {
  compact_(table, {.sequence = &*run.state,
                   .tail = run.compaction.tail.get(),
                   .budget = run.compaction.budget,
                   .into = &pages});
  run.compaction.kept = KvKept{.tokens = run.compaction.budget.tokens,
                               .bytes = pages.size() * table.page_bytes(),
                               .full_bytes = run.state->pages().size() * table.page_bytes()};
  run.state->replace_pages(std::move(pages), run.compaction.budget.tokens);
  run.compaction.tail.reset();
  run.reserved_pages = run.compaction.reserved_pages;
  WorkerFigures::add(figures_.compactions);
  WorkerFigures::add(figures_.compacted_full_bytes, run.compaction.kept->full_bytes);
  WorkerFigures::add(figures_.compacted_kept_bytes, run.compaction.kept->bytes);
  run.trace.mark("compacted", {{"tokens", run.prompt_end}, {"kept", run.compaction.budget.tokens}});
  memory_.memory_changed();
}

}  // namespace reprise::actors
