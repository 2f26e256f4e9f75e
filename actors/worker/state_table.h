#pragma once
// StateTable: the sequences and snapshots of one loaded model, and the store that holds their state.
//
// Ids carry the table's generation; an id of another generation is of nothing here. Numbers are never used
// twice.
//
// Who owns a snapshot. A new one belongs to the sequence that it was taken of and goes when that is closed,
// until it is adopted; an adopted one stays until it is dropped. Adoption is bounded: the bytes of all adopted
// ones, shared pages once, stay within the budget that adopt() is given. Drops of what is not there any more
// do nothing.
//
// A table that has failed has neither states nor snapshots; its sequences stay until they are closed, and
// nothing is computed for them.
//
// Threading: the device worker's thread.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "actors/worker/sequence_run.h"
#include "gpu/state_store.h"
#include "models/model.h"
#include "protocol/job.h"

namespace reprise::actors {

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

}  // namespace reprise::actors
