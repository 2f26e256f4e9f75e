#pragma once
// Checkpoints: canonical snapshots for the registry.
//
// A prefill carries a plan of checkpoints. The worker reports each to the registry as it is taken, with the
// plan, and the registry adopts it. The request is told how many were reported, and waits with Settle
// (protocol/registry.h) until the registry has handled that many before it closes the sequence.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"
#include "protocol/cache_report.h"
#include "protocol/jobs/job.h"

namespace reprise::protocol {

// identifies a prompt in flight (protocol/registry.h), never reused; 0: none
using FlightNumber = std::uint64_t;

struct PlannedCheckpoint {
  std::uint32_t at = 0;  // position in tokens, on the grid
  Origin origin = Origin::kSpaced;
  std::chrono::seconds ttl{
      0};  // maximum time since the last use, if shorter than the cache's; 0: the cache's

  bool operator==(const PlannedCheckpoint&) const = default;
};

/// The registry's data on the checkpoints of one computation. The worker reads only the positions, and sends
/// the plan along with each checkpoint.
struct CheckpointPlan {
  FlightNumber flight = 0;  // the flight that takes the checkpoints
  // the flight of the request's own prompt: groups the entries that one request made
  FlightNumber request = 0;
  std::string name_space{};
  std::uint64_t conversation = 0;
  std::uint32_t keep = 0;                        // do not supersede an entry of this length
  std::chrono::seconds disk_retention{0};        // see CacheOptions::disk_retention
  std::vector<PlannedCheckpoint> checkpoints{};  // ascending positions
  Origin origin_elsewhere = Origin::kBranch;     // origin of a checkpoint that is not in `checkpoints`
};
using SharedPlan = std::shared_ptr<const CheckpointPlan>;

struct SnapshotTaken {
  SnapshotId snapshot{};
  std::uint32_t tokens = 0;
  std::uint64_t exclusive_bytes = 0;
  bool reported = false;  // sent to the registry
};

/// Sent by a worker to the registry of the sequence's model, once for each planned checkpoint.
struct CheckpointTaken {
  SequenceId sequence{};
  SharedPlan plan{};
  SharedTokens tokens{};  // tokens of the sequence, at least `at`
  std::uint32_t at = 0;
  std::optional<SnapshotTaken> snapshot{};  // none: no memory for it, or `healthy` is false
  bool healthy = true;                      // false: the state was not finite
};

/// Adds a checkpoint to a running prefill that has a plan; an idle prefill is given normal urgency. Returns
/// false if the position has been passed or no such prefill runs.
struct AddCheckpoint {
  using Reply = bool;
  SequenceId sequence{};
  std::uint32_t at = 0;
};

}  // namespace reprise::protocol
