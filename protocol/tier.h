#pragma once
// Messages of a registry to a tier below the device's memory: find, fetch, store and forget states.
//
// A tier is an actor that holds states as bytes in host memory or elsewhere, and does not access the device.
// It may be slow or fail at any time, which costs hits but never changes answers: it returns the state that
// was stored for exactly these tokens by an engine with the same arithmetic, or a miss with its reason.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "protocol/cache_report.h"
#include "protocol/jobs/snapshots.h"
#include "protocol/sampled_turns.h"
#include "protocol/snapshots/state_key.h"
#include "runtime/ref.h"

namespace reprise::protocol {

using snapshots::StateKind;

struct Fetched {
  SharedHostState state{};  // null: a miss, explained by `reason`
  MissReason reason = MissReason::kNeverSeen;
  Origin origin = Origin::kSpaced;
  Tier tier = Tier::kDisk;
};
/// Fetches the deepest stored state of a prefix of the prompt with more than `more_than` and at most
/// `at_most` tokens.
struct FetchState {
  using Reply = Fetched;
  StateKind kind{};
  std::string name_space{};
  SharedTokens prompt{};
  std::uint32_t more_than = 0;
  std::uint32_t at_most = 0;
  double seconds_per_token = 0;  // prefill speed of the device; 0: not known yet
};

/// How long a tier may take for a fetch.
inline constexpr std::chrono::seconds kMaxFetchTime{70};

struct FoundState {
  std::uint32_t at = 0;  // tokens; 0: a miss, explained by `reason`
  MissReason reason = MissReason::kNeverSeen;
};
/// Returns how deep a state FetchState would deliver, as far as that is known without reading the state.
struct FindState {
  using Reply = FoundState;
  FetchState fetch{};
};

/// Asks the tier to store a snapshot when there is time. The snapshot may be gone by then. Nothing waits for
/// the result.
struct StoreState {
  StateKind kind{};
  std::string name_space{};
  SharedTokens tokens{};
  std::uint32_t at = 0;  // number of tokens that the snapshot covers
  Origin origin = Origin::kSpaced;
  SnapshotId snapshot{};
  runtime::Ref<ReadKv> worker{};
  std::chrono::seconds retention{0};  // on disk: evicted after all entries without retention for this long
  std::function<bool()> device_is_idle{};  // if set: wait until it returns true
};

/// Drops states whose tokens begin with the first `length` of these, because they are wrong.
struct ForgetStates {
  StateKind kind{};
  std::string name_space{};
  SharedTokens tokens{};
  std::uint32_t length = 0;
};

/// Frees the memory of a model's states in the namespaces with this prefix, because the model or an adapter
/// was unloaded. They are valid, so copies that outlive the process are kept.
struct UnloadStates {
  std::uint64_t model = 0;  // StateKind::model
  std::string prefix{};     // empty: all namespaces
};

/// Stores a sampled turn, so that it outlasts a restart. Nothing waits for the result.
struct StoreTurn {
  std::uint64_t model = 0;  // ArchLoaded::identity
  std::string name_space{};
  SharedTurn turn{};
};
/// Returns the stored turns with these names, in any order.
struct FetchTurns {
  using Reply = std::vector<SharedTurn>;
  std::uint64_t model = 0;
  std::string name_space{};
  std::vector<std::string> names{};
};
/// A store of sampled turns: one durable tier, or all of them together.
using TurnStoreRef = runtime::Ref<StoreTurn, FetchTurns>;

/// OneTierRef: a single tier. TierRef: all tiers together. Only a tier in host memory gets UnloadStates.
using OneTierRef = runtime::Ref<FindState, FetchState, StoreState, ForgetStates>;
using TierRef = runtime::Ref<FetchState, StoreState, ForgetStates, UnloadStates>;

}  // namespace reprise::protocol
