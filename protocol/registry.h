#pragma once
// Messages of requests to the prefix registry of a model.
//
// A request announces its prompt, and looks it up once it has a sequence. During prefill the worker reports
// checkpoints to the registry (CheckpointTaken); the request then waits with Settle until they are adopted.
// From Announce to Settle the prompt is in flight: requests with the same beginning wait for its checkpoints
// instead of computing them. EndFlight makes the registry forget the flight.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "protocol/cache_report.h"
#include "protocol/jobs/snapshots.h"
#include "protocol/pin.h"

namespace reprise::protocol {

struct Announced {
  std::uint32_t known = 0;       // leading tokens that earlier prompts had
  std::uint32_t restorable = 0;  // tokens that a lookup would have restored at this moment
  // take a checkpoint at this position, because other prompts may diverge here too
  std::optional<std::uint32_t> branch{};
  bool waited = false;  // the request waited for a prompt in flight
};
struct Announce {
  using Reply = Announced;
  FlightNumber flight = 0;
  std::string name_space{};
  SharedTokens prompt{};
  std::uint32_t max_tokens = UINT32_MAX;  // maximum to restore; the rest must be computed
};

struct LookedUp {
  struct Restore {
    SnapshotId snapshot;
    std::uint32_t at = 0;
    Origin origin = Origin::kSpaced;
    std::uint64_t conversation = 0;
  };
  /// A deeper state that a lower tier has delivered. It is loaded first; `restore` is the fallback.
  struct Brought {
    SharedHostState state;
    Origin origin = Origin::kSpaced;
    Tier tier = Tier::kDisk;
  };
  std::optional<Restore> restore{};
  std::optional<Brought> brought{};
  MissReason reason = MissReason::kNone;
  std::uint32_t known = 0;
  std::uint32_t lost = 0;               // known tokens that `restore` does not cover
  std::uint32_t beyond = 0;             // see CacheReport::behind_tokens
  std::vector<std::uint32_t> wanted{};  // positions where other requests wait for a checkpoint of this prompt
};
/// Looks up the flight's prompt. The snapshot found is leased to the flight, which protects it from being
/// dropped until EndLease or EndFlight.
struct Lookup {
  using Reply = LookedUp;
  FlightNumber flight = 0;
  SequenceId sequence{};  // the sequence that will compute the prompt
  std::uint32_t min_tokens = 0;
};

/// Ends the lease of a lookup, after RestoreKv was answered.
struct EndLease {
  static constexpr bool kReleases = true;
  FlightNumber flight = 0;
  MissReason failed = MissReason::kNone;  // kCorrupt, kLost: the entry is dropped; kNoMemory: it stays
  std::uint32_t brought_tokens = 0;       // restored from `tier` instead
  Tier tier = Tier::kDevice;
};

/// Says that the flight has computed everything: other requests no longer wait for it. Answered when the
/// registry has adopted or rejected the `reported` checkpoints; the flight's sequences must stay open until
/// then. May be sent again after later checkpoints. An unknown flight is answered at once.
struct FlightSettled {
  std::uint32_t kept = 0;  // position of the prompt's deepest checkpoint that is in the registry
};
struct Settle {
  using Reply = FlightSettled;
  FlightNumber flight = 0;
  std::uint32_t reported = 0;
};

/// Pins the deepest state of the flight's prompt for `time`, and while `ticket` is held. Sent after Settle.
struct Pin {
  using Reply = Pinned;
  FlightNumber flight = 0;
  std::chrono::seconds time{0};
  SharedPinTicket ticket{};           // null: pinned for `time` only
  std::uint32_t tokens = UINT32_MAX;  // maximum tokens; see CacheOptions::pin_tokens
  bool moves = false;                 // see CacheOptions::pin_moves
};

struct EndFlight {
  static constexpr bool kReleases = true;
  FlightNumber flight = 0;
};

/// Drops the entry at this position, whose state is wrong, and all entries that may derive from it.
struct DropEntry {
  std::string name_space{};
  SharedTokens tokens{};
  std::uint32_t length = 0;
};

/// Drops all entries of the namespaces with this prefix.
struct DropNamespaces {
  using Reply = Nothing;
  std::string prefix{};
};

struct ViewCache;  // protocol/cache_view.h

/// A registry, for requests and for the engine.
using RegistryRef =
    runtime::Ref<Announce, Lookup, EndLease, Settle, Pin, EndFlight, DropEntry, DropNamespaces, ViewCache>;

}  // namespace reprise::protocol
