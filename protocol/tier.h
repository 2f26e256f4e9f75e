#pragma once
// What a registry asks of the tier below the device's memory: to bring a state, to keep one, to forget some.
//
// A tier is an actor. It holds states as bytes in the host's memory or elsewhere, touches no device, and may fail or be
// slow at any time: that costs hits, never answers. What it brings is the very state that was stored, of exactly these
// tokens, from an engine with the same arithmetic; anything else is a miss with its reason.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "protocol/cache_report.h"
#include "protocol/job.h"
#include "protocol/sampled_turns.h"
#include "protocol/snapshots/state_key.h"
#include "runtime/ref.h"

namespace reprise::protocol {

using snapshots::StateKind;

struct Fetched {
  SharedHostState state{};  // null: there is none, or
  MissReason reason = MissReason::kNeverSeen;
  Origin origin = Origin::kSpaced;
  Tier tier = Tier::kDisk;
};
/// The deepest state of the prompt's beginning, of more than `more_than` and at most `at_most` tokens.
struct FetchState {
  using Reply = Fetched;
  StateKind kind{};
  std::string name_space{};
  SharedTokens prompt{};
  std::uint32_t more_than = 0;
  std::uint32_t at_most = 0;
  double seconds_per_token = 0;  // that the device computes in; 0: not known yet
};

struct FoundState {
  std::uint32_t at = 0;  // tokens; 0: there is none, or
  MissReason reason = MissReason::kNeverSeen;
};
/// How far FetchState would bring it, as far as it is known without reading the state.
struct FindState {
  using Reply = FoundState;
  FetchState wish{};
};

/// Keep a snapshot of the device, when there is time for it. It may be gone by then: nobody waits for a tier.
struct StoreState {
  StateKind kind{};
  std::string name_space{};
  SharedTokens tokens{};
  std::uint32_t at = 0;  // of the tokens, that the snapshot is of
  Origin origin = Origin::kSpaced;
  SnapshotId snapshot{};
  runtime::Ref<ReadKv> worker{};
  std::chrono::seconds retention{0};       // on disk: for so long it is evicted after those without
  std::function<bool()> device_is_idle{};  // set: not before it is
};

/// States of tokens that begin with these turned out to be wrong.
struct ForgetStates {
  StateKind kind{};
  std::string name_space{};
  SharedTokens tokens{};
  std::uint32_t length = 0;
};

/// Keep a turn as it was sampled, for after a restart. Nobody waits for it.
struct StoreTurn {
  std::uint64_t model = 0;  // fingerprint
  std::string name_space{};
  SharedTurn turn{};
};
/// The turns of these names that the store has, in any order.
struct FetchTurns {
  using Reply = std::vector<SharedTurn>;
  std::uint64_t model = 0;
  std::string name_space{};
  std::vector<std::string> names{};
};
/// A store of turns: a tier that outlasts the process, or all of these together.
using TurnStoreRef = runtime::Ref<StoreTurn, FetchTurns>;

/// One tier, and all of them together.
using OneTierRef = runtime::Ref<FindState, FetchState, StoreState, ForgetStates>;
using TierRef = runtime::Ref<FetchState, StoreState, ForgetStates>;

}  // namespace reprise::protocol
