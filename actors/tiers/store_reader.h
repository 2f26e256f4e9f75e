#pragma once
// StoreReader: reads snapshots of a store, manifests and whole states. It decides nothing: what it cannot prove to be
// what was asked for comes back as a refusal.
//
// Failure: expected ones are answers. What leaves a handler fails the tier above it, which begins anew.
// Threading: an actor on a thread of its own, which blocks on its store. Threads of that store may open chunks of a state
// while it waits for them (RecordStore::read_each): each writes its own chunk's place in the state and nothing else.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/tiers/namespace_index.h"
#include "actors/tiers/tier_figures.h"
#include "actors/tiers/tier_settings.h"
#include "protocol/snapshots/manifest.h"
#include "protocol/snapshots/record_store.h"
#include "protocol/tier.h"
#include "runtime/actor.h"

namespace reprise::actors {

/// Digests of the contents of chunks that manifests refer to.
using ChunkSums = std::vector<std::pair<protocol::snapshots::RecordId, std::uint64_t>>;

struct ManifestsRead {
  std::vector<NamespaceIndex::Entry> added{};
  std::vector<protocol::snapshots::RecordId> gone{};
  ChunkSums sums{};
  std::int64_t changed = 0;  // of the folder, when it was read; -1: it could not be
};
/// What the manifests of a namespace say: those that are not `known`, and which of these have gone.
struct ReadManifests {
  using Reply = ManifestsRead;
  protocol::snapshots::NamespaceKeys keys{};
  protocol::StateKind kind{};
  std::vector<protocol::snapshots::RecordId> known{};
  std::int64_t since = 0;  // nothing is read if the folder has not changed since
};

/// A state, as far as the first `at` of these tokens.
struct ReadState {
  using Reply = Outcome<protocol::SharedHostState, protocol::snapshots::Refused>;
  protocol::snapshots::NamespaceKeys keys{};
  protocol::StateKind kind{};
  protocol::snapshots::RecordId manifest{};
  SharedTokens prompt{};
  std::uint32_t at = 0;
  std::shared_ptr<void> counted{};
};

/// Removes the manifests of states whose tokens begin with these, and their chunks.
struct RemoveStates {
  using Reply = std::vector<protocol::snapshots::RecordId>;  // manifests
  protocol::snapshots::NamespaceKeys keys{};
  SharedTokens tokens{};
  std::uint32_t length = 0;
};

class StoreReader : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<ReadManifests, ReadState, RemoveStates, protocol::FetchTurns>;
  static constexpr const char* kName = "tier reader";

  StoreReader(TierSettings settings, std::shared_ptr<TierFigures> figures)
      : settings_(std::move(settings)), figures_(std::move(figures)), store_(settings_.open_store()) {}

  void on_start() {
    if (settings_.buffers) settings_.buffers->prepare();  // nobody waits yet
  }
  ReadManifests::Reply on(ReadManifests job);
  ReadState::Reply on(ReadState job);
  RemoveStates::Reply on(RemoveStates job);
  protocol::FetchTurns::Reply on(const protocol::FetchTurns& job);

 private:
  using Manifest = protocol::snapshots::Manifest;
  using Refused = protocol::snapshots::Refused;

  Outcome<Manifest, Refused> read_manifest(const protocol::snapshots::RecordId& folder,
                                           const protocol::snapshots::RecordId& id);
  Outcome<protocol::SharedHostState, Refused> read_state(const ReadState& job);
  /// Says so once, and removes what can never be read again.
  void note(const Refused& refused, const protocol::snapshots::RecordId& folder,
            const protocol::snapshots::RecordId& manifest);

  const TierSettings settings_;
  const std::shared_ptr<TierFigures> figures_;
  const std::unique_ptr<protocol::snapshots::RecordStore> store_;
  std::set<protocol::snapshots::RecordId> refused_;  // and still there: said once
};

}  // namespace reprise::actors
