#pragma once
// HostTier keeps states in host memory (protocol/tier.h). Pages shared by several states are held once. All
// bytes of a state are compared with their digests before it is returned.
//
// Bound: `max_bytes`. The least recently used states are evicted before a snapshot is read that would not
// fit. StoreQueue bounds the snapshots that wait to be read.
//
// A state that would be computed sooner, by more than TierFigures::kMayLose and as far as both speeds are
// known, is not returned.
//
// SummedBytes is a copy of a block with digests of its pieces.
//
// Failure: an exception from a handler restarts the tier with nothing in it.
// Threading: an actor with its own thread, since it copies much. Copies and digests of large blocks run on
// temporary threads (base/in_parallel.h) that touch nothing else.

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
#include "protocol/tier.h"
#include "runtime/actor.h"

namespace reprise::actors {

class SummedBytes {
 public:
  static constexpr std::size_t kPiece = 256 << 10;  // bytes; fits a core's cache between digest and copy

  SummedBytes() = default;
  /// Throws std::bad_alloc.
  explicit SummedBytes(std::span<const std::byte> contents);

  std::size_t size() const { return size_; }
  /// Returns the bytes unchecked; writable only for tests of corruption.
  std::span<std::byte> contents() const { return {bytes_.get(), size_}; }

 private:
  friend bool copy_compared(std::span<const SummedBytes* const> parts, std::span<std::byte> to);

  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> sums_;  // digests of the pieces, in order
};

/// Copies the parts one after the other to `to`, whose size must be their total. Returns false if a digest
/// differs.
[[nodiscard]] bool copy_compared(std::span<const SummedBytes* const> parts, std::span<std::byte> to);

class HostTier : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::FindState, protocol::FetchState, protocol::StoreState,
                                    protocol::ForgetStates, protocol::UnloadStates>;
  static constexpr const char* kName = "host tier";
  static constexpr std::uint32_t kMaxRestarts = 10;
  static constexpr std::chrono::minutes kRestartWindow{1};
  static constexpr std::uint32_t kConcurrentHandlers = 16;

  HostTier(HostTierSettings settings, std::shared_ptr<TierFigures> figures);

  void on_start();
  protocol::FoundState on(protocol::FindState job);
  protocol::Fetched on(protocol::FetchState job);
  void on(protocol::StoreState job);
  void on(protocol::ForgetStates job);
  void on(const protocol::UnloadStates& job);

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
    std::uint64_t model = 0;
    std::string name{};
  };

  /// Returns null if the tier has nothing of this namespace.
  const Space* find_space(const protocol::StateKind& kind, const std::string& name_space) const;
  runtime::Task<void> keep_all();
  runtime::Task<void> keep(protocol::StoreState job);
  void insert(const protocol::StoreState& job, const SnapshotPlan& plan, std::vector<Block> fresh);
  bool make_room(std::uint64_t bytes);
  void drop(const RecordId& id);
  /// Returns null if a digest differs.
  protocol::SharedHostState assemble(const protocol::FetchState& job, const NamespaceIndex::Match& match,
                                     std::shared_ptr<void> counted);
  void publish();

  const HostTierSettings settings_;
  const std::shared_ptr<TierFigures> figures_;
  const protocol::snapshots::Key master_;  // random, for this process only
  const LoadingBytes loading_;
  std::map<Place, Space> spaces_;
  std::unordered_map<RecordId, State, protocol::snapshots::RecordIdHash> states_;
  std::unordered_map<RecordId, Block, protocol::snapshots::RecordIdHash> blocks_;
  std::list<RecordId> by_use_;  // states, least recently used first
  std::uint64_t bytes_ = 0;
  StoreQueue waiting_;
};

}  // namespace reprise::actors
