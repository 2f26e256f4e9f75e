#pragma once
// Jobs that take, restore, read, adopt and drop snapshots.
//
// Lifetime (it does not depend on the order of messages from different senders): a snapshot belongs to its
// sequence and is freed with it, until AdoptKvSnapshot has been answered. It then belongs to the registry
// until DropKvSnapshot or DropAdopted. Drops are idempotent and are answered even after a fault.
//
// Kinds of snapshots
// - Canonical: taken at a position on the device's grid, by prefill (or by decoding, if decoding gives the
//   same bits). Depends on the tokens only, so other requests may restore it.
// - Raw: at the end of a prompt, which need not be on the grid, with its logits; only for the request that
//   took it, to decode several choices.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/token.h"
#include "protocol/jobs/checkpoints.h"

namespace reprise::protocol {

struct Restored {
  std::uint32_t tokens = 0;
  std::uint64_t shared_bytes = 0;
};
/// Restores a snapshot into a sequence without work in progress and replaces its state. `at` may be less than
/// the snapshot's tokens if it can be truncated. If memory is short, a raw snapshot waits without limit; a
/// canonical one waits for a bounded time, because its state can be computed instead.
struct RestoreKv {
  using Reply = JobResult<Restored>;
  SequenceId sequence{};
  SnapshotId snapshot{};
  std::uint32_t at = 0;
  // hash of the prompt's first `at` tokens; if the snapshot's differs, it is damaged
  std::uint64_t token_hash = 0;
};

/// A state in host memory: its pages (the last may be partly filled), then its slot.
struct HostState {
  std::span<const std::byte> bytes{};
  std::shared_ptr<const void> memory{};  // owns `bytes`
  std::uint32_t stored = 0;              // KV entries in the pages
  std::uint32_t logical = 0;             // RoPE positions; equals `stored` unless compacted
  std::shared_ptr<void> reservation{};   // reservation against the limit on states in flight
};
using SharedHostState = std::shared_ptr<const HostState>;

/// Restores a state from host memory, with RestoreKv's rules. The sequence then holds the first
/// `state->stored` of the tokens, as if it had computed them.
struct LoadKv {
  using Reply = JobResult<Restored>;
  SequenceId sequence{};
  SharedHostState state{};
  SharedTokens tokens{};
};

/// Copies pages [first_page, first_page + pages) of an adopted snapshot, then its slot if `slot`, to `to`,
/// whose size must match exactly. The worker owns `to` until it answers. It computes nothing during the copy,
/// so callers read large snapshots in parts, into pinned memory.
struct ReadKv {
  using Reply = JobResult<Nothing>;
  SnapshotId snapshot{};
  std::uint32_t first_page = 0;
  std::uint32_t pages = 0;
  bool slot = false;
  std::span<std::byte> to{};
  std::shared_ptr<void> memory{};  // owns `to`
};

/// Takes a snapshot of a sequence without work in progress. If memory is short, a raw snapshot waits; a
/// canonical one waits for memory that the registries free, and fails if they free none. A canonical snapshot
/// with a plan is a checkpoint: the registry is told before the answer.
struct SnapshotKv {
  using Reply = JobResult<SnapshotTaken>;
  enum class Kind : std::uint8_t { kCanonical, kRaw };
  SequenceId sequence{};
  Kind kind = Kind::kCanonical;
  SharedPlan plan{};
};

struct Adopted {
  bool done = false;
  std::uint64_t short_bytes = 0;    // if not done: bytes to free first, to stay within the budget
  std::uint64_t adopted_bytes = 0;  // total of the model's adopted snapshots, shared pages counted once
};
/// Transfers a snapshot to the registry, unless its total would then exceed `budget_bytes`.
struct AdoptKvSnapshot {
  using Reply = JobResult<Adopted>;
  SnapshotId snapshot{};
  std::uint64_t budget_bytes = 0;
};

struct Dropped {
  std::uint64_t freed_bytes = 0;    // excludes pages that other snapshots or sequences share
  std::uint64_t adopted_bytes = 0;  // total after the drop
};
struct DropKvSnapshot {
  static constexpr bool kReleases = true;
  using Reply = Dropped;
  SnapshotId snapshot{};
};

/// Drops all adopted snapshots of the model; sent by a registry that starts empty.
struct DropAdopted {
  static constexpr bool kReleases = true;
  using Reply = Dropped;
  ArchId arch{};
};

struct Reclaimed {
  std::uint64_t freed_bytes = 0;
  std::uint32_t entries = 0;
};
/// Sent by a worker to a registry: drop the least valuable entries, none last used after `not_after`, until
/// this many bytes are freed.
struct Reclaim {
  using Reply = Reclaimed;
  std::uint64_t bytes = 0;
  std::int64_t not_after = INT64_MAX;  // nanoseconds of the steady clock
  bool ahead = false;                  // freed in advance of need: keep recently used and pinned entries
};

/// Sent by a registry that freed less than it was asked for, when more can be freed.
struct MoreToReclaim {
  static constexpr bool kReleases = true;
  ArchId arch{};
};

/// A worker, for the registry that keeps snapshots in it.
using SnapshotRef =
    runtime::Ref<AdoptKvSnapshot, DropKvSnapshot, DropAdopted, ReadKv, AddCheckpoint, MoreToReclaim>;

}  // namespace reprise::protocol
