#pragma once
// DeviceState holds the memory budget of a device and one StateTable for each loaded model. A StateTable
// holds the model's sequences and snapshots. Their ids carry the table's generation, and numbers are never
// reused.
//
// Sequences (SequenceRun). The tokens are the first `prompt_end` tokens of the prompt and the decoded ones.
// The newest decoded token is not in the state yet: feeding it yields the logits of the next. A preempted
// sequence first recomputes the tokens that its state lacks and then continues. A prompt with a KV budget is
// compacted after its prefill: its state then has fewer KV entries than tokens.
//
// Snapshots. A new snapshot belongs to its sequence and is freed with it, unless it is adopted. An adopted
// snapshot stays until it is dropped. The bytes of all adopted snapshots, with shared pages counted once,
// stay within the budget passed to adopt(). Dropping an unknown snapshot does nothing.
//
// A table that has failed has no states and no snapshots. Its sequences stay until they are closed, and
// compute nothing.
//
// Threading: the device worker's thread. While SequenceRun::in_step is set, its `state` belongs to the step
// runner. A table must be removed from the DeviceState before it is destroyed.

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
#include "gpu/state/byte_budget.h"
#include "gpu/state/state_store.h"
#include "models/compaction.h"
#include "models/model.h"
#include "models/sampling/sampler.h"
#include "protocol/jobs/models.h"
#include "protocol/jobs/sequences.h"
#include "runtime/reply.h"
#include "runtime/stream.h"

namespace reprise::actors {

struct SequenceRun {
  enum class Phase : std::uint8_t { kIdle, kRestore, kSnapshot, kPrefill, kDecode };

  protocol::SequenceId id;
  std::uint64_t ticket = 0;
  traces::RequestTrace trace;
  protocol::Priority priority = protocol::Priority::kNormal;
  std::uint64_t tenant = 0;
  std::uint64_t group = 0;
  std::uint64_t adapter = 0;         // 0: none
  std::uint64_t order = 0;           // order of admission
  std::uint32_t reserved_pages = 0;  // pages reserved at admission
  std::uint32_t shared_pages = 0;    // pages expected to be shared with a snapshot; 0 once that is decided
  bool snapshot_promised = false;    // memory for a snapshot after the prompt is reserved
  std::uint64_t last_step = 0;       // the model's last step that included it
  Phase phase = Phase::kIdle;
  bool in_step = false;
  std::uint32_t step_end = 0;  // tokens in the state after the step
  bool closing = false;        // close it when its step has ended

  // -- state
  std::optional<gpu::Sequence> state;       // nullopt: preempted
  std::optional<gpu::SavedSequence> saved;  // copy in host memory of a preempted state
  SharedTokens prompt;                      // the whole prompt; null until the first prefill
  std::uint32_t prompt_end = 0;
  std::vector<TokenId> decoded;
  std::vector<float> logits;                    // logits of the next token; empty: not known
  std::vector<protocol::SnapshotId> snapshots;  // not adopted yet

  std::uint32_t reported = 0;  // checkpoints reported to the registry by the current prefill or decoding

  // The fields of each kind of work stay valid after it has ended: a message may end it during a step that
  // writes through pointers into them.

  struct Compaction {
    KvBudget budget;                           // 0 tokens: none
    std::unique_ptr<models::PromptTail> tail;  // queries that choose the kept entries; null once compacted
    std::optional<KvKept> kept;                // result
    std::uint32_t reserved_pages = 0;          // pages reserved once the prompt is compacted
  };
  Compaction compaction;

  /// A restore or a snapshot, which may wait for memory.
  struct WaitingJob {
    std::optional<protocol::RestoreKv> restore;
    std::optional<protocol::LoadKv> load;  // pending restore from host memory
    runtime::ReplyTo<protocol::JobResult<protocol::Restored>> restored;
    protocol::SnapshotKv::Kind snapshot_kind = protocol::SnapshotKv::Kind::kCanonical;
    protocol::SharedPlan snapshot_plan;
    runtime::ReplyTo<protocol::JobResult<protocol::SnapshotTaken>> snapshot_taken;
    std::optional<std::chrono::steady_clock::time_point> short_since;
  };
  WaitingJob waiting;

  struct PrefillWork {
    std::deque<std::uint32_t> checkpoints;         // positions still to be saved, ascending
    std::vector<std::uint32_t> early_checkpoints;  // positions requested before the prefill arrived
    std::vector<std::uint32_t> awaited;            // planned positions that other requests wait for
    bool want_digest = false;
    protocol::Prefill::Hidden hidden_kind = protocol::Prefill::Hidden::kNone;
    std::vector<float> hidden;       // hidden state that the request wants; not reallocated during a step
    std::uint32_t hidden_until = 0;  // tokens included in it
    std::uint32_t computed = 0;
    protocol::SharedPlan plan;
    runtime::ReplyTo<protocol::JobResult<protocol::Prefilled>> reply;
    runtime::StreamWriter<std::uint32_t> progress;  // null: no progress is reported
  };
  PrefillWork prefill;

  struct DecodeWork {
    bool follows = false;  // set up by the prefill that carries it; begins when that ends
    std::optional<models::Sampler> sampler;
    // The step that ends the prefill reads the plan and writes the token, if the device samples it.
    std::optional<models::SamplePlan> first_plan;
    std::optional<models::DrawnToken> first;
    runtime::StreamWriter<protocol::DecodeEvent> out;
    std::vector<TokenId> stop_tokens;
    protocol::SharedPlan reply_plan;           // plan of checkpoints inside the reply; null: none
    std::uint32_t reply_checkpoint_every = 0;  // tokens
    std::uint32_t next_reply_checkpoint = 0;
    protocol::SharedPlan call_plan;  // plan of the checkpoint before the first tool call; null: none
    TokenId call_opener = -1;
    std::uint32_t max_tokens = 0;
    bool awaits_credit = false;
    std::shared_ptr<const MaskSlot> masks;  // null: no step is masked
    bool awaits_mask = false;
  };
  DecodeWork decode;

  /// Returns the number of tokens that the state covers. Requires: not in a step.
  std::uint32_t held_tokens() const { return state ? static_cast<std::uint32_t>(state->logical()) : 0; }
  std::uint32_t reached() const { return in_step ? step_end : held_tokens(); }
  /// Returns true if the state has fewer KV entries than tokens. Such a state cannot be recomputed from its
  /// tokens.
  bool compacted() const {
    return (state && state->stored() != state->logical()) || (saved && saved->stored != saved->logical);
  }
  /// Returns true if the prefill has computed all tokens and only has to be answered.
  bool prompt_is_computed() const { return phase == Phase::kPrefill && state && held_tokens() == prompt_end; }
  bool compaction_is_due() const {
    return prompt_is_computed() && compaction.budget.shortens(prompt_end) && !compacted();
  }
  /// Returns the reserved pages that it does not hold yet.
  std::uint32_t promised_pages() const {
    if (!state) return 0;
    const auto held = std::max(static_cast<std::uint32_t>(state->pages().size()), shared_pages);
    return reserved_pages > held ? reserved_pages - held : 0;
  }
  bool waits_for_memory() const { return phase == Phase::kRestore || phase == Phase::kSnapshot; }
  /// Returns the number of tokens that the state must cover before new work: all but the newest decoded one.
  std::uint32_t settled() const {
    return prompt_end + static_cast<std::uint32_t>(decoded.empty() ? 0 : decoded.size() - 1);
  }
  /// Returns true if the sequence was admitted for a request that has neither restored a state nor begun its
  /// prefill.
  bool is_about_to_begin() const {
    return state && !prompt && !closing && priority != protocol::Priority::kIdle;
  }
  bool computes() const { return phase == Phase::kPrefill || phase == Phase::kDecode; }
  bool checkpoint_is_due() const {
    return phase == Phase::kPrefill && !prefill.checkpoints.empty() &&
           prefill.checkpoints.front() == held_tokens();
  }
  bool reply_checkpoint_is_due() const {
    return phase == Phase::kDecode && decode.reply_plan && held_tokens() >= settled() &&
           held_tokens() >= decode.next_reply_checkpoint;
  }
  /// Returns true if the newest token opens a tool call and the state covers all tokens before it.
  bool call_checkpoint_is_due() const {
    return phase == Phase::kDecode && decode.call_plan && !decoded.empty() &&
           decoded.back() == decode.call_opener && held_tokens() == settled();
  }
  void set_next_reply_checkpoint(std::uint32_t grid) {
    decode.next_reply_checkpoint = (held_tokens() + decode.reply_checkpoint_every + grid - 1) / grid * grid;
  }
  TokenId token_at(std::uint32_t position) const {
    if (position < prompt_end) return (*prompt)[position];
    REPRISE_CHECK(position - prompt_end < decoded.size(), "a token was requested that is not sampled yet");
    return decoded[position - prompt_end];
  }

  /// Reports how many tokens the prefill has computed; a report without credit is skipped.
  void tell_progress();
  /// Ends the prefill with this answer. On an error the decoding that it carries does not begin.
  void answer_prefill(protocol::JobResult<protocol::Prefilled> answer);

  /// Sets up a decoding with valid sampling parameters; the sampler is fed the prompt.
  void set_up_decode(protocol::Decode job, std::size_t vocab);

  /// Forgets the decoding that the prefill carries, and ends its stream.
  void drop_carried_decode();

  /// Ends the current work and answers all jobs that wait for it with `error`.
  void end_work(const protocol::Error& error);
};

struct ModelFacts {
  gpu::StateSizes sizes{};
  models::ModelRules rules{};
  std::uint32_t vocab = 0;
  std::uint32_t hidden = 0;      // elements of a hidden state
  std::uint64_t tail_bytes = 0;  // bytes per token of the queries that compaction needs; 0: not supported
  bool draws = false;            // the device can sample tokens
};

struct SnapshotRecord {
  gpu::Snapshot state;
  SharedTokens tokens;           // tokens of the state, possibly followed by more
  protocol::SequenceId owner{};  // owner until adopted
  std::uint64_t adapter = 0;     // 0: none
  bool adopted = false;
  // Only raw snapshots have these, to continue decoding:
  bool raw = false;
  std::uint32_t prompt_end = 0;
  std::vector<float> logits{};
};

class StateTable {
 public:
  /// `memory` holds the state; null: host memory. `budget` and `memory` must outlive the table.
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
  /// Returns the bytes of a sequence of `tokens`, the first `shared` of them in shared pages.
  std::uint64_t cost(std::uint64_t tokens, std::uint64_t shared = 0) const;
  /// Returns the larger of the bytes that it holds and was promised. Shared pages count in full.
  std::uint64_t charge(const SequenceRun& run) const {
    const std::uint64_t pages = run.state ? run.state->pages().size() : 0;
    return slot_bytes() + std::max<std::uint64_t>(pages, run.reserved_pages) * page_bytes();
  }
  /// Returns the bytes that sequences were promised and do not hold yet.
  std::uint64_t promised_bytes() const;

  // -- sequences

  SequenceRun& open(std::uint64_t ticket);
  /// Returns null if the sequence is unknown or being closed.
  SequenceRun* find(protocol::SequenceId id);
  SequenceRun* find_ticket(std::uint64_t ticket);
  /// Removes a sequence and its snapshots that were not adopted. Requires: not in a step.
  void close(protocol::SequenceId id);
  std::unordered_map<std::uint64_t, SequenceRun>& sequences() { return sequences_; }
  const std::unordered_map<std::uint64_t, SequenceRun>& sequences() const { return sequences_; }

  // -- snapshots

  protocol::SnapshotId add(SnapshotRecord record);
  SnapshotRecord* find(protocol::SnapshotId id);
  /// Returns kUnknown if the snapshot is unknown or raw. A snapshot that would exceed the budget is not
  /// adopted and stays with its sequence.
  protocol::JobResult<protocol::Adopted> adopt(protocol::SnapshotId id, std::uint64_t budget_bytes);
  protocol::Dropped drop(protocol::SnapshotId id);
  protocol::Dropped drop_adopted();
  std::uint64_t adopted_bytes() const { return adopted_.bytes(); }
  std::unordered_map<std::uint64_t, SnapshotRecord>& snapshots() { return snapshots_; }
  const std::unordered_map<std::uint64_t, SnapshotRecord>& snapshots() const { return snapshots_; }

  // -- adapters

  /// Adds an adapter whose `bytes` the caller has taken from the budget.
  protocol::AdapterId add_adapter(std::uint64_t bytes);
  /// Removes an adapter; does nothing if it is unknown. Requires: the sequences that use it are closed.
  protocol::AdapterDropped drop_adapter(std::uint64_t number);
  bool has_adapter(protocol::AdapterId id) const {
    return id.generation == generation_ && adapters_.contains(id.number);
  }

  // -- the model's end

  void fail(const protocol::Error& error);
  bool failed() const { return failed_; }

  std::uint64_t steps = 0;  // computed steps

 private:
  std::uint64_t remove(protocol::SnapshotId id);

  const std::uint32_t generation_;
  const ModelFacts facts_;
  gpu::ByteBudget& budget_;
  gpu::StateStore store_;  // before the members that hold its blocks
  gpu::SnapshotGroup adopted_;
  std::unordered_map<std::uint64_t, SnapshotRecord> snapshots_;
  std::unordered_map<std::uint64_t, SequenceRun> sequences_;
  std::unordered_map<std::uint64_t, std::uint64_t> tickets_;   // ticket -> sequence number
  std::unordered_map<std::uint64_t, std::uint64_t> adapters_;  // number -> bytes
  std::uint64_t adapter_bytes_ = 0;
  std::uint64_t next_number_ = 1;
  bool failed_ = false;
};

/// A sequence and its table; invalidated when either is removed.
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

  /// Returns null if no table has this generation.
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

  /// Returns the sequences for which `wanted` is true, in the order of admission.
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
