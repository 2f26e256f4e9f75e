#include "actors/device/device_state.h"

#include <utility>

#include "traces/trace.h"

namespace reprise::actors {

using gpu::kPageTokens;
using protocol::DecodeEnd;
using protocol::DecodeEvent;
using protocol::Error;
using protocol::ErrorKind;

namespace {

std::size_t fitting(std::size_t limit, std::size_t block_bytes) {
  constexpr std::size_t kMax = 1U << 24;  // blocks of zero bytes need a limit, too
  return block_bytes == 0 ? kMax : std::min(kMax, limit / block_bytes);
}

gpu::StateBounds bounds_of(const gpu::StateSizes& sizes, gpu::ByteBudget& budget, gpu::BlockMemory* memory) {
  return {.pages = fitting(budget.limit(), sizes.page_bytes),
          .slots = fitting(budget.limit(), sizes.slot_bytes),
          .budget = &budget,
          .memory = memory};
}

}  // namespace

// -- one sequence

void SequenceRun::set_up_decode(protocol::Decode job, std::size_t vocab) {
  decode.sampler.emplace(std::move(job.sampling), vocab, job.choice);
  for (std::uint32_t i = 0; i < prompt_end; ++i)
    decode.sampler->accept((*prompt)[i], models::TokenOrigin::kPrompt);
  decode.out = std::move(job.out);
  decode.max_tokens = std::max(job.max_tokens, 1U);
  decode.stop_tokens = std::move(job.stop_tokens);
  decode.reply_plan = job.checkpoint_every > 0 ? std::move(job.plan) : nullptr;
  decode.reply_checkpoint_every = job.checkpoint_every;
  decode.call_plan = std::move(job.call_plan);
  decode.call_opener = job.call_opener;
  decode.masks = std::move(job.masks);
}

void SequenceRun::drop_carried_decode() {
  if (std::exchange(decode.follows, false)) decode.out = {};
}

void SequenceRun::tell_progress() {
  if (!prefill.progress) return;
  std::uint32_t held = held_tokens();
  static_cast<void>(prefill.progress.try_write(held));
}

void SequenceRun::answer_prefill(protocol::JobResult<protocol::Prefilled> answer) {
  prefill.progress = {};
  if (!answer.ok()) drop_carried_decode();
  auto reply = std::move(prefill.reply);
  reply.answer(std::move(answer));
}

void SequenceRun::end_work(const protocol::Error& error) {
  const Phase was = std::exchange(phase, Phase::kIdle);
  prefill.checkpoints.clear();
  if (was == Phase::kRestore) {
    waiting.restore.reset();
    waiting.load.reset();
    auto reply = std::move(waiting.restored);
    reply.answer(protocol::JobResult<protocol::Restored>(error));
  } else if (was == Phase::kSnapshot) {
    auto reply = std::move(waiting.snapshot_taken);
    reply.answer(protocol::JobResult<protocol::SnapshotTaken>(error));
  } else if (was == Phase::kPrefill) {
    answer_prefill(error);
  } else if (was == Phase::kDecode) {
    DecodeEvent event{.token = {}, .end = DecodeEnd::kFault, .error = error, .reported = reported};
    // A reader without credit learns of the error by the end of the stream.
    if (!decode.awaits_credit) static_cast<void>(decode.out.try_write(event));
    decode.out.fail({runtime::ErrorCode::kFailed, error.message});
  }
}

// -- the table

StateTable::StateTable(std::uint32_t generation, const ModelFacts& facts, gpu::ByteBudget& budget,
                       gpu::BlockMemory* memory)
    : generation_(generation),
      facts_(facts),
      budget_(budget),
      store_(facts.sizes, bounds_of(facts.sizes, budget, memory)),
      adopted_(facts.sizes) {}

std::uint64_t StateTable::cost(std::uint64_t tokens, std::uint64_t shared) const {
  const std::uint64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  return slot_bytes() + (pages - std::min(pages, shared / kPageTokens)) * page_bytes();
}

std::uint64_t StateTable::promised_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [number, run] : sequences_) {
    bytes += run.promised_pages() * page_bytes();
    if (run.snapshot_promised) bytes += slot_bytes() + page_bytes();
  }
  return bytes;
}

// -- sequences

SequenceRun& StateTable::open(std::uint64_t ticket) {
  const std::uint64_t number = next_number_++;
  tickets_[ticket] = number;
  SequenceRun& run = sequences_[number];
  run.id = {.generation = generation_, .number = number};
  run.ticket = ticket;
  run.order = number;
  return run;
}

SequenceRun* StateTable::find(protocol::SequenceId id) {
  if (id.generation != generation_) return nullptr;
  const auto found = sequences_.find(id.number);
  return found == sequences_.end() || found->second.closing ? nullptr : &found->second;
}

SequenceRun* StateTable::find_ticket(std::uint64_t ticket) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return nullptr;
  return find(protocol::SequenceId{.generation = generation_, .number = found->second});
}

void StateTable::close(protocol::SequenceId id) {
  const auto found = sequences_.find(id.number);
  if (id.generation != generation_ || found == sequences_.end()) return;
  REPRISE_CHECK(!found->second.in_step, "a sequence was removed while it was being computed");
  for (const protocol::SnapshotId snapshot : found->second.snapshots) {
    const auto record = snapshots_.find(snapshot.number);
    if (record != snapshots_.end() && !record->second.adopted) snapshots_.erase(record);
  }
  tickets_.erase(found->second.ticket);
  sequences_.erase(found);
}

// -- snapshots

protocol::SnapshotId StateTable::add(SnapshotRecord record) {
  const protocol::SnapshotId id{.generation = generation_, .number = next_number_++};
  if (const auto owner = sequences_.find(record.owner.number); owner != sequences_.end()) {
    owner->second.snapshots.push_back(id);
  }
  snapshots_.emplace(id.number, std::move(record));
  return id;
}

SnapshotRecord* StateTable::find(protocol::SnapshotId id) {
  if (id.generation != generation_) return nullptr;
  const auto found = snapshots_.find(id.number);
  return found == snapshots_.end() ? nullptr : &found->second;
}

protocol::JobResult<protocol::Adopted> StateTable::adopt(protocol::SnapshotId id,
                                                         std::uint64_t budget_bytes) {
  SnapshotRecord* record = find(id);
  if (record == nullptr || record->raw) return Error{ErrorKind::kUnknown, "no such snapshot"};
  protocol::Adopted adopted{.done = record->adopted};
  if (!record->adopted) {
    const std::uint64_t after = adopted_.bytes() + adopted_.growth(record->state);
    if (after <= budget_bytes) {
      adopted_.add(record->state);
      record->adopted = adopted.done = true;
    } else {
      adopted.short_bytes = after - budget_bytes;
    }
  }
  adopted.adopted_bytes = adopted_.bytes();
  return adopted;
}

std::uint64_t StateTable::remove(protocol::SnapshotId id) {
  const auto found = snapshots_.find(id.number);
  if (id.generation != generation_ || found == snapshots_.end()) return 0;
  static constexpr traces::ZoneSite kSite{"drop"};
  traces::Zone zone(kSite);
  const std::uint64_t before = budget_.used();
  if (found->second.adopted) adopted_.remove(found->second.state);
  snapshots_.erase(found);
  const std::uint64_t freed = before - budget_.used();
  if (zone.on()) zone.text(std::to_string(freed) + " bytes");
  return freed;
}

protocol::Dropped StateTable::drop(protocol::SnapshotId id) {
  const std::uint64_t freed = remove(id);
  return {.freed_bytes = freed, .adopted_bytes = adopted_.bytes()};
}

protocol::Dropped StateTable::drop_adopted() {
  std::vector<protocol::SnapshotId> going;
  for (const auto& [number, record] : snapshots_) {
    if (record.adopted) going.push_back({.generation = generation_, .number = number});
  }
  protocol::Dropped dropped;
  for (const protocol::SnapshotId id : going) dropped.freed_bytes += remove(id);
  dropped.adopted_bytes = adopted_.bytes();
  return dropped;
}

// -- adapters

protocol::AdapterId StateTable::add_adapter(std::uint64_t bytes) {
  const std::uint64_t number = next_number_++;
  adapters_.emplace(number, bytes);
  adapter_bytes_ += bytes;
  return {.generation = generation_, .number = number};
}

protocol::AdapterDropped StateTable::drop_adapter(std::uint64_t number) {
  protocol::AdapterDropped dropped;
  const auto found = adapters_.find(number);
  if (found == adapters_.end()) return dropped;
  const std::uint64_t before = budget_.used();
  std::vector<protocol::SnapshotId> of_it;
  for (const auto& [snapshot, record] : snapshots_) {
    if (record.adapter == number) of_it.push_back({.generation = generation_, .number = snapshot});
  }
  for (const protocol::SnapshotId id : of_it) remove(id);
  dropped.snapshots = static_cast<std::uint32_t>(of_it.size());
  budget_.give(found->second);
  adapter_bytes_ -= found->second;
  adapters_.erase(found);
  dropped.freed_bytes = before - budget_.used();
  return dropped;
}

// -- the model's end

void StateTable::fail(const protocol::Error& error) {
  failed_ = true;
  for (auto& [number, run] : sequences_) {
    run.end_work(error);
    run.state.reset();
  }
  for (const auto& [number, record] : snapshots_) {
    if (record.adopted) adopted_.remove(record.state);
  }
  snapshots_.clear();
}

}  // namespace reprise::actors
