#pragma once
// What is known of prompts, and which snapshot is worth keeping: the registry's memory and its rules, without
// actors or a device. `reprise replay` runs this very code over recorded traces.
//
// It knows three things about a namespace's prompts, all in one radix tree (actors/cache/prefix_tree.h):
//   paths     prompts that were seen, with or without a snapshot. Where a new prompt leaves a path, the next
//             one may leave it too: that is how branch points are found.
//   entries   snapshots, each at the end of its tokens, with origin, conversation, size and last use.
//   flights   prompts that are being computed now. A prompt that shares more with a flight than with any
//             entry can wait for the flight's checkpoint instead of computing the same again.
//
// Rules
//   Namespaces share nothing.
//   Lookup       the deepest entry on the prompt's path at or before prompt - 1; where a state can be cut at
//                any token (`any_token`, attention alone), also an entry beyond, cut down to what is shared.
//   Supersede    an entry of kHistory, kPromptEnd or kTurnEnd replaces shorter ones of these origins on its
//                path that an earlier request of the same conversation made. The end of a prompt that is sent
//                again belongs to the request that sent it last: another reply does not replace it. Where
//                states can be cut, the longer one can do all that the shorter could: the origins do not
//                matter then. A pinned entry is not superseded.
//   Leases       a leased entry is never dropped; it may be superseded, is then found no more, and goes with
//                its last lease.
//   Caps         at most max_per_conversation entries that one conversation made: a further one makes that of them
//                go that eviction would take first. It is evicted, to those who miss it. Of kReply at most max_in_replies,
//                where those stay that lie far apart.
//   Pins         at most max_pinned, of a tenant max_pinned_of_tenant by pin(), each for its time and as long as its
//                ticket is held; a pinned entry is the last to be evicted, not immune to reclaim nor to its time to live.
//   Eviction     leased: never. Expired ones first, then the least recently used, pinned ones last. A policy
//                may be more patient with some.
//   Tombstones   a node remembers how its last entry went, so that a later miss can say so. A superseded
//                entry leaves none.
//   Reasons      with possible = what is known of the prompt, at most prompt - 1, on the grid: all of it
//                restored: kNone. Not even one step of the grid known: kNeverSeen. Else the tombstone of the
//                deepest place beyond the restored one, kNoCheckpoint if there is none.
//   Branches     where the prompt leaves a known path, or ends inside it, beyond what can be restored. A
//                prompt that goes on where a path ended has left nothing.
//
// Bounds: max_entries, which the caller enforces (over_entry_limit); max_path_tokens of stored paths, where
// those that nobody walked for longest go first; max_namespaces, likewise. Paths and namespaces that carry
// entries or flights stay whatever these limits say: snapshots and requests are bounded elsewhere.
// Threading: one owner. Time is passed in, so that a replay can run faster than the clock.

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
using Conversation = std::uint64_t;  // 0: none, and nothing is superseded

/// What a lookup found.
struct Found {
  struct Restore {
    EntryId entry;
    std::uint64_t snapshot;
    std::uint32_t at;  // tokens to restore: the entry's length, or less where states can be cut
    Origin origin;
    Conversation conversation;
  };
  std::optional<Restore> restore;
  MissReason reason = MissReason::kNone;
  std::uint32_t known = 0;  // tokens of the prompt that are on a path
  std::optional<std::uint32_t>
      branch;  // a place, after `restore`, where a checkpoint of kBranch should be taken
};

/// What is known of a prompt.
struct Sighting {
  std::uint32_t known = 0;              // tokens of it that are on a path
  std::uint32_t restorable = 0;         // what a lookup would restore now
  std::optional<std::uint32_t> branch;  // as in Found
  bool diverges = false;                // an earlier prompt goes on otherwise behind `known`
  std::uint32_t behind = 0;             // tokens that an entry there has, behind `known`
};

/// A flight worth waiting for: `at` is the place, on the grid, up to which the two prompts are equal.
struct Leader {
  FlightId flight;
  std::uint32_t at;
};

struct NewEntry {
  std::uint64_t snapshot = 0;
  std::uint32_t length = 0;  // tokens, from the beginning of the prompt
  Origin origin = Origin::kSpaced;
  Conversation conversation = 0;
  std::uint64_t request = 0;  // whose; entries of one request do not supersede each other
  bool pinned = false;
  std::uint32_t keep = 0;  // an entry of this length is not superseded: where the last user message ends
  CacheTime ttl{0};        // its own time to live since the last use, beside the cache's; 0: none
};

struct Inserted {
  EntryId entry = 0;
  /// The place was taken by an entry of its own; `snapshot` is not needed and belongs to the caller again.
  bool already_there = false;
  std::vector<std::uint64_t> superseded;  // or over its conversation's cap: snapshots to drop
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

/// An entry that is made again within so many lookups of its eviction was evicted too early.
inline constexpr std::uint64_t kThrashWindow = 100;

/// Counted since the beginning.
struct PrefixCacheStats {
  std::uint64_t lookups = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t restored_tokens = 0;
  std::uint64_t by_reason[protocol::kMissReasons] = {};
  std::uint64_t hits_by_origin[protocol::kOrigins] = {};
  std::uint64_t inserts_by_origin[protocol::kOrigins] = {};
  std::uint64_t evicted = 0, expired = 0, superseded = 0;
  std::uint64_t capped = 0;    // gave way to others of their own conversation
  std::uint64_t thrashed = 0;  // inserts where one was evicted fewer than kThrashWindow lookups before
  // Now:
  std::uint64_t entries = 0, leases = 0, pinned = 0, flights = 0, path_tokens = 0, namespaces = 0;
  std::uint64_t index_bytes = 0;  // of the tree and the list of entries
};

class PrefixCache {
 public:
  /// With the policy that ships. Throws std::invalid_argument: a grid of 0.
  explicit PrefixCache(PrefixCacheOptions options);
  /// With another policy, to compare.
  PrefixCache(PrefixCacheOptions options, std::unique_ptr<EvictionPolicy> policy);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // -- flights

  /// The prompt is going to be computed. It stays a flight until end_flight(); its path stays longer. Call
  /// lead() and lookup() first, or they find the prompt itself.
  FlightId begin_flight(std::string_view name_space, std::span<const TokenId> prompt, CacheTime now);
  void end_flight(FlightId flight);
  /// The flight that shares most with this prompt, if it shares enough more than entries can give. Of several
  /// the one that began first, as far as that is cheap to tell.
  std::optional<Leader> lead(std::string_view name_space, std::span<const TokenId> prompt) const;
  /// The same for a prompt that is in flight itself: only older flights lead, so that no two wait for each
  /// other, and none of `passed`, which are beyond the place already.
  std::optional<Leader> lead(std::string_view name_space, std::span<const TokenId> prompt, FlightId self,
                             std::span<const FlightId> passed) const;

  // -- lookup

  /// What is known of a prompt before it becomes a flight itself; nothing is counted or leased.
  Sighting peek(std::string_view name_space, std::span<const TokenId> prompt) const;

  /// Counts as a use of the entry that it finds, and takes a lease on it. Walks, but does not add, the path.
  /// Finds what has outlived its time as long as expire() has not removed it. `known`: what peek() saw, for a
  /// prompt that is a flight by now; paths beyond it are its own and explain nothing, and it has no branch.
  /// `request`: who asks; an entry that is all of its prompt becomes its own. 0: nobody.
  Found lookup(std::string_view name_space, std::span<const TokenId> prompt, std::uint32_t min_tokens,
               CacheTime now, std::uint32_t known = UINT32_MAX, std::uint64_t request = 0);
  /// The lease. Returns the snapshot to drop, if the entry was superseded and this was its last lease.
  /// Nothing happens after a clear(), which ended the lease.
  [[nodiscard]] std::optional<std::uint64_t> release(EntryId entry);

  // -- entries

  /// `tokens` is the prompt from its beginning, at least entry.length long; the length stands on the grid. If
  /// the place is taken, the entry there is used, and pinned if this one was to be.
  Inserted insert(std::string_view name_space, std::span<const TokenId> tokens, const NewEntry& entry,
                  CacheTime now);
  /// Pins the deepest entry at or before the end of these tokens until then, or until nobody holds the ticket, as far as
  /// expire() is called; of a chat's prompt the one behind the last message. A ticket that pins an entry already keeps
  /// that one, unless it `moves`. Without a ticket: for the time alone.
  protocol::Pinned pin(std::string_view name_space, std::span<const TokenId> tokens, CacheTime until,
                       const protocol::SharedPinTicket& ticket = nullptr, bool moves = false);
  /// A checkpoint at the end of these tokens was not stored, so that later misses can tell: kUnhealthy. Does
  /// nothing where the path is not known or has an entry.
  void note_unhealthy(std::string_view name_space, std::span<const TokenId> tokens);

  /// The snapshot that should go first, or nothing if all are leased. `allow_pinned`: pinned ones too.
  std::optional<EntryInfo> least_valuable(CacheTime now, bool allow_pinned) const;
  /// Takes it out and leaves a tombstone, none for kNone. Its snapshot belongs to the caller. False if
  /// unknown or leased.
  bool remove(EntryId entry, MissReason why);
  /// The entries at and behind the end of these tokens: what was computed from a state that turned out to be
  /// wrong is wrong, too. Returns the snapshots to drop; those that are leased come with their last release.
  std::vector<std::uint64_t> remove_from(std::string_view name_space, std::span<const TokenId> tokens,
                                         MissReason why);
  /// All entries of the namespaces whose names begin so; as remove_from().
  std::vector<std::uint64_t> remove_namespaces(std::string_view prefix, MissReason why);
  /// All that have outlived their time, removed; their snapshots. Pins that have, end.
  std::vector<std::uint64_t> expire(CacheTime now);
  /// Whether there are more than max_entries.
  bool over_entry_limit() const;
  /// All entries, with the device's memory gone: tombstones say kLost. Leases end; flights stay until their
  /// owners end them.
  void clear();

  // -- looking at it

  std::optional<EntryInfo> find(EntryId entry) const;
  const CacheNamespaces& namespaces() const;
  PrefixCacheStats stats() const;
  /// Tokens on paths that an entry covers, each counted once: what shared pages would hold. Superseded
  /// entries that are still leased do not count.
  std::uint64_t covered_tokens() const;
  /// For tests: recounts everything, and ends the program where an invariant is broken.
  void check() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::actors
