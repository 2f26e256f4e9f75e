#pragma once
// What a device holds: one budget of bytes (DeviceState), and for each loaded model a table of its sequences and snapshots
// (StateTable), whose ids carry the table's generation. Numbers are never used twice.
//
// A sequence (SequenceRun). Its tokens are the first `prompt_end` of its prompt and those decoded since. The newest
// decoded token is not in the state yet: feeding it gives the logits of the next. A state that holds fewer tokens than it
// should (it was preempted) first catches up, and then goes on as if nothing had been. A prompt with a budget is compacted
// at the end of its prefill: its state has fewer KV entries then than tokens.
//
// Who owns a snapshot. A new one belongs to the sequence that it was taken of and goes when that is closed, until it is
// adopted; an adopted one stays until it is dropped. Adoption is bounded: the bytes of all adopted ones, shared pages once,
// stay within the budget that adopt() is given. Drops of what is not there any more do nothing.
//
// A table that has failed has neither states nor snapshots; its sequences stay until they are closed, and nothing is
// computed for them.
//
// Threading: the device worker's thread. While SequenceRun::in_step is set, its `state` belongs to the step runner. Tables
// are added by their owner, and removed before they end.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/kv_budget.h"
#include "base/token_mask.h"
#include "gpu/byte_budget.h"
#include "gpu/state_store.h"
#include "models/compaction.h"
#include "models/model.h"
#include "models/sampling/sampler.h"
#include "protocol/job.h"
#include "runtime/reply.h"
#include "runtime/stream.h"

namespace reprise::actors {

struct SequenceRun {
  enum class Phase : std::uint8_t { kIdle, kRestore, kSnapshot, kPrefill, kDecode };

  protocol::SequenceId id;
  std::uint64_t ticket = 0;
  traces::RequestTrace trace;  // of the request that it is for
  protocol::Priority priority = protocol::Priority::kNormal;
  std::uint64_t tenant = 0;
  std::uint64_t group = 0;
  std::uint64_t adapter = 0;           // number of the one that it chose; 0: none
  std::uint64_t order = 0;             // of admission
  std::uint32_t priced_pages = 0;      // promised to it when it was admitted
  std::uint32_t priced_compacted = 0;  // the same once its prompt is compacted
  std::uint32_t shared_pages = 0;      // of these, expected to come from a snapshot; 0 once that is decided
  bool snapshot_promised = false;      // behind its prompt
  std::uint64_t last_step = 0;         // of its model
  Phase phase = Phase::kIdle;
  bool in_step = false;
  std::uint32_t step_end = 0;  // tokens that it will hold after the step
  bool closing = false;        // to be removed when its step has ended

  // -- state
  std::optional<gpu::Sequence> state;       // nothing: preempted
  std::optional<gpu::SavedSequence> saved;  // preempted by a copy
  SharedTokens prompt;                      // from the beginning; null until the first prefill
  std::uint32_t prompt_end = 0;
  std::vector<TokenId> decoded;
  std::vector<float> logits;                    // after the last token; empty: not known
  std::vector<protocol::SnapshotId> snapshots;  // taken of it, not adopted

  // -- compaction
  KvBudget kv;                               // of its prompt; 0 tokens: none
  std::unique_ptr<models::PromptTail> tail;  // until it is compacted
  std::optional<KvKept> kept;                // of its prompt

  // -- restore and snapshot: jobs that may wait for memory
  std::optional<protocol::RestoreKv> restore;
  std::optional<protocol::LoadKv> load;  // a restore from the host's memory
  runtime::ReplyTo<protocol::JobResult<protocol::Restored>> restored;
  protocol::SnapshotKv::Kind snapshot_kind = protocol::SnapshotKv::Kind::kCanonical;
  protocol::SharedPlan snapshot_plan;
  runtime::ReplyTo<protocol::JobResult<protocol::SnapshotTaken>> snapshot_taken;
  std::optional<std::chrono::steady_clock::time_point> short_since;

  // -- prefill
  std::deque<std::uint32_t> checkpoints;         // still to be taken, ascending
  std::vector<std::uint32_t> early_checkpoints;  // asked for before the prefill came
  std::vector<std::uint32_t> awaited;            // places of the plan that others wait for
  bool want_digest = false;
  protocol::Prefill::Hidden hidden_wish = protocol::Prefill::Hidden::kNone;
  std::vector<float> hidden;       // filled by steps; stays where it is while it is in one
  std::uint32_t hidden_until = 0;  // tokens whose states are in the sum
  std::uint32_t computed = 0;
  protocol::SharedPlan plan;   // whose checkpoints they are
  std::uint32_t reported = 0;  // of them, or of the decoding's
  runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>> prefilled;
  runtime::StreamWriter<std::uint32_t> progress;  // null: its request does not ask for it

  // -- decode
  std::optional<models::Sampler> sampler;   // from the prefill on where that was told how its reply begins
  bool draws_first = false;                 // the prefill was
  std::optional<models::DrawnToken> first;  // drawn by the prefill, which left no logits then
  runtime::StreamWriter<protocol::DecodeEvent> out;
  std::vector<TokenId> stop_tokens;
  protocol::SharedPlan reply_plan;           // of checkpoints inside the reply; null: none are taken
  std::uint32_t reply_checkpoint_every = 0;  // tokens
  std::uint32_t next_reply_checkpoint = 0;   // tokens that the state then holds
  protocol::SharedPlan call_plan;  // of the checkpoint before the first tool call; null: it is not taken
  TokenId call_opener = -1;
  std::uint32_t max_tokens = 0;
  bool awaits_credit = false;
  std::shared_ptr<const MaskSlot> masks;  // null: no step is masked
  bool awaits_mask = false;               // its logits are here, and the mask is not

  /// Tokens that its state is of. Not while it is in a step.
  std::uint32_t held_tokens() const { return state ? static_cast<std::uint32_t>(state->logical()) : 0; }
  std::uint32_t reached() const { return in_step ? step_end : held_tokens(); }
  /// Its state has fewer places than tokens: it cannot be computed again from them as others can.
  bool compacted() const {
    return (state && state->stored() != state->logical()) || (saved && saved->stored != saved->logical);
  }
  /// Of a prefill: all that is left is to end it.
  bool prompt_is_computed() const { return phase == Phase::kPrefill && state && held_tokens() == prompt_end; }
  bool compaction_is_due() const { return prompt_is_computed() && kv.shortens(prompt_end) && !compacted(); }
  /// Pages that it was promised and does not hold yet.
  std::uint32_t promised_pages() const {
    if (!state) return 0;
    const auto held = std::max(static_cast<std::uint32_t>(state->pages().size()), shared_pages);
    return priced_pages > held ? priced_pages - held : 0;
  }
  /// A job that waits until its memory is there.
  bool waits_for_memory() const { return phase == Phase::kRestore || phase == Phase::kSnapshot; }
  /// Tokens that its state should hold before it does anything new.
  std::uint32_t settled() const {
    return prompt_end + static_cast<std::uint32_t>(decoded.empty() ? 0 : decoded.size() - 1);
  }
  /// Admitted for a request that has yet to look what it can restore, and then begins.
  bool is_about_to_begin() const {
    return state && !prompt && !closing && priority != protocol::Priority::kIdle;
  }
  bool computes() const { return phase == Phase::kPrefill || phase == Phase::kDecode; }
  bool checkpoint_is_due() const {
    return phase == Phase::kPrefill && !checkpoints.empty() && checkpoints.front() == held_tokens();
  }
  bool reply_checkpoint_is_due() const {
    return phase == Phase::kDecode && reply_plan && held_tokens() >= settled() &&
           held_tokens() >= next_reply_checkpoint;
  }
  /// The newest token opens a tool call, and the state holds all tokens before it.
  bool call_checkpoint_is_due() const {
    return phase == Phase::kDecode && call_plan && !decoded.empty() && decoded.back() == call_opener &&
           held_tokens() == settled();
  }
  void place_next_reply_checkpoint(std::uint32_t grid) {
    next_reply_checkpoint = (held_tokens() + reply_checkpoint_every + grid - 1) / grid * grid;
  }
  TokenId token_at(std::uint32_t place) const {
    if (place < prompt_end) return (*prompt)[place];
    REPRISE_CHECK(place - prompt_end < decoded.size(), "a token was requested that is not sampled yet");
    return decoded[place - prompt_end];
  }

  /// Reports how many tokens the prefill has computed; a report without credit is skipped.
  void tell_progress();
  /// Answers the prefill, which has ended.
  void answer_prefill(protocol::JobResult<protocol::Prefilled> answer);

  /// A sampler that has seen the prompt.
  void begin_reply(SamplingParams sampling, std::size_t vocab, std::uint32_t choice);

  /// Ends what it is doing, and tells whoever waits for it; it is at rest then.
  void end_work(const protocol::JobError& error);
};

/// What must be known of a model to work on its sequences.
struct ModelFacts {
  gpu::StateSizes sizes{};
  models::ModelRules rules{};
  std::uint32_t vocab = 0;
  std::uint32_t hidden = 0;  // values of a hidden state
  std::uint64_t tail_bytes =
      0;               // of each of a prompt's last tokens, to compact it; 0: it cannot be compacted
  bool draws = false;  // its device may choose tokens itself
};

struct SnapshotRecord {
  gpu::Snapshot state;
  SharedTokens tokens;           // of which the state is, and maybe more behind them
  protocol::SequenceId owner{};  // until it is adopted
  std::uint64_t adapter = 0;     // of the sequence
  bool adopted = false;
  // Raw snapshots carry what their sequence needs to go on.
  bool raw = false;
  std::uint32_t prompt_end = 0;
  std::vector<float> logits{};
};

class StateTable {
 public:
  /// `memory`: where the state lives; none: on the host. Budget and memory must outlive the table.
  StateTable(std::uint32_t generation, const ModelFacts& facts, gpu::ByteBudget& budget,
             gpu::BlockMemory* memory);
  ~StateTable() { budget_.give(adapter_bytes_); }
  StateTable(const StateTable&) = delete;
  StateTable& operator=(const StateTable&) = delete;

  std::uint32_t generation() const { return generation_; }
  protocol::ArchId id() const { return {.generation = generation_, .number = generation_}; }
  const ModelFacts& facts() const { return facts_; }
  const models::ModelRules& rules() const { return facts_.rules; }
  gpu::StateStore& store() { return store_; }
  std::uint64_t page_bytes() const { return facts_.sizes.page_bytes; }
  std::uint64_t slot_bytes() const { return facts_.sizes.slot_bytes; }
  /// Of a sequence of so many tokens, the first `shared` of them in pages that others hold too.
  std::uint64_t price(std::uint64_t tokens, std::uint64_t shared = 0) const;
  /// What a sequence of its own holds, or was promised if that is more; pages that it shares count in full.
  std::uint64_t charge(const SequenceRun& run) const {
    const std::uint64_t pages = run.state ? run.state->pages().size() : 0;
    return slot_bytes() + std::max<std::uint64_t>(pages, run.priced_pages) * page_bytes();
  }
  /// Bytes that its sequences were promised and do not hold yet.
  std::uint64_t promised_bytes() const;

  // -- sequences

  SequenceRun& open(std::uint64_t ticket);
  /// Null where there is none, or one that is being closed.
  SequenceRun* find(protocol::SequenceId id);
  SequenceRun* find_ticket(std::uint64_t ticket);
  /// With its snapshots that were not adopted. Not while it is in a step.
  void close(protocol::SequenceId id);
  std::unordered_map<std::uint64_t, SequenceRun>& sequences() { return sequences_; }
  const std::unordered_map<std::uint64_t, SequenceRun>& sequences() const { return sequences_; }

  // -- snapshots

  protocol::SnapshotId add(SnapshotRecord record);
  SnapshotRecord* find(protocol::SnapshotId id);
  /// kUnknown for one that is not there, or raw. One that would pass the budget stays its sequence's.
  protocol::JobResult<protocol::Adopted> adopt(protocol::SnapshotId id, std::uint64_t budget_bytes);
  protocol::Dropped drop(protocol::SnapshotId id);
  protocol::Dropped drop_adopted();
  std::uint64_t adopted_bytes() const { return adopted_.bytes(); }
  std::unordered_map<std::uint64_t, SnapshotRecord>& snapshots() { return snapshots_; }
  const std::unordered_map<std::uint64_t, SnapshotRecord>& snapshots() const { return snapshots_; }

  // -- adapters: what its sequences may choose. Their weights are the model's.

  /// Whose bytes were taken from the budget.
  protocol::AdapterId add_adapter(std::uint64_t bytes);
  /// A number that is not there does nothing. Its sequences have been closed.
  protocol::AdapterDropped drop_adapter(std::uint64_t number);
  bool has_adapter(protocol::AdapterId id) const {
    return id.generation == generation_ && adapters_.contains(id.number);
  }

  // -- the model's end

  void fail(const protocol::JobError& error);
  bool failed() const { return failed_; }

  std::uint64_t steps = 0;  // that its model has computed

 private:
  std::uint64_t remove(protocol::SnapshotId id);

  const std::uint32_t generation_;
  const ModelFacts facts_;
  gpu::ByteBudget& budget_;
  gpu::StateStore store_;  // outlives all that holds its blocks
  gpu::SnapshotGroup adopted_;
  std::unordered_map<std::uint64_t, SnapshotRecord> snapshots_;
  std::unordered_map<std::uint64_t, SequenceRun> sequences_;
  std::unordered_map<std::uint64_t, std::uint64_t> tickets_;   // -> numbers of sequences
  std::unordered_map<std::uint64_t, std::uint64_t> adapters_;  // number -> bytes
  std::uint64_t adapter_bytes_ = 0;
  std::uint64_t next_number_ = 1;
  bool failed_ = false;
};

/// A sequence and where it stands. Valid until a sequence or a table goes.
struct HeldSequence {
  StateTable* table = nullptr;
  SequenceRun* run = nullptr;  // null: there is no such sequence
};

class DeviceState {
 public:
  explicit DeviceState(std::uint64_t limit_bytes) : budget_(limit_bytes) {}

  gpu::ByteBudget& budget() { return budget_; }
  const gpu::ByteBudget& budget() const { return budget_; }

  void add(StateTable& table) { tables_.push_back(&table); }
  void remove(StateTable& table) { std::erase(tables_, &table); }
  const std::vector<StateTable*>& tables() const { return tables_; }

  /// Null: no such generation.
  StateTable* find(std::uint32_t generation) const {
    for (StateTable* table : tables_) {
      if (table->generation() == generation) return table;
    }
    return nullptr;
  }
  HeldSequence find(protocol::SequenceId id) const {
    StateTable* table = find(id.generation);
    return {table, table == nullptr ? nullptr : table->find(id)};
  }

  /// In the order of their admission.
  template <class Wanted>
  std::vector<HeldSequence> sequences_where(const Wanted& wanted) const {
    std::vector<HeldSequence> found;
    for (StateTable* table : tables_) {
      for (auto& [number, run] : table->sequences()) {
        if (wanted(run)) found.push_back({table, &run});
      }
    }
    std::sort(found.begin(), found.end(),
              [](const HeldSequence& a, const HeldSequence& b) { return a.run->order < b.run->order; });
    return found;
  }

  std::uint64_t promised_bytes() const {
    std::uint64_t bytes = 0;
    for (const StateTable* table : tables_) bytes += table->promised_bytes();
    return bytes;
  }
  std::uint32_t sequences() const {
    std::size_t count = 0;
    for (const StateTable* table : tables_) count += table->sequences().size();
    return static_cast<std::uint32_t>(count);
  }
  std::uint32_t snapshots() const {
    std::size_t count = 0;
    for (const StateTable* table : tables_) count += table->snapshots().size();
    return static_cast<std::uint32_t>(count);
  }
  std::uint64_t adopted_bytes() const {
    std::uint64_t bytes = 0;
    for (const StateTable* table : tables_) bytes += table->adopted_bytes();
    return bytes;
  }

 private:
  gpu::ByteBudget budget_;
  std::vector<StateTable*> tables_;
};

}  // namespace reprise::actors
