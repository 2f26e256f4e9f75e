#include "actors/device/snapshot_jobs.h"

#include <algorithm>

#include "base/check.h"
#include "base/token.h"
#include "gpu/state/state_store.h"
#include "protocol/checkpoint_rules.h"
#include "traces/trace.h"

namespace reprise::actors {

using protocol::CheckpointRules;
using protocol::Error;
using protocol::ErrorKind;
using Kind = protocol::SnapshotKv::Kind;
using Phase = SequenceRun::Phase;

namespace {

Error no_memory(const char* what) {
  return Error{ErrorKind::kNoMemory, what};
}

/// Returns the first `stored` tokens of the sequence; shares the prompt if they all belong to it.
SharedTokens tokens_of(const SequenceRun& run, std::uint32_t stored) {
  if (stored <= run.prompt_end) return run.prompt;
  TokenList list(stored);
  for (std::uint32_t i = 0; i < stored; ++i) list[i] = run.token_at(i);
  return share_tokens(std::move(list));
}

}  // namespace

// -- taking

SnapshotJobs::Capture SnapshotJobs::capture(StateTable& table, SequenceRun& run, Kind kind) {
  const bool raw = kind == Kind::kRaw;
  const std::uint64_t tail = run.state->stored() % gpu::kPageTokens != 0 ? table.page_bytes() : 0;
  // A raw snapshot has a reservation; a canonical one must leave the reservations of others free.
  const std::uint64_t reserved = raw ? 0 : state_.promised_bytes();
  const MemoryNeed need{.bytes = table.slot_bytes() + tail + reserved,
                        .block = std::max(table.slot_bytes(), tail),
                        .needy = raw ? &run : nullptr,
                        .dispensable = !raw};
  static constexpr traces::ZoneSite kSite{"snapshot"};
  traces::Zone zone(kSite);
  Capture capture;
  std::optional<gpu::Snapshot> state;
  while (!state) {
    capture.availability = memory_.find(need);
    if (capture.availability != Availability::kHere) return capture;
    state = table.store().capture(*run.state);
    if (!state && state_.budget().has_room(0, need.block)) {  // otherwise no block was free: reclaim more
      capture.availability = Availability::kNone;
      return capture;
    }
  }
  keep(table, run, run.held_tokens(), std::move(*state), raw, capture);
  if (!capture.taken) return capture;
  WorkerFigures::add(figures_.copied_bytes, table.slot_bytes() + tail);
  if (zone.on()) {
    zone.text(std::to_string(run.held_tokens()) + " tokens, " +
              std::to_string(capture.taken->exclusive_bytes) + " bytes of its own" + (raw ? ", raw" : ""));
  }
  if (raw) run.snapshot_promised = false;
  return capture;
}

void SnapshotJobs::keep(StateTable& table, SequenceRun& run, std::uint32_t at, gpu::Snapshot state, bool raw,
                        Capture& capture) {
  capture.healthy = capture.healthy && state.finite();
  if (!capture.healthy) {
    WorkerFigures::add(figures_.unhealthy);
    return;
  }
  WorkerFigures::add(figures_.checkpoints);
  capture.tokens = tokens_of(run, at);
  const std::uint64_t bytes = state.exclusive_bytes();
  run.trace.mark("snapshot", {{"at", at}, {"bytes", bytes}});
  const protocol::SnapshotId id = table.add({.state = std::move(state),
                                             .tokens = capture.tokens,
                                             .owner = run.id,
                                             .adapter = run.adapter,
                                             .adopted = false,
                                             .raw = raw,
                                             .prompt_end = raw ? run.prompt_end : 0,
                                             .logits = raw ? run.logits : std::vector<float>{}});
  capture.taken = {.snapshot = id, .tokens = at, .exclusive_bytes = bytes};
}

bool SnapshotJobs::is_spared(const SequenceRun& run, std::uint32_t here) {
  if (!run.prefill.plan) return false;
  std::uint32_t spaced_after = 0;
  for (auto planned = run.prefill.plan->checkpoints.rbegin(); planned != run.prefill.plan->checkpoints.rend();
       ++planned) {
    if (planned->at == here) {
      const bool awaited = std::find(run.prefill.awaited.begin(), run.prefill.awaited.end(), here) !=
                           run.prefill.awaited.end();
      return !CheckpointRules::takes({.origin = planned->origin, .at = here, .is_awaited = awaited},
                                     memory_.pressure().choosy(), spaced_after);
    }
    if (planned->origin == protocol::Origin::kSpaced) ++spaced_after;
  }
  return false;
}

SnapshotJobs::Begun SnapshotJobs::begin_checkpoint(StateTable& table, const SequenceRun& run,
                                                   std::uint32_t at) {
  if (is_spared(run, at)) {
    WorkerFigures::add(figures_.checkpoints_spared);
    return {};
  }
  const std::uint64_t tail = at % gpu::kPageTokens != 0 ? table.page_bytes() : 0;
  const MemoryNeed need{.bytes = table.slot_bytes() + tail + state_.promised_bytes(),
                        .block = std::max(table.slot_bytes(), tail),
                        .needy = nullptr,
                        .dispensable = true};
  Begun begun;
  while (!begun.state) {
    begun.availability = memory_.find(need);
    if (begun.availability == Availability::kComing) return begun;
    if (begun.availability == Availability::kHere) begun.state = table.store().begin_capture(*run.state, at);
    if (begun.state) break;
    if (begun.availability == Availability::kNone || state_.budget().has_room(0, need.block)) {
      WorkerFigures::add(figures_.checkpoints_skipped);
      return {};
    }
  }
  return begun;
}

void SnapshotJobs::end_checkpoint(StateTable& table, SequenceRun& run, std::uint32_t at,
                                  std::optional<gpu::Snapshot> state, bool healthy) {
  REPRISE_CHECK(!run.prefill.checkpoints.empty() && run.prefill.checkpoints.front() == at,
                "a step passed a checkpoint that was not the prefill's next");
  Capture capture{.healthy = healthy};
  if (state) keep(table, run, at, std::move(*state), false, capture);
  run.prefill.checkpoints.pop_front();
  if (report(table, run, run.prefill.plan, at, capture)) ++run.reported;
}

void SnapshotJobs::take_checkpoint(StateTable& table, SequenceRun& run) {
  const std::uint32_t at = run.held_tokens();
  if (is_spared(run, at)) {
    WorkerFigures::add(figures_.checkpoints_spared);
    run.prefill.checkpoints.pop_front();
    if (report(table, run, run.prefill.plan, at, {})) ++run.reported;
    return;
  }
  const Capture captured = capture(table, run, Kind::kCanonical);
  if (captured.availability == Availability::kComing && run.held_tokens() < run.prompt_end) return;
  if (captured.availability != Availability::kHere) WorkerFigures::add(figures_.checkpoints_skipped);
  run.prefill.checkpoints.pop_front();
  if (report(table, run, run.prefill.plan, at, captured)) ++run.reported;
}

void SnapshotJobs::take_reply_checkpoint(StateTable& table, SequenceRun& run,
                                         const protocol::SharedPlan& plan) {
  if (run.held_tokens() % table.rules().grid != 0) return;
  const std::uint32_t at = run.held_tokens();
  const protocol::Origin origin = plan ? plan->origin_elsewhere : protocol::Origin::kReply;
  if (!CheckpointRules::takes({.origin = origin, .at = at}, memory_.pressure().choosy())) {
    WorkerFigures::add(figures_.checkpoints_spared);
    return;
  }
  const Capture captured = capture(table, run, Kind::kCanonical);
  if (captured.availability != Availability::kHere) WorkerFigures::add(figures_.checkpoints_skipped);
  if (captured.taken && report(table, run, plan, run.held_tokens(), captured)) ++run.reported;
}

void SnapshotJobs::skip_unhealthy_checkpoint(StateTable& table, SequenceRun& run) {
  WorkerFigures::add(figures_.unhealthy);
  run.prefill.checkpoints.pop_front();
  if (report(table, run, run.prefill.plan, run.held_tokens(), {.healthy = false})) ++run.reported;
}

bool SnapshotJobs::report(const StateTable& table, const SequenceRun& run, const protocol::SharedPlan& plan,
                          std::uint32_t at, const Capture& capture) {
  if (!plan) return false;
  return report_(table, {.sequence = run.id,
                         .plan = plan,
                         .tokens = capture.tokens ? capture.tokens : run.prompt,
                         .at = at,
                         .snapshot = capture.taken,
                         .healthy = capture.healthy});
}

void SnapshotJobs::snapshot(protocol::SnapshotKv job, TakenReply reply) {
  using Result = protocol::JobResult<protocol::SnapshotTaken>;
  const auto refuse = [&](ErrorKind fault, const char* why) { reply.answer(Result(Error{fault, why})); };
  const auto [table, run] = state_.find(job.sequence);
  if (run == nullptr) return refuse(ErrorKind::kUnknown, "no such sequence");
  if (table->failed()) return refuse(ErrorKind::kDeviceFailed, "the model has failed");
  if (run->phase != Phase::kIdle || run->in_step || !run->state || !run->prompt) {
    return refuse(ErrorKind::kBadJob, "the sequence is busy");
  }
  const std::uint32_t stored = run->held_tokens();
  const bool raw = job.kind == Kind::kRaw;
  const models::ModelRules rules = table->rules();
  if (!raw && run->compacted()) {
    return refuse(ErrorKind::kBadJob, "a compacted state cannot be saved as an exact one");
  }
  const bool of_decoding = stored > run->prompt_end;
  if (!raw && (stored % rules.grid != 0 || (of_decoding && !rules.decode_is_canonical))) {
    return refuse(ErrorKind::kBadJob, "the sequence has no canonical state at this position");
  }
  if (raw && (stored != run->prompt_end || run->logits.empty())) {
    return refuse(ErrorKind::kBadJob, "a raw snapshot must be taken after the prompt");
  }
  run->phase = Phase::kSnapshot;
  run->waiting.snapshot_kind = job.kind;
  run->waiting.snapshot_plan = raw ? nullptr : std::move(job.plan);
  run->waiting.snapshot_taken = std::move(reply);
  try_snapshot(*table, *run);
}

void SnapshotJobs::try_snapshot(StateTable& table, SequenceRun& run) {
  using Result = protocol::JobResult<protocol::SnapshotTaken>;
  const Capture captured = capture(table, run, run.waiting.snapshot_kind);
  const bool raw = run.waiting.snapshot_kind == Kind::kRaw;
  if (captured.availability == Availability::kComing || (captured.availability == Availability::kNone && raw))
    return;
  run.phase = Phase::kIdle;
  auto reply = std::move(run.waiting.snapshot_taken);
  const protocol::SharedPlan plan = std::move(run.waiting.snapshot_plan);
  if (captured.taken) {
    protocol::SnapshotTaken taken = *captured.taken;
    taken.reported = report(table, run, plan, run.held_tokens(), captured);
    return reply.answer(Result(taken));
  }
  if (!captured.healthy) {
    return reply.answer(Result(Error{ErrorKind::kUnhealthy, "the state is not finite"}));
  }
  WorkerFigures::add(figures_.checkpoints_skipped);
  reply.answer(Result(no_memory("not enough memory for a snapshot")));
}

// -- restoring

void SnapshotJobs::restore(const protocol::RestoreKv& job, RestoredReply reply, Time now) {
  using Result = protocol::JobResult<protocol::Restored>;
  const auto refuse = [&](ErrorKind fault, const char* why) { reply.answer(Result(Error{fault, why})); };
  const auto [table, run] = state_.find(job.sequence);
  if (run == nullptr) return refuse(ErrorKind::kUnknown, "no such sequence");
  if (table->failed()) return refuse(ErrorKind::kDeviceFailed, "the model has failed");
  const SnapshotRecord* record = table->find(job.snapshot);
  if (record == nullptr) return refuse(ErrorKind::kUnknown, "no such snapshot");
  if (record->adapter != run->adapter)
    return refuse(ErrorKind::kUnknown, "the snapshot belongs to another adapter");
  if (run->phase != Phase::kIdle || run->in_step) {
    return refuse(ErrorKind::kBadJob, "the sequence is busy");
  }
  const std::size_t length = record->state.logical();
  const bool can_be_cut = table->slot_bytes() == 0 && record->state.stored() == length;
  if (job.at > length || (job.at < length && !can_be_cut)) {
    return refuse(ErrorKind::kBadJob, "the snapshot cannot be restored at this shorter length");
  }
  if (token_hash(std::span(*record->tokens).first(job.at)) != job.token_hash) {
    drop_damaged(*table, job.snapshot);
    return refuse(ErrorKind::kDamaged, "the snapshot holds other tokens");
  }
  begin_restore(*table, *run, std::move(reply));
  run->waiting.restore = job;
  try_restore(*table, *run, now);
}

void SnapshotJobs::begin_restore(StateTable& table, SequenceRun& run, RestoredReply reply) {
  run.phase = Phase::kRestore;
  run.waiting.restored = std::move(reply);
  run.waiting.short_since.reset();
  if (run.held_tokens() != 0) {  // frees its slot, to open it empty
    run.state.reset();
    run.state = table.store().open();
    memory_.memory_changed();
  }
  run.prompt.reset();
  run.prompt_end = 0;
  run.decoded.clear();
  run.logits.clear();
}

void SnapshotJobs::end_restore(SequenceRun& run, protocol::JobResult<protocol::Restored> result) {
  run.phase = Phase::kIdle;
  run.waiting.restore.reset();
  run.waiting.load.reset();
  auto reply = std::move(run.waiting.restored);
  reply.answer(std::move(result));
}

void SnapshotJobs::try_restore(StateTable& table, SequenceRun& run, Time now) {
  using Result = protocol::JobResult<protocol::Restored>;
  const protocol::RestoreKv job = *run.waiting.restore;
  const auto answer = [&](Result result) { end_restore(run, std::move(result)); };
  static constexpr traces::ZoneSite kSite{"restore"};
  traces::Zone zone(kSite);
  const SnapshotRecord* record = table.find(job.snapshot);
  if (zone.on()) {
    zone.text(std::to_string(job.at) + " tokens, " +
              std::to_string(job.at / gpu::kPageTokens * table.page_bytes()) + " bytes of pages shared, " +
              std::to_string(table.slot_bytes()) + " bytes of slot copied");
  }
  if (record == nullptr) return answer(Error{ErrorKind::kUnknown, "the snapshot is gone"});
  // A compacted prompt has fewer KV entries than tokens.
  const std::size_t kv_entries = job.at - (record->state.logical() - record->state.stored());
  const std::uint64_t tail = kv_entries % gpu::kPageTokens != 0 ? table.page_bytes() : 0;
  const std::uint64_t slot = run.state ? 0 : table.slot_bytes();  // otherwise its own slot is used
  const MemoryNeed need{.bytes = slot + tail, .block = std::max(slot, tail), .needy = &run};
  for (;;) {
    const Availability availability = memory_.find(need);
    if (availability == Availability::kComing) return;
    if (availability == Availability::kNone) {
      if (record->raw) return;
      if (!run.waiting.short_since) run.waiting.short_since = now;
      if (now - *run.waiting.short_since < patience_) return;
      if (!run.state) run.state = table.store().open();
      return answer(no_memory("not enough memory to restore the snapshot"));
    }
    run.state.reset();
    gpu::Restoration restoration = table.store().restore(record->state, kv_entries);
    if (restoration.sequence) {
      run.state = std::move(*restoration.sequence);
      break;
    }
    run.state = table.store().open();
    if (restoration.damaged) {
      drop_damaged(table, job.snapshot);
      return answer(Error{ErrorKind::kDamaged, "the snapshot's checksum is wrong"});
    }
    if (state_.budget().has_room(0, need.block))
      return answer(no_memory("not enough memory to restore the snapshot"));
  }
  if (record->raw) {
    run.prompt = record->tokens;
    run.prompt_end = record->prompt_end;
    run.logits = record->logits;
  }
  run.shared_pages = 0;
  WorkerFigures::add(figures_.copied_bytes, table.slot_bytes() + tail);
  answer(protocol::Restored{.tokens = job.at,
                            .shared_bytes = kv_entries / gpu::kPageTokens * table.page_bytes()});
}

// -- from and to the host's memory

void SnapshotJobs::load(protocol::LoadKv job, RestoredReply reply, Time now) {
  using Result = protocol::JobResult<protocol::Restored>;
  const auto refuse = [&](ErrorKind fault, const char* why) { reply.answer(Result(Error{fault, why})); };
  const auto [table, run] = state_.find(job.sequence);
  if (run == nullptr) return refuse(ErrorKind::kUnknown, "no such sequence");
  if (table->failed()) return refuse(ErrorKind::kDeviceFailed, "the model has failed");
  if (run->phase != Phase::kIdle || run->in_step) {
    return refuse(ErrorKind::kBadJob, "the sequence is busy");
  }
  if (!job.state || !job.tokens || job.state->stored == 0 || job.tokens->size() < job.state->stored) {
    return refuse(ErrorKind::kBadJob, "the saved state is not of these tokens");
  }
  if (job.state->stored % table->rules().grid != 0 ||
      job.state->bytes.size() != gpu::transfer_bytes(table->facts().sizes, job.state->stored)) {
    return refuse(ErrorKind::kDamaged, "the saved state does not fit this model");
  }
  begin_restore(*table, *run, std::move(reply));
  run->waiting.load = std::move(job);
  try_load(*table, *run, now);
}

void SnapshotJobs::try_load(StateTable& table, SequenceRun& run, Time now) {
  static constexpr traces::ZoneSite kSite{"load"};
  traces::Zone zone(kSite);
  const protocol::HostState& from = *run.waiting.load->state;
  if (zone.on()) {
    zone.text(std::to_string(from.stored) + " tokens, " + std::to_string(from.bytes.size()) + " bytes");
  }
  const std::uint64_t slot = run.state ? table.slot_bytes() : 0;  // its own slot is used
  const MemoryNeed need{.bytes = from.bytes.size() - slot,
                        .block = std::max(table.slot_bytes() - slot, table.page_bytes()),
                        .needy = &run};
  for (;;) {
    const Availability availability = memory_.find(need);
    if (availability == Availability::kComing) return;
    if (availability == Availability::kNone) {
      if (!run.waiting.short_since) run.waiting.short_since = now;
      if (now - *run.waiting.short_since < patience_) return;
      if (!run.state) run.state = table.store().open();
      return end_restore(run, no_memory("not enough memory to load the snapshot"));
    }
    run.state.reset();
    run.state =
        gpu::load_sequence(table.store(), from.bytes, run.waiting.load->state, from.stored, from.logical);
    if (run.state) break;
    run.state = table.store().open();
    if (state_.budget().has_room(0, need.block))
      return end_restore(run, no_memory("not enough memory to load the snapshot"));
  }
  run.prompt = run.waiting.load->tokens;
  run.prompt_end = from.stored;
  run.shared_pages = 0;
  end_restore(run, protocol::Restored{.tokens = from.stored, .shared_bytes = 0});
}

protocol::ReadKv::Reply SnapshotJobs::read(const protocol::ReadKv& job) {
  StateTable* table = state_.find(job.snapshot.generation);
  const SnapshotRecord* record = table == nullptr ? nullptr : table->find(job.snapshot);
  if (record == nullptr || !record->adopted) return Error{ErrorKind::kUnknown, "no such snapshot"};
  if (table->failed()) return Error{ErrorKind::kDeviceFailed, "the model has failed"};
  const std::size_t pages = record->state.pages().size();
  if (job.first_page > pages || job.pages > pages - job.first_page) {
    return Error{ErrorKind::kBadJob, "the snapshot has fewer pages"};
  }
  if (job.to.size() != job.pages * table->page_bytes() + (job.slot ? table->slot_bytes() : 0)) {
    return Error{ErrorKind::kBadJob, "the buffer for the copy has the wrong size"};
  }
  static constexpr traces::ZoneSite kSite{"read snapshot"};
  const traces::Zone zone(kSite);
  if (!table->store().is_intact(record->state, job.first_page, job.pages, job.slot)) {
    drop_damaged(*table, job.snapshot);
    return Error{ErrorKind::kDamaged, "the snapshot's checksum is wrong"};
  }
  gpu::read_snapshot(table->store(), record->state, job.first_page, job.pages, job.slot, job.to);
  return protocol::Nothing{};
}

void SnapshotJobs::drop_damaged(StateTable& table, protocol::SnapshotId snapshot) {
  WorkerFigures::add(figures_.damaged);
  table.drop(snapshot);
  memory_.memory_changed();
}

// -- waiting

bool SnapshotJobs::try_waiting(Time now) {
  const auto waiting =
      state_.sequences_where([](const SequenceRun& run) { return run.waits_for_memory() && !run.closing; });
  bool all = true;
  for (const auto& [table, run] : waiting) {
    if (run->phase == Phase::kRestore && run->waiting.load) {
      try_load(*table, *run, now);
    } else if (run->phase == Phase::kRestore) {
      try_restore(*table, *run, now);
    }
    if (run->phase == Phase::kSnapshot) try_snapshot(*table, *run);
    all = all && !run->waits_for_memory();
  }
  return all;
}

std::optional<SnapshotJobs::Time> SnapshotJobs::patience_ends() const {
  std::optional<Time> first;
  for (const StateTable* table : state_.tables()) {
    for (const auto& [number, run] : table->sequences()) {
      if (run.phase != Phase::kRestore || !run.waiting.short_since) continue;
      const Time end = *run.waiting.short_since + patience_;
      if (!first || end < *first) first = end;
    }
  }
  return first;
}

}  // namespace reprise::actors
