// Snapshots: taken, restored, adopted, dropped. One function captures, whoever asks for it; jobs that find no
// memory stay with their sequence and are tried again before every step.

#include <algorithm>

#include "actors/worker/device_worker.h"
#include "base/hash.h"

namespace reprise::actors {

using protocol::JobError;
using protocol::JobFault;
using Kind = protocol::SnapshotKv::Kind;
using Phase = SequenceRun::Phase;

namespace {

constexpr JobError no_memory(const char* what) {
  return JobError{JobFault::kNoMemory, what};
}

}  // namespace

// -- taking

DeviceWorker::Need DeviceWorker::need_of_snapshot(const LoadedArch& arch, std::uint32_t tokens) {
  const std::uint64_t tail = tokens % gpu::kPageTokens != 0 ? arch.page_bytes() : 0;
  return {.bytes = arch.slot_bytes() + tail, .block = std::max(arch.slot_bytes(), tail)};
}

DeviceWorker::Capture DeviceWorker::capture(LoadedArch& arch, SequenceRun& run, Kind kind) {
  const bool raw = kind == Kind::kRaw;
  const Need need = need_of_snapshot(arch, run.stored());
  // A raw one was promised; a canonical one is worth less than what others were.
  const std::uint64_t beside = raw ? 0 : promised_bytes();
  Capture capture;
  std::optional<gpu::Snapshot> state;
  while (!state) {
    capture.room = find_room(need.bytes + beside, need.block, raw ? &run : nullptr);
    if (capture.room != Room::kHere) return capture;
    state = arch.store().capture(*run.state);
    if (!state && budget_.has_room(0, need.block)) {  // else the memory had no block: more must go
      capture.room = Room::kNone;
      return capture;
    }
  }
  capture.healthy = state->finite();
  if (!capture.healthy) {
    WorkerFigures::add(options_.figures->unhealthy);
    return capture;
  }
  WorkerFigures::add(options_.figures->checkpoints);
  const std::uint32_t stored = run.stored();
  SharedTokens tokens = run.prompt;
  if (stored > run.prompt_end) {
    TokenList list(stored);
    for (std::uint32_t i = 0; i < stored; ++i) list[i] = run.token_at(i);
    tokens = share_tokens(std::move(list));
  }
  const std::uint64_t bytes = state->exclusive_bytes();
  const protocol::SnapshotId id = arch.add_snapshot({.state = std::move(*state),
                                                     .tokens = std::move(tokens),
                                                     .owner = run.id,
                                                     .adopted = false,
                                                     .raw = raw,
                                                     .prompt_end = raw ? run.prompt_end : 0,
                                                     .logits = raw ? run.logits : std::vector<float>{}});
  if (raw) run.snapshot_promised = false;
  capture.taken = {.snapshot = id, .tokens = stored, .exclusive_bytes = bytes};
  return capture;
}

// Leaves the checkpoint due if its memory is on the way.
void DeviceWorker::take_checkpoint(LoadedArch& arch, SequenceRun& run) {
  const bool was_short = someone_is_short_;
  const Capture captured = capture(arch, run, Kind::kCanonical);
  someone_is_short_ = was_short;  // a checkpoint alone is no reason to wait
  if (captured.room == Room::kComing && run.stored() < run.prompt_end) return;
  if (captured.room != Room::kHere) WorkerFigures::add(options_.figures->checkpoints_skipped);
  run.checkpoints.pop_front();
  if (!run.report_to) return;
  run.report_to.tell(protocol::CheckpointTaken{
      .sequence = run.id, .at = run.stored(), .snapshot = captured.taken, .healthy = captured.healthy});
}

void DeviceWorker::on(protocol::SnapshotKv job,
                      runtime::ReplyTo<protocol::JobResult<protocol::SnapshotTaken>> reply) {
  using Result = protocol::JobResult<protocol::SnapshotTaken>;
  const auto refuse = [&](JobFault fault, const char* why) { reply.answer(Result(JobError{fault, why})); };
  LoadedArch* arch = arch_of(job.sequence.generation);
  SequenceRun* run = arch == nullptr ? nullptr : arch->find(job.sequence);
  if (run == nullptr) return refuse(JobFault::kUnknown, "no such sequence");
  if (arch->failed) return refuse(JobFault::kDeviceFailed, "the model has failed");
  if (run->phase != Phase::kIdle || run->in_step || !run->state || !run->prompt) {
    return refuse(JobFault::kBadJob, "the sequence is not at rest");
  }
  const std::uint32_t stored = run->stored();
  const bool raw = job.kind == Kind::kRaw;
  const DeviceRules rules = arch->rules();
  if (!raw && (stored % rules.grid != 0 || (stored > run->prompt_end && !rules.decode_is_prefill))) {
    return refuse(JobFault::kBadJob, "no canonical state at this place");
  }
  if (raw && (stored != run->prompt_end || run->logits.empty())) {
    return refuse(JobFault::kBadJob, "a raw snapshot is taken behind the prompt");
  }
  run->phase = Phase::kSnapshot;
  run->snapshot_kind = job.kind;
  run->snapshot_taken = std::move(reply);
  survives([&] { try_snapshot(*arch, *run); });
  kick();
}

void DeviceWorker::try_snapshot(LoadedArch& arch, SequenceRun& run) {
  using Result = protocol::JobResult<protocol::SnapshotTaken>;
  const bool raw = run.snapshot_kind == Kind::kRaw;
  const bool was_short = someone_is_short_;
  const Capture captured = capture(arch, run, run.snapshot_kind);
  if (captured.room == Room::kComing || (captured.room == Room::kNone && raw)) return;
  someone_is_short_ = was_short;
  run.phase = Phase::kIdle;
  auto reply = std::move(run.snapshot_taken);
  if (captured.taken) return reply.answer(Result(*captured.taken));
  if (!captured.healthy)
    return reply.answer(Result(JobError{JobFault::kUnhealthy, "the state is not finite"}));
  WorkerFigures::add(options_.figures->checkpoints_skipped);
  reply.answer(Result(no_memory("no memory for a snapshot")));
}

// -- restoring

void DeviceWorker::on(protocol::RestoreKv job,
                      runtime::ReplyTo<protocol::JobResult<protocol::Restored>> reply) {
  using Result = protocol::JobResult<protocol::Restored>;
  const auto refuse = [&](JobFault fault, const char* why) { reply.answer(Result(JobError{fault, why})); };
  LoadedArch* arch = arch_of(job.sequence.generation);
  SequenceRun* run = arch == nullptr ? nullptr : arch->find(job.sequence);
  if (run == nullptr) return refuse(JobFault::kUnknown, "no such sequence");
  if (arch->failed) return refuse(JobFault::kDeviceFailed, "the model has failed");
  SnapshotRecord* record = arch->find(job.snapshot);
  if (record == nullptr) return refuse(JobFault::kUnknown, "no such snapshot");
  if (run->phase != Phase::kIdle || run->in_step) {
    return refuse(JobFault::kBadJob, "the sequence is not at rest");
  }
  const std::size_t length = record->state.stored();
  if (job.at > length || (job.at < length && !arch->model().state().attention_only())) {
    return refuse(JobFault::kBadJob, "the snapshot cannot be cut at that place");
  }
  if (token_hash(std::span(*record->tokens).first(job.at)) != job.token_hash) {
    drop_damaged(*arch, job.snapshot);
    return refuse(JobFault::kDamaged, "the snapshot is of other tokens");
  }
  run->phase = Phase::kRestore;
  run->restore = job;
  run->restored = std::move(reply);
  run->short_since.reset();
  survives([&] {
    if (run->stored() != 0) {  // its slot is free for itself
      run->state.reset();
      run->state = arch->store().open();
      memory_changed();
    }
    run->prompt.reset();
    run->prompt_end = 0;
    run->decoded.clear();
    run->logits.clear();
    try_restore(*arch, *run);
  });
  kick();
}

void DeviceWorker::try_restore(LoadedArch& arch, SequenceRun& run) {
  using Result = protocol::JobResult<protocol::Restored>;
  const protocol::RestoreKv job = *run.restore;
  const auto answer = [&](Result result) {
    run.phase = Phase::kIdle;
    run.restore.reset();
    auto reply = std::move(run.restored);
    reply.answer(std::move(result));
  };
  SnapshotRecord* record = arch.find(job.snapshot);
  if (record == nullptr) return answer(JobError{JobFault::kUnknown, "the snapshot is gone"});
  const std::uint64_t tail = job.at % gpu::kPageTokens != 0 ? arch.page_bytes() : 0;
  const std::uint64_t slot = run.state ? 0 : arch.slot_bytes();  // else its own is used
  const std::uint64_t block = std::max(slot, tail);
  for (;;) {
    const Room room = find_room(slot + tail, block, &run);
    if (room == Room::kComing) return;
    if (room == Room::kNone) {
      const auto now = std::chrono::steady_clock::now();
      if (!run.short_since) run.short_since = now;
      if (record->raw || now - *run.short_since < options_.patience) return;
      if (!run.state) run.state = arch.store().open();
      return answer(no_memory("no memory to restore into"));
    }
    run.state.reset();
    gpu::Restoration restoration = arch.store().restore(record->state, job.at);
    if (restoration.sequence) {
      run.state = std::move(*restoration.sequence);
      break;
    }
    run.state = arch.store().open();
    if (restoration.damaged) {
      drop_damaged(arch, job.snapshot);
      return answer(JobError{JobFault::kDamaged, "the snapshot's checksum is wrong"});
    }
    if (budget_.has_room(0, block)) return answer(no_memory("no memory to restore into"));
  }
  if (record->raw) {
    run.prompt = record->tokens;
    run.prompt_end = record->prompt_end;
    run.logits = record->logits;
  }
  run.shared_pages = 0;
  answer(protocol::Restored{.tokens = job.at, .shared_bytes = job.at / gpu::kPageTokens * arch.page_bytes()});
}

void DeviceWorker::drop_damaged(LoadedArch& arch, protocol::SnapshotId snapshot) {
  WorkerFigures::add(options_.figures->damaged);
  arch.remove(snapshot);
  memory_changed();
}

bool DeviceWorker::try_waiting_jobs() {
  std::vector<std::pair<LoadedArch*, SequenceRun*>> waiting;
  for (const auto& arch : archs_) {
    for (auto& [number, run] : arch->sequences()) {
      if (run.waits_for_memory() && !run.closing) waiting.emplace_back(arch.get(), &run);
    }
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const auto& a, const auto& b) { return a.second->order < b.second->order; });
  bool all = true;
  for (const auto& [arch, run] : waiting) {
    if (run->phase == Phase::kRestore) try_restore(*arch, *run);
    if (run->phase == Phase::kSnapshot) try_snapshot(*arch, *run);
    all = all && !run->waits_for_memory();
  }
  return all;
}

// -- the registry's

protocol::JobResult<protocol::Adopted> DeviceWorker::on(protocol::AdoptKvSnapshot job) {
  LoadedArch* arch = arch_of(job.snapshot.generation);
  SnapshotRecord* record = arch == nullptr ? nullptr : arch->find(job.snapshot);
  if (record == nullptr || record->raw) return JobError{JobFault::kUnknown, "no such snapshot"};
  protocol::Adopted adopted{.done = record->adopted};
  if (!record->adopted) {
    const std::uint64_t after = arch->adopted().bytes() + arch->adopted().growth(record->state);
    if (after <= job.budget_bytes) {
      arch->adopted().add(record->state);
      record->adopted = adopted.done = true;
      memory_changed();
    } else {
      adopted.short_bytes = after - job.budget_bytes;
    }
  }
  adopted.adopted_bytes = arch->adopted().bytes();
  return adopted;
}

protocol::Dropped DeviceWorker::on(protocol::DropKvSnapshot job) {
  protocol::Dropped dropped;
  if (LoadedArch* arch = arch_of(job.snapshot.generation)) {
    dropped.freed_bytes = arch->remove(job.snapshot);
    dropped.adopted_bytes = arch->adopted().bytes();
    memory_changed();
    kick();
  }
  return dropped;
}

protocol::Dropped DeviceWorker::on(protocol::DropAdopted job) {
  protocol::Dropped dropped;
  LoadedArch* arch = arch_of(job.arch.generation);
  if (arch == nullptr) return dropped;
  std::vector<protocol::SnapshotId> adopted;
  for (const auto& [number, record] : arch->snapshots()) {
    if (record.adopted) adopted.push_back({.generation = arch->generation(), .number = number});
  }
  for (const protocol::SnapshotId id : adopted) dropped.freed_bytes += arch->remove(id);
  dropped.adopted_bytes = arch->adopted().bytes();
  memory_changed();
  kick();
  return dropped;
}

}  // namespace reprise::actors
