#pragma once
// The inside of PrefixCache (actors/cache/prefix_cache.h), for its own sources:
//   prefix_cache.cc          making it, looking at it
//   prefix_cache_lookup.cc   flights and lookups: what a prompt can be restored from, and why not from more
//   prefix_cache_entries.cc  what is kept and what goes: inserting, superseding, caps, pins, removal
//
// Threading: the owner of the cache.

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/cache/cache_entry.h"
#include "actors/cache/cache_namespaces.h"
#include "actors/cache/conversation_entries.h"
#include "actors/cache/eviction_policy.h"
#include "actors/cache/eviction_queue.h"
#include "actors/cache/prefix_cache.h"
#include "actors/cache/prefix_tree.h"
#include "protocol/pin.h"

namespace reprise::actors {

/// A pin that ends.
struct TimedPin {
  EntryId entry = 0;
  CacheTime until{0};
  std::string tenant{};
  std::weak_ptr<const protocol::PinTicket> ticket{};
  bool has_ticket = false;  // it ends with the ticket, too
};

struct PrefixCache::Impl {
  using Node = PrefixTree::Node;
  using Place = PrefixTree::Place;

  struct Flight {
    CacheNamespace* space;
    Node* node;
  };
  /// What a prompt can be restored from. `entry` null: nothing.
  struct Best {
    CacheEntry* entry = nullptr;
    std::uint32_t at = 0;
  };

  Impl(PrefixCacheOptions given, std::unique_ptr<EvictionPolicy> its_policy);

  CacheEntry& entry_at(const Node* node) { return entries.at(node->entry()); }

  // -- prefix_cache_lookup.cc

  /// The deepest place on the grid that can be restored if `known` of `length` tokens are: the last token is
  /// always computed, for its logits.
  std::uint32_t restorable(std::uint32_t known, std::size_t length) const {
    const auto last = static_cast<std::uint32_t>(length == 0 ? 0 : length - 1);
    const std::uint32_t most = std::min(known, last);
    return most - most % options.grid;
  }
  Best best_for(Place place, std::size_t length);
  MissReason explain(Place place, std::size_t length, std::uint32_t restored) const;
  /// A prompt that comes back to an entry that was evicted tells as much of the time to return as a hit does.
  void see_return(Place place, std::size_t length, std::uint32_t restored, CacheTime now);
  /// The oldest flight at or below the node that began before `self` and is none of `passed`, as far as a
  /// short search finds it; 0: none.
  static FlightId older_flight(const Node* node, FlightId self, std::span<const FlightId> passed);
  /// A hit, and a lease.
  void use(CacheEntry& entry, CacheTime now);

  // -- prefix_cache_entries.cc

  void enqueue(CacheEntry& entry) {
    entry.kind = kind_of(entry);
    policy->queued(entry.kind, entry.last_use);
    queue.add(entry);
  }
  /// Used now: the last in the queue.
  void refresh(CacheEntry& entry, CacheTime now);
  void pin(CacheEntry& entry);
  /// Its place in the queue depends on it.
  void change_pin(CacheEntry& entry, bool pinned);
  void end_pins(CacheTime now);
  bool has_timed_pin(EntryId id) const;
  /// The entry at this node. If it is a chat's that has the opening of the reply, the one behind the last message, if there
  /// is one: a next message of another role goes on from that.
  CacheEntry& before_reply(const Node* node);
  /// Out of the tree and the queue. What is left is a name, for those who hold a lease.
  void detach(CacheEntry& entry, MissReason tombstone);
  void supersede(const CacheEntry& by, std::uint32_t keep, std::vector<std::uint64_t>& dropped);
  /// Of a conversation that has made too many: those go first that eviction would take first.
  void cap(const CacheEntry& newest, CacheTime now, std::vector<std::uint64_t>& dropped);
  /// Of a conversation with too many inside replies: what is left lies as far apart as can be.
  void thin_replies(const CacheEntry& newest, std::vector<std::uint64_t>& dropped);
  void give_way(CacheEntry& entry, std::vector<std::uint64_t>& dropped);

  /// After anything that walked in a namespace or took something out of it.
  void settle(CacheNamespace& space) {
    namespaces.update(space);
    trim_paths();
  }
  void trim_paths() {
    while (tree.tokens() > options.max_path_tokens && tree.has_idle_leaf()) {
      if (const Node* bare = tree.trim()) namespaces.update(namespaces.of(bare));
    }
  }

  PrefixCacheOptions options;
  std::unique_ptr<EvictionPolicy> policy;
  PrefixTree tree;
  EvictionQueue queue;
  CacheNamespaces namespaces;
  ConversationEntries conversations;
  std::unordered_map<EntryId, CacheEntry> entries;  // and superseded ones that are leased
  std::vector<TimedPin> timed_pins;                 // of entries in the tree; at most max_pinned
  std::unordered_map<FlightId, Flight> flights;
  std::uint64_t clock = 0;  // of walks and uses
  std::uint64_t last_id = 0;
  CacheTime seen_at{0};  // when a victim was last looked for
  PrefixCacheStats counted;
};

/// As others see it.
EntryInfo info_of(const CacheEntry& entry);

}  // namespace reprise::actors
