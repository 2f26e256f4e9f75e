#pragma once
// DeviceState: what all models of a device share. The tables of their sequences and snapshots, and the one
// budget of bytes that these live in.
//
// Threading: the device worker's thread. Tables are added by their owner, and removed before they end.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "actors/worker/state_table.h"
#include "gpu/byte_budget.h"

namespace reprise::actors {

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
