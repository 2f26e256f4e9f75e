#pragma once
// HostTier: states in the host's memory, for a device whose own is smaller (protocol/tier.h). Pages that states have in
// common are held once, as in the other tiers, and each state is what it was when it was read from its device: all of
// it is compared with its digests before it is brought.
//
// Bound: `most_bytes`; what was not used for longest goes first, before anything is read for which there would be no
// room. Snapshots that wait to be read: see StoreQueue.
//
// A state that would be computed sooner, by more than TierFigures::kMayLose and as far as both speeds are known, is left.
//
// SummedBytes holds the blocks: a copy of bytes with digests of its pieces, so that it can be proven to be what it was.
// Large ones are copied, and compared, by several threads at once; these have ended when the copy returns.
//
// Failure: what leaves a handler makes it start anew, with nothing.
// Threading: an actor on a thread of its own: it copies much. Copies and digests of large blocks are shared with a few
// threads that live for that copy alone (base/in_parallel.h), and touch nothing else of it.

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "actors/tiers/namespace_index.h"
#include "actors/tiers/snapshot_source.h"
#include "actors/tiers/tier_figures.h"
#include "actors/tiers/tier_settings.h"
#include "base/bounded_count.h"
#include "protocol/tier.h"
#include "runtime/actor.h"

namespace reprise::actors {

class SummedBytes {
 public:
  static constexpr std::size_t kPiece = 256 << 10;  // stays in a core's cache between digest and copy

  SummedBytes() = default;
  /// Throws std::bad_alloc.
  explicit SummedBytes(std::span<const std::byte> contents);

  std::size_t size() const { return size_; }
  /// As they are now. Nobody writes to them but tests of what follows.
  std::span<std::byte> contents() const { return {bytes_.get(), size_}; }

 private:
  friend bool copy_compared(std::span<const SummedBytes* const> parts, std::span<std::byte> to);

  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> sums_;  // of the pieces, in their order
};

/// One behind the other, into as many bytes as they are together. False: some are not what they were.
[[nodiscard]] bool copy_compared(std::span<const SummedBytes* const> parts, std::span<std::byte> to);

class HostTier : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::FindState, protocol::FetchState, protocol::StoreState,
                                    protocol::ForgetStates>;
  static constexpr const char* kName = "host tier";
  static constexpr std::uint32_t kMostRestarts = 10;
  static constexpr std::chrono::minutes kRestartWindow{1};
  static constexpr std::uint32_t kConcurrentHandlers = 16;

  HostTier(HostTierSettings settings, std::shared_ptr<TierFigures> figures);

  void on_start();
  protocol::FoundState on(protocol::FindState job);
  protocol::Fetched on(protocol::FetchState job);
  void on(protocol::StoreState job);
  void on(protocol::ForgetStates job);

 private:
  using RecordId = protocol::snapshots::RecordId;
  using Place = std::pair<RecordId, std::uint64_t>;  // folder, arithmetic
  struct Block {
    SummedBytes contents{};
    std::uint32_t holders = 0;
  };
  struct State {
    Place place{};
    std::vector<RecordId> blocks{};
    TokenList tokens{};
    std::list<RecordId>::iterator in_order{};
  };
  struct Space {
    protocol::snapshots::NamespaceKeys keys{};
    NamespaceIndex index;
  };

  /// Null: nothing is held of it.
  const Space* find_space(const protocol::StateKind& kind, const std::string& name_space) const;
  runtime::Task<void> keep_all();
  runtime::Task<void> keep(protocol::StoreState job);
  void insert(const protocol::StoreState& job, const SnapshotPlan& plan, std::vector<Block> fresh);
  bool make_room(std::uint64_t bytes);
  void drop(const RecordId& id);
  /// Null: it is not what it was.
  protocol::SharedHostState assemble(const protocol::FetchState& job, const NamespaceIndex::Match& match,
                                     std::shared_ptr<void> counted);
  void publish();

  const HostTierSettings settings_;
  const std::shared_ptr<TierFigures> figures_;
  const protocol::snapshots::Key master_;        // of this process alone
  const std::shared_ptr<BoundedCount> loading_;  // MiB
  std::map<Place, Space> spaces_;
  std::unordered_map<RecordId, State, protocol::snapshots::RecordIdHash> states_;
  std::unordered_map<RecordId, Block, protocol::snapshots::RecordIdHash> blocks_;
  std::list<RecordId> by_use_;  // states, the one used last at the end
  std::uint64_t bytes_ = 0;
  StoreQueue waiting_;
};

}  // namespace reprise::actors
