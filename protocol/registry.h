#pragma once
// What requests ask of the registry of prefixes, one for each model.
//
// A request announces its prompt, and looks it up when it has a sequence. The worker tells the registry of the
// checkpoints that the prefill takes (CheckpointTaken); the request waits with Settle until they are adopted. From
// Announced to Settle the prompt is in flight: others that share its beginning wait for its checkpoints instead of
// computing the same. The registry knows it until EndFlight.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "protocol/cache_report.h"
#include "protocol/job.h"
#include "protocol/pin.h"

namespace reprise::protocol {

struct Announced {
  std::uint32_t known = 0;                // tokens of the prompt that were seen before
  std::uint32_t restorable = 0;           // what a lookup would have found just now
  std::optional<std::uint32_t> branch{};  // take a checkpoint here: others may leave at this place, too
  bool waited = false;                    // for a prompt in flight
};
struct Announce {
  using Reply = Announced;
  FlightNumber flight = 0;
  std::string name_space{};
  SharedTokens prompt{};
  std::uint32_t most_tokens = UINT32_MAX;  // to restore: those behind must be computed
};

struct LookedUp {
  struct Restore {
    SnapshotId snapshot;
    std::uint32_t at = 0;
    Origin origin = Origin::kSpaced;
    std::uint64_t conversation = 0;
  };
  /// A deeper one that a tier below has brought: to be loaded first; `restore` is what is left where that fails.
  struct Brought {
    SharedHostState state;
    Origin origin = Origin::kSpaced;
    Tier tier = Tier::kDisk;
  };
  std::optional<Restore> restore{};
  std::optional<Brought> brought{};
  MissReason reason = MissReason::kNone;
  std::uint32_t known = 0;
  std::uint32_t lost = 0;  // of these, that `restore` does not bring
  std::uint32_t behind =
      0;  // tokens of a kept earlier prompt, behind `known`, where this one takes another way
  std::vector<std::uint32_t> wanted{};  // places where others wait for a checkpoint of this prompt
};
/// What it finds to restore is leased to the flight until EndLease, at the latest until EndFlight: nothing
/// that is leased is dropped.
struct Lookup {
  using Reply = LookedUp;
  FlightNumber flight = 0;
  SequenceId sequence{};  // that is going to compute it
  std::uint32_t min_tokens = 0;
};

/// RestoreKv has answered.
struct EndLease {
  FlightNumber flight = 0;
  MissReason failed = MissReason::kNone;  // kCorrupt, kLost: the entry goes; kNoMemory: it stays
  std::uint32_t brought_tokens = 0;       // that came from `tier` instead
  Tier tier = Tier::kDevice;
};

/// All that was to be computed of this flight has been: nobody follows it any more. Answered when as many of
/// its checkpoints as the worker has reported so far, `reported`, have been adopted or given up; until then its
/// sequences must stay open. May be asked again after later checkpoints. An unknown flight is answered at once:
/// nobody will adopt anything of it.
struct FlightSettled {
  std::uint32_t kept =
      0;  // tokens of the prompt up to the deepest checkpoint of it that was adopted, or stood there
};
struct Settle {
  using Reply = FlightSettled;
  FlightNumber flight = 0;
  std::uint32_t reported = 0;
};

/// The deepest state of the flight's prompt is the last to go, for so long and as long as somebody holds the ticket. Asked
/// when the flight has settled.
struct Pin {
  using Reply = Pinned;
  FlightNumber flight = 0;
  std::chrono::seconds time{0};
  SharedPinTicket ticket{};           // null: for that time alone
  std::uint32_t tokens = UINT32_MAX;  // of the prompt, the most that the pinned state has
  bool moves = false;                 // a ticket that pins another state already pins this one instead
};

struct EndFlight {
  FlightNumber flight = 0;
};

/// The state at this place turned out to be wrong: its entry goes, and all that may have been computed from
/// it.
struct DropEntry {
  std::string name_space{};
  SharedTokens tokens{};
  std::uint32_t length = 0;
};

/// All entries of the namespaces that begin so go: nothing will be restored from them any more.
struct DropNamespaces {
  using Reply = Nothing;
  std::string prefix{};
};

}  // namespace reprise::protocol
