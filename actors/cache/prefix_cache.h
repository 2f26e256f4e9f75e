#pragma once
// The prefix cache of a model: known prompts, and the rules for keeping snapshots. No actors and no device:
// `reprise replay` runs the same code on recorded traces.
//
// One radix tree (actors/cache/prefix_tree.h) holds, per namespace:
// - paths: prompts that were seen, with or without a snapshot. Where a prompt diverges from a path, later
//   ones may too; these are the branch points.
// - entries: snapshots, each at the end of its tokens, with origin, conversation and last use.
// - flights: prompts being computed. A prompt that shares more with a flight than with any entry can wait for
//   the flight's checkpoint instead of computing the same tokens.
//
// Rules:
// - Namespaces share nothing.
// - Lookup: the deepest entry on the prompt's path at or before prompt - 1. If states can be cut at any token
//   (`any_token`, attention-only models), also a deeper entry, cut to the shared length.
// - Supersede: an entry of kHistory, kPromptEnd, kTurnEnd or kCall replaces shorter ones of these origins on
//   its path that earlier requests of the same conversation made. A prompt end belongs to the last request
//   that sent the prompt: another reply to it does not replace it. If states can be cut, origins do not
//   matter, as the longer entry serves all uses. Pinned entries are not superseded.
// - Leases: a leased entry is never dropped. It may be superseded; it is then no longer found, and freed with
//   its last lease.
// - Caps: at most max_per_conversation entries per conversation; one more evicts the one of them that
//   eviction would take first. Of origin kReply at most max_in_replies, thinned so that the rest lie far
//   apart.
// - Pins: at most max_pinned, of which max_pinned_of_tenant per tenant by pin(). A pin ends with its time or
//   its ticket. Pinned entries are evicted last, but are subject to reclaim and TTL.
// - Eviction: never leased entries; expired ones first, then least recently used (weighted by the policy's
//   patience), pinned ones last.
// - Tombstones: a node records why its last entry was removed, for the reasons of later misses. Superseding
//   leaves none.
// - Miss reasons: let possible = the known part of the prompt, at most prompt - 1, on the grid. kNone if all
//   of it was restored. kNeverSeen if less than one grid step is known. Otherwise the tombstone of the
//   deepest position beyond the restored one, or kNoCheckpoint.
// - Branches: where the prompt diverges from a known path, or ends inside it, beyond what can be restored. A
//   prompt that extends a path's end has not diverged.
//
// Bounds: max_entries, enforced by the caller (over_entry_limit); max_path_tokens of stored paths, and
// max_namespaces, where the least recently walked are dropped first. Paths and namespaces with entries or
// flights are exempt: snapshots and requests are bounded elsewhere.
//
// Threading: one owner. The caller passes the time, so that replays can run faster than the clock.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cache/cache_settings.h"
#include "base/token.h"
#include "protocol/cache_report.h"
#include "protocol/pin.h"

namespace reprise::actors {

class CacheNamespaces;  // actors/cache/cache_namespaces.h
class EvictionPolicy;   // actors/cache/eviction.h

using protocol::MissReason;
using protocol::Origin;

using EntryId = std::uint64_t;       // never reused
using FlightId = std::uint64_t;      // never reused
using Conversation = std::uint64_t;  // 0: none; supersedes nothing

/// The result of a lookup.
struct Found {
  struct Restore {
    EntryId entry;
    std::uint64_t snapshot;
    std::uint32_t at;  // tokens to restore: the entry's length, or less if states can be cut
    Origin origin;
    Conversation conversation;
  };
  std::optional<Restore> restore;
  MissReason reason = MissReason::kNone;
  std::uint32_t known = 0;              // tokens of the prompt on a known path
  std::optional<std::uint32_t> branch;  // position after `restore` for a kBranch checkpoint
};

/// The result of a peek.
struct Sighting {
  std::uint32_t known = 0;              // tokens of the prompt on a known path
  std::uint32_t restorable = 0;         // tokens that a lookup would restore
  std::optional<std::uint32_t> branch;  // as in Found
  bool diverges = false;                // an earlier prompt continues differently after `known`
  std::uint32_t tokens_after = 0;       // if it diverges: tokens after `known` of an entry on the other path
};

/// A flight worth waiting for: both prompts are equal up to `at`, a grid position.
struct Leader {
  FlightId flight;
  std::uint32_t at;
};

struct NewEntry {
  std::uint64_t snapshot = 0;
  std::uint32_t length = 0;  // tokens from the beginning of the prompt
  Origin origin = Origin::kSpaced;
  Conversation conversation = 0;
  std::uint64_t request = 0;  // its creator; entries of one request do not supersede each other
  bool pinned = false;
  std::uint32_t keep = 0;  // length of an entry not to be superseded: the last user message's end
  CacheTime ttl{0};        // since the last use, in addition to the cache's; 0: none
};

struct Inserted {
  EntryId entry = 0;
  /// An entry existed at this position; the caller keeps `snapshot`.
  bool already_there = false;
  std::vector<std::uint64_t> superseded;  // or beyond the conversation's cap: snapshots to drop
};

struct EntryInfo {
  EntryId id;
  std::uint64_t snapshot;
  std::uint32_t length;
  Origin origin;
  Conversation conversation;
  CacheTime last_use;
  std::uint32_t hits;
  std::uint32_t leases;
  bool pinned;
};

/// An entry that is recreated within this many lookups of its eviction counts as evicted too early.
inline constexpr std::uint64_t kThrashWindow = 100;

/// Counters since construction, then current values.
struct PrefixCacheStats {
  std::uint64_t lookups = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t restored_tokens = 0;
  std::uint64_t by_reason[protocol::kMissReasons] = {};
  std::uint64_t hits_by_origin[protocol::kOrigins] = {};
  std::uint64_t inserts_by_origin[protocol::kOrigins] = {};
  std::uint64_t evicted = 0, expired = 0, superseded = 0;
  std::uint64_t capped = 0;    // evicted by their conversation's cap
  std::uint64_t thrashed = 0;  // recreated within kThrashWindow lookups of their eviction
  // Current values:
  std::uint64_t entries = 0, leases = 0, pinned = 0, flights = 0, path_tokens = 0, namespaces = 0;
  std::uint64_t index_bytes = 0;  // tree and entries
};

class PrefixCache {
 public:
  /// Uses the default policy. Throws std::invalid_argument if the grid is 0.
  explicit PrefixCache(PrefixCacheOptions options);
  /// Uses another policy, for comparisons.
  PrefixCache(PrefixCacheOptions options, std::unique_ptr<EvictionPolicy> policy);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // -- flights

  /// Registers a prompt that is going to be computed, until end_flight(); its path stays longer. Call lead()
  /// and lookup() first; afterwards they would find the prompt itself.
  FlightId begin_flight(std::string_view name_space, std::span<const TokenId> prompt, CacheTime now);
  void end_flight(FlightId flight);
  /// Returns the flight that shares most with this prompt, if that saves enough compared with the entries.
  /// Among several, approximately the oldest.
  std::optional<Leader> lead(std::string_view name_space, std::span<const TokenId> prompt) const;
  /// The variant for a prompt that is in flight itself: considers only older flights, so that no two wait for
  /// each other, and none in `passed`, which are beyond the position.
  std::optional<Leader> lead(std::string_view name_space, std::span<const TokenId> prompt, FlightId self,
                             std::span<const FlightId> passed) const;

  // -- lookup

  /// Reports what is known of a prompt before it becomes a flight; counts and leases nothing.
  Sighting peek(std::string_view name_space, std::span<const TokenId> prompt) const;

  /// Looks up a prompt: uses and leases the entry found, and marks the path as walked without extending it.
  /// May find an expired entry until expire() removes it. `known`: peek()'s result for a prompt that is in
  /// flight; paths beyond are its own and are ignored, and no branch is reported. `request`: becomes the
  /// owner of an entry that covers its whole prompt; 0: none.
  Found lookup(std::string_view name_space, std::span<const TokenId> prompt, std::uint32_t min_tokens,
               CacheTime now, std::uint32_t known = UINT32_MAX, std::uint64_t request = 0);
  /// Ends a lease. Returns the snapshot to drop if the entry was superseded and this was its last lease. Does
  /// nothing after clear(), which ended the lease.
  [[nodiscard]] std::optional<std::uint64_t> release(EntryId entry);

  // -- entries

  /// Inserts an entry. `tokens` is the prompt from its beginning, at least entry.length long; the length must
  /// be on the grid. If there is an entry at the position already, it is used, and pinned if the new one was
  /// to be.
  Inserted insert(std::string_view name_space, std::span<const TokenId> tokens, const NewEntry& entry,
                  CacheTime now);
  /// Pins the deepest entry at or before the end of the tokens until `until`, or until the ticket is
  /// released; expire() ends pins. For a chat's prompt it is the entry after the last message. A ticket keeps
  /// the entry it already pins unless `moves`. A null ticket: by time only.
  protocol::Pinned pin(std::string_view name_space, std::span<const TokenId> tokens, CacheTime until,
                       const protocol::SharedPinTicket& ticket = nullptr, bool moves = false);
  /// Records kUnhealthy for later misses, as a checkpoint at the end of these tokens was not stored. Does
  /// nothing if the path is unknown or has an entry there.
  void note_unhealthy(std::string_view name_space, std::span<const TokenId> tokens);

  /// Returns the entry to evict next, or nullopt if all are leased. `allow_pinned`: consider pinned entries.
  std::optional<EntryInfo> least_valuable(CacheTime now, bool allow_pinned) const;
  /// Removes an entry and leaves a tombstone unless `why` is kNone. The caller owns the snapshot. Returns
  /// false if the entry is unknown or leased.
  bool remove(EntryId entry, MissReason why);
  /// Removes the entries at and after the end of these tokens, which derive from a state that proved wrong.
  /// Returns the snapshots to drop; leased ones are returned by their last release().
  std::vector<std::uint64_t> remove_from(std::string_view name_space, std::span<const TokenId> tokens,
                                         MissReason why);
  /// Removes all entries of namespaces with this prefix; returns as remove_from().
  std::vector<std::uint64_t> remove_namespaces(std::string_view prefix, MissReason why);
  /// Removes expired entries, ends expired pins, and returns the snapshots to drop.
  std::vector<std::uint64_t> expire(CacheTime now);
  /// Returns true if there are more than max_entries.
  bool over_entry_limit() const;
  /// Removes all entries because the device's memory is lost, with tombstones kLost. Ends leases; flights
  /// stay until ended.
  void clear();

  // -- inspection

  std::optional<EntryInfo> find(EntryId entry) const;
  const CacheNamespaces& namespaces() const;
  PrefixCacheStats stats() const;
  /// Returns the number of path tokens covered by entries, each counted once: what shared pages would hold.
  /// Excludes superseded entries that are still leased.
  std::uint64_t covered_tokens() const;
  /// For tests: recounts everything and aborts if an invariant is violated.
  void check() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::actors
