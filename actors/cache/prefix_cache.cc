#include "actors/cache/prefix_cache.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/cache/cache_entry.h"
#include "actors/cache/cache_namespaces.h"
#include "actors/cache/eviction.h"
#include "actors/cache/prefix_tree.h"
#include "base/check.h"
#include "protocol/pin.h"

namespace reprise::actors {

namespace {

using Node = PrefixTree::Node;
using Position = PrefixTree::Position;
using Tokens = std::span<const TokenId>;

// Returns true for origins that represent the current end of a conversation, which its next request makes
// obsolete.
bool moves_on(Origin origin) {
  return origin == Origin::kHistory || origin == Origin::kPromptEnd || origin == Origin::kTurnEnd ||
         origin == Origin::kCall;
}

struct TimedPin {
  EntryId entry = 0;
  CacheTime until{0};
  std::string tenant{};
  std::weak_ptr<const protocol::PinTicket> ticket{};
  bool has_ticket = false;  // also ends with the ticket
};

}  // namespace

struct PrefixCache::Impl {
  using Node = PrefixTree::Node;
  using Position = PrefixTree::Position;

  struct Flight {
    CacheNamespace* space;
    Node* node;
  };
  /// The entry and length a prompt can be restored from; null: none.
  struct Best {
    CacheEntry* entry = nullptr;
    std::uint32_t at = 0;
  };

  Impl(PrefixCacheOptions given, std::unique_ptr<EvictionPolicy> its_policy);

  CacheEntry& entry_at(const Node* node) { return entries.at(node->entry()); }

  // -- flights and lookups

  /// Returns the deepest grid position that can be restored if `known` of `length` tokens are known: the last
  /// token is always computed, for its logits.
  std::uint32_t restorable(std::uint32_t known, std::size_t length) const {
    const auto last = static_cast<std::uint32_t>(length == 0 ? 0 : length - 1);
    const std::uint32_t most = std::min(known, last);
    return most - most % options.grid;
  }
  Best best_for(Position position, std::size_t length);
  MissReason explain(Position position, std::size_t length, std::uint32_t restored) const;
  /// A prompt's return to an evicted entry informs the policy like a hit.
  void see_return(Position position, std::size_t length, std::uint32_t restored, CacheTime now);
  /// Returns the oldest flight at or below the node that is older than `self` and not in `passed`, as far as
  /// a short search finds it; 0: none.
  static FlightId older_flight(const Node* node, FlightId self, std::span<const FlightId> passed);
  void use(CacheEntry& entry, CacheTime now);

  // -- retention

  void enqueue(CacheEntry& entry) {
    entry.kind = kind_of(entry);
    policy->queued(entry.kind, entry.last_use);
    queue.add(entry);
  }
  void refresh(CacheEntry& entry, CacheTime now);
  void pin(CacheEntry& entry);
  void change_pin(CacheEntry& entry, bool pinned);
  void end_pins(CacheTime now);
  bool has_timed_pin(EntryId id) const;
  /// Returns the node's entry. If that includes the opening of a chat's reply, returns the one after the last
  /// message, if any: a next message of another role continues from there.
  CacheEntry& before_reply(const Node* node);
  /// Removes the entry from tree and queue. The rest remains for lease holders.
  void detach(CacheEntry& entry, MissReason tombstone);
  void supersede(const CacheEntry& by, std::uint32_t keep, std::vector<std::uint64_t>& dropped);
  /// Evicts entries of a conversation beyond its cap, in order of eviction.
  void cap(const CacheEntry& newest, CacheTime now, std::vector<std::uint64_t>& dropped);
  /// Evicts kReply entries of a conversation beyond their cap, so that the rest lie far apart.
  void thin_replies(const CacheEntry& newest, std::vector<std::uint64_t>& dropped);
  void evict_capped(CacheEntry& entry, std::vector<std::uint64_t>& dropped);

  /// Call after a walk in a namespace or a removal from it.
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
  std::unordered_map<EntryId, CacheEntry> entries;  // including superseded ones that are leased
  std::vector<TimedPin> timed_pins;                 // at most max_pinned; their entries are in the tree
  std::unordered_map<FlightId, Flight> flights;
  std::uint64_t clock = 0;  // logical time: counts walks and uses
  std::uint64_t last_id = 0;
  CacheTime seen_at{0};  // last search for a victim
  PrefixCacheStats counted;
};

EntryInfo info_of(const CacheEntry& entry) {
  return {entry.id,       entry.snapshot, entry.length, entry.origin, entry.conversation,
          entry.last_use, entry.hits,     entry.leases, entry.pinned};
}

PrefixCache::Impl::Impl(PrefixCacheOptions given, std::unique_ptr<EvictionPolicy> its_policy)
    : options(std::move(given)),
      policy(std::move(its_policy)),
      queue(options.ttl, *policy),
      namespaces(tree, options.max_namespaces) {
  if (options.grid == 0) throw std::invalid_argument("the grid of a prefix cache cannot be 0");
}

PrefixCache::PrefixCache(PrefixCacheOptions options)
    : PrefixCache(std::move(options), make_eviction_policy()) {}
PrefixCache::PrefixCache(PrefixCacheOptions options, std::unique_ptr<EvictionPolicy> policy)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(policy))) {}
PrefixCache::~PrefixCache() = default;

// -- inspection

std::optional<EntryInfo> PrefixCache::find(EntryId id) const {
  const auto at = impl_->entries.find(id);
  if (at == impl_->entries.end()) return std::nullopt;
  return info_of(at->second);
}

const CacheNamespaces& PrefixCache::namespaces() const {
  return impl_->namespaces;
}

PrefixCacheStats PrefixCache::stats() const {
  PrefixCacheStats stats = impl_->counted;
  stats.flights = impl_->flights.size();
  stats.path_tokens = impl_->tree.tokens();
  stats.namespaces = impl_->namespaces.size();
  stats.index_bytes = index_bytes(impl_->tree.nodes(), impl_->tree.tokens(), impl_->entries.size());
  return stats;
}

std::uint64_t PrefixCache::covered_tokens() const {
  return impl_->tree.covered_tokens();
}

void PrefixCache::check() const {
  impl_->tree.check();
  std::uint64_t in_tree = 0, leases = 0, pinned = 0;
  for (const auto& [id, entry] : impl_->entries) {
    leases += entry.leases;
    pinned += entry.pinned;
    REPRISE_CHECK(entry.queued == (entry.leases == 0),
                  "an entry is leased and queued for eviction, or neither");
    if (entry.node == nullptr) continue;
    ++in_tree;
    REPRISE_CHECK(entry.node->entry() == id && entry.node->depth() == entry.length,
                  "a cache entry does not match its tree node");
  }
  REPRISE_CHECK(in_tree == impl_->counted.entries && leases == impl_->counted.leases,
                "the counts of cache entries or leases are wrong");
  REPRISE_CHECK(pinned == impl_->counted.pinned && pinned <= impl_->options.max_pinned,
                "the count of pinned entries is wrong or over its limit");
  REPRISE_CHECK(impl_->tree.tokens() <= impl_->options.max_path_tokens || !impl_->tree.has_idle_leaf(),
                "the tree's tokens are over the limit although an idle leaf could be removed");
}

// -- retention

void PrefixCache::Impl::refresh(CacheEntry& entry, CacheTime now) {
  queue.remove(entry);
  entry.last_use = now;
  entry.use_order = ++clock;
  if (entry.leases == 0) enqueue(entry);
  tree.use_entry(entry.node);
}

void PrefixCache::Impl::pin(CacheEntry& entry) {
  if (entry.pinned || counted.pinned >= options.max_pinned) return;
  REPRISE_CHECK(!entry.queued, "an entry was pinned while it was queued for eviction");
  entry.pinned = true;
  ++counted.pinned;
}

void PrefixCache::Impl::change_pin(CacheEntry& entry, bool pinned) {
  const bool queued = entry.queued;
  queue.remove(entry);
  if (pinned) {
    pin(entry);
  } else {
    counted.pinned -= std::exchange(entry.pinned, false) ? 1 : 0;
  }
  if (queued) enqueue(entry);
}

void PrefixCache::Impl::end_pins(CacheTime now) {
  std::vector<EntryId> ended;
  std::erase_if(timed_pins, [&](const TimedPin& pin) {
    const bool ends = pin.until <= now || (pin.has_ticket && pin.ticket.expired());
    if (ends) ended.push_back(pin.entry);
    return ends;
  });
  for (const EntryId id : ended) {
    if (!has_timed_pin(id)) change_pin(entries.at(id), false);
  }
}

CacheEntry& PrefixCache::Impl::before_reply(const Node* node) {
  constexpr std::uint32_t kMaxHeader = 32;  // template tokens between the last message and the reply
  CacheEntry& deepest = entry_at(node);
  if (deepest.origin != Origin::kPromptEnd) return deepest;
  for (const Node* above = node->parent(); above != nullptr; above = above->parent()) {
    if (above->depth() + kMaxHeader < node->depth()) break;
    if (above->entry() == 0) continue;
    CacheEntry& entry = entry_at(above);
    if (entry.origin == Origin::kHistory || entry.origin == Origin::kTool) return entry;
  }
  return deepest;
}

bool PrefixCache::Impl::has_timed_pin(EntryId id) const {
  return std::any_of(timed_pins.begin(), timed_pins.end(),
                     [id](const TimedPin& pin) { return pin.entry == id; });
}

void PrefixCache::Impl::detach(CacheEntry& entry, MissReason tombstone) {
  queue.remove(entry);
  conversations.remove(entry);
  tree.clear_entry(entry.node, tombstone,
                   {.at = counted.lookups,
                    .last_use = entry.last_use,
                    .counts = tombstone == MissReason::kEvicted,
                    .shared = entry.kind.shared,
                    .hit = entry.kind.hit});
  entry.node = nullptr;
  counted.pinned -= std::exchange(entry.pinned, false) ? 1 : 0;
  std::erase_if(timed_pins, [&](const TimedPin& pin) { return pin.entry == entry.id; });
  --counted.entries;
}

void PrefixCache::Impl::supersede(const CacheEntry& by, std::uint32_t keep,
                                  std::vector<std::uint64_t>& dropped) {
  const bool cuts = options.any_token;
  if (by.conversation == 0 || !(cuts || moves_on(by.origin))) return;
  for (const Node *node = by.node->parent(), *next; node != nullptr; node = next) {
    next = node->parent();
    if (node->entry() == 0) continue;
    CacheEntry& old = entry_at(node);
    if (old.conversation != by.conversation || old.request == by.request || old.pinned) continue;
    if (old.length == keep) continue;
    if (!cuts && !moves_on(old.origin)) continue;
    detach(old, MissReason::kNone);
    ++counted.superseded;
    if (old.leases > 0) continue;
    dropped.push_back(old.snapshot);
    entries.erase(old.id);
  }
}

void PrefixCache::Impl::cap(const CacheEntry& newest, CacheTime now, std::vector<std::uint64_t>& dropped) {
  if (options.max_per_conversation == 0) return;
  while (conversations.count(newest) > options.max_per_conversation) {
    CacheEntry* old = conversations.least_valuable(newest, now, *policy);
    if (old == nullptr) return;
    evict_capped(*old, dropped);
  }
}

void PrefixCache::Impl::thin_replies(const CacheEntry& newest, std::vector<std::uint64_t>& dropped) {
  if (newest.origin != Origin::kReply || options.max_in_replies == 0) return;
  // Applies even if states can be cut: the newest entry may never be adopted, if its sequence ends first.
  while (conversations.count(newest, Origin::kReply) > options.max_in_replies) {
    CacheEntry* old = conversations.closest_to_others(newest, Origin::kReply);
    if (old == nullptr) return;
    evict_capped(*old, dropped);
  }
}

void PrefixCache::Impl::evict_capped(CacheEntry& entry, std::vector<std::uint64_t>& dropped) {
  dropped.push_back(entry.snapshot);
  detach(entry, MissReason::kEvicted);
  ++counted.capped;
  entries.erase(entry.id);
}

// -- entries

Inserted PrefixCache::insert(std::string_view name_space, Tokens tokens, const NewEntry& made,
                             CacheTime now) {
  REPRISE_CHECK(made.length > 0 && made.length <= tokens.size(),
                "the new entry is empty or longer than its prompt");
  REPRISE_CHECK(made.length % impl_->options.grid == 0,
                "the new entry's length is not a multiple of the grid");
  CacheNamespace& space = impl_->namespaces.find_or_add(name_space);
  Node* node = impl_->tree.walk(space.root, tokens.first(made.length), ++impl_->clock);
  Inserted inserted;
  inserted.already_there = node->entry() != 0;
  inserted.entry = inserted.already_there ? node->entry() : ++impl_->last_id;
  CacheEntry& entry = impl_->entries[inserted.entry];
  if (!inserted.already_there) {
    entry.id = inserted.entry;
    entry.snapshot = made.snapshot;
    entry.length = made.length;
    entry.origin = made.origin;
    entry.conversation = made.conversation;
    entry.request = made.request;
    entry.ttl = made.ttl;
    entry.home = &space;
    entry.node = node;
    const std::uint64_t since = impl_->counted.lookups - node->burial().at;
    if (node->tombstone() == MissReason::kEvicted && since < kThrashWindow) ++impl_->counted.thrashed;
    impl_->tree.set_entry(node, entry.id);
    impl_->conversations.add(entry);
    ++impl_->counted.entries;
    ++impl_->counted.inserts_by_origin[static_cast<std::size_t>(made.origin)];
    impl_->supersede(entry, made.keep, inserted.superseded);
    impl_->thin_replies(entry, inserted.superseded);
    impl_->cap(entry, now, inserted.superseded);
  }
  impl_->queue.remove(entry);
  // The longer of two TTLs wins.
  if (made.ttl == CacheTime::zero() || (entry.ttl > CacheTime::zero() && made.ttl > entry.ttl))
    entry.ttl = made.ttl;
  if (made.pinned) impl_->pin(entry);
  impl_->refresh(entry, now);
  impl_->settle(space);
  return inserted;
}

void PrefixCache::note_unhealthy(std::string_view name_space, Tokens tokens) {
  CacheNamespace* space = impl_->namespaces.find(name_space);
  if (space == nullptr || tokens.empty()) return;
  const Position position = impl_->tree.match(space->root, tokens);
  if (position.depth < tokens.size()) return;
  if (position.depth == position.node->depth() && position.node->entry() != 0) return;
  impl_->tree.bury(position, MissReason::kUnhealthy, ++impl_->clock);
  impl_->settle(*space);
}

std::optional<EntryInfo> PrefixCache::least_valuable(CacheTime now, bool allow_pinned) const {
  const CacheEntry* entry = impl_->queue.first(now, allow_pinned);
  if (entry == nullptr) return std::nullopt;
  impl_->seen_at = now;
  return info_of(*entry);
}

bool PrefixCache::remove(EntryId id, MissReason why) {
  const auto at = impl_->entries.find(id);
  if (at == impl_->entries.end() || at->second.leases > 0) return false;
  if (why == MissReason::kEvicted) {
    ++impl_->counted.evicted;
    const CacheTime unused = std::max(impl_->seen_at - at->second.last_use, CacheTime::zero());
    impl_->policy->evicted(at->second.kind, unused);
  }
  if (why == MissReason::kExpired) ++impl_->counted.expired;
  CacheNamespace& space = *at->second.home;
  impl_->detach(at->second, why);
  impl_->entries.erase(at);
  impl_->settle(space);
  return true;
}

std::vector<std::uint64_t> PrefixCache::remove_from(std::string_view name_space, Tokens tokens,
                                                    MissReason why) {
  std::vector<std::uint64_t> dropped;
  CacheNamespace* space = impl_->namespaces.find(name_space);
  if (space == nullptr) return dropped;
  const Position position = impl_->tree.match(space->root, tokens);
  if (position.depth < tokens.size()) return dropped;
  std::vector<EntryId> wrong;
  std::vector<const Node*> below = {position.node};
  while (!below.empty()) {
    const Node* node = below.back();
    below.pop_back();
    if (node->entry() != 0) wrong.push_back(node->entry());
    node->for_each_child([&](const Node* child) {
      if (child->count(PrefixTree::kEntry) > 0) below.push_back(child);
    });
  }
  std::sort(wrong.begin(), wrong.end());  // deterministic order for replays
  for (const EntryId id : wrong) {
    CacheEntry& entry = impl_->entries.at(id);
    impl_->detach(entry, why);
    if (entry.leases > 0) continue;
    dropped.push_back(entry.snapshot);
    impl_->entries.erase(id);
  }
  impl_->settle(*space);
  return dropped;
}

std::vector<std::uint64_t> PrefixCache::remove_namespaces(std::string_view prefix, MissReason why) {
  std::vector<std::uint64_t> dropped;
  for (const std::string& name : impl_->namespaces.names_from(prefix)) {
    const std::vector<std::uint64_t> of_one = remove_from(name, {}, why);
    dropped.insert(dropped.end(), of_one.begin(), of_one.end());
  }
  return dropped;
}

protocol::Pinned PrefixCache::pin(std::string_view name_space, Tokens tokens, CacheTime until,
                                  const protocol::SharedPinTicket& ticket, bool moves) {
  const auto refused = [](std::string problem) { return protocol::Pinned{.problem = std::move(problem)}; };
  const auto nothing = [&] { return refused("no snapshot of this prompt was kept"); };
  std::vector<TimedPin>& pins = impl_->timed_pins;
  const auto held = std::find_if(pins.begin(), pins.end(), [&](const TimedPin& pin) {
    return ticket != nullptr && pin.has_ticket && pin.ticket.lock() == ticket;
  });
  if (held != pins.end() && !moves) {
    held->until = std::max(held->until, until);
    return {.tokens = impl_->entries.at(held->entry).length};
  }
  CacheNamespace* space = impl_->namespaces.find(name_space);
  if (space == nullptr) return nothing();
  const Position position = impl_->tree.match(space->root, tokens);
  const Node* node = position.node;
  while (node != nullptr && (node->depth() > position.depth || node->entry() == 0)) node = node->parent();
  if (node == nullptr) return nothing();
  if (held != pins.end()) {
    const EntryId former = held->entry;
    pins.erase(held);
    if (!impl_->has_timed_pin(former)) impl_->change_pin(impl_->entries.at(former), false);
  }
  CacheEntry& entry = impl_->before_reply(node);
  if (entry.pinned && !impl_->has_timed_pin(entry.id)) return {.tokens = entry.length};  // pinned without end
  const std::string tenant = ticket == nullptr ? std::string() : ticket->tenant;
  const auto same = std::find_if(pins.begin(), pins.end(), [&](const TimedPin& pin) {
    return ticket == nullptr && !pin.has_ticket && pin.entry == entry.id;
  });
  if (same != pins.end()) {
    same->until = std::max(same->until, until);
    return {.tokens = entry.length};
  }
  const auto of_tenant = static_cast<std::size_t>(
      std::count_if(pins.begin(), pins.end(), [&](const TimedPin& pin) { return pin.tenant == tenant; }));
  const PrefixCacheOptions& options = impl_->options;
  if (of_tenant >= options.max_pinned_of_tenant) {
    return refused("the limit of a tenant is " + std::to_string(options.max_pinned_of_tenant) +
                   " pinned snapshots of a model, over all its cache_salts");
  }
  if (!entry.pinned) impl_->change_pin(entry, true);
  if (!entry.pinned || pins.size() >= options.max_pinned) {
    if (entry.pinned && !impl_->has_timed_pin(entry.id)) impl_->change_pin(entry, false);
    return refused("the limit of all tenants together is " + std::to_string(options.max_pinned) +
                   " pinned snapshots of a model");
  }
  pins.push_back({.entry = entry.id,
                  .until = until,
                  .tenant = tenant,
                  .ticket = ticket,
                  .has_ticket = ticket != nullptr});
  return {.tokens = entry.length};
}

std::vector<std::uint64_t> PrefixCache::expire(CacheTime now) {
  std::vector<std::uint64_t> dropped;
  impl_->end_pins(now);
  while (const CacheEntry* entry = impl_->queue.expired(now, true)) {
    dropped.push_back(entry->snapshot);
    remove(entry->id, MissReason::kExpired);
  }
  return dropped;
}

bool PrefixCache::over_entry_limit() const {
  return impl_->counted.entries > impl_->options.max_entries;
}

void PrefixCache::clear() {
  std::map<EntryId, CacheEntry*> in_order;  // deterministic order for replays
  for (auto& [id, entry] : impl_->entries) {
    if (entry.node != nullptr) in_order.emplace(id, &entry);
  }
  std::map<std::uint64_t, CacheNamespace*> touched;  // ordered by last walk, as the oldest may be dropped
  for (const auto& [id, entry] : in_order) {
    impl_->detach(*entry, MissReason::kLost);
    touched.emplace(entry->home->root->last_walk(), entry->home);
  }
  impl_->entries.clear();
  impl_->counted.leases = 0;
  for (const auto& [walk, space] : touched) impl_->namespaces.update(*space);
  impl_->trim_paths();
}

// -- what is known of a prompt

PrefixCache::Impl::Best PrefixCache::Impl::best_for(Position position, std::size_t length) {
  if (options.any_token) {
    const Position covered = PrefixTree::deepest_with(position, PrefixTree::kEntry);
    const std::uint32_t at = restorable(covered.depth, length);
    if (at == 0) return {};
    const Position cut = PrefixTree::above(covered, at);
    return {&entry_at(PrefixTree::find_below(cut.node, PrefixTree::kEntry)), at};
  }
  const std::uint32_t most = restorable(position.depth, length);
  for (const Node* node = position.node; node != nullptr; node = node->parent()) {
    if (node->entry() != 0 && node->depth() <= most) return {&entry_at(node), node->depth()};
  }
  return {};
}

MissReason PrefixCache::Impl::explain(Position position, std::size_t length, std::uint32_t restored) const {
  const std::uint32_t possible = restorable(position.depth, length);
  if (restored == possible && restored > 0) return MissReason::kNone;
  if (position.depth < options.grid) return MissReason::kNeverSeen;
  if (options.any_token) {  // any removed entry beyond could have been cut
    const Position buried = PrefixTree::deepest_with(position, PrefixTree::kTombstone);
    if (restorable(buried.depth, length) <= restored) return MissReason::kNoCheckpoint;
    return PrefixTree::find_below(buried.node, PrefixTree::kTombstone)->tombstone();
  }
  for (const Node* node = position.node; node->depth() > restored; node = node->parent()) {
    if (node->depth() <= possible && node->tombstone() != MissReason::kNone) return node->tombstone();
  }
  return MissReason::kNoCheckpoint;
}

void PrefixCache::Impl::see_return(Position position, std::size_t length, std::uint32_t restored,
                                   CacheTime now) {
  const std::uint32_t possible = restorable(position.depth, length);
  for (Node* node = position.node; node != nullptr && node->depth() > restored;
       node = PrefixTree::parent_of(node)) {
    if (node->depth() > possible || !node->burial().counts || node->entry() != 0) continue;
    const EntryBurial& burial = node->burial();
    policy->returned({.shared = burial.shared, .hit = burial.hit}, now - burial.last_use);
    PrefixTree::settle_burial(node);
    return;
  }
}

FlightId PrefixCache::Impl::older_flight(const Node* node, FlightId self, std::span<const FlightId> passed) {
  constexpr int kMaxNodes = 256;
  FlightId oldest = self;
  std::vector<const Node*> open = {node};
  for (int looked = 0; !open.empty() && looked < kMaxNodes; ++looked) {
    const Node* next = open.back();
    open.pop_back();
    for (const FlightId flight : next->flights()) {
      const bool known = std::find(passed.begin(), passed.end(), flight) != passed.end();
      if (!known && flight < oldest) oldest = flight;
    }
    next->for_each_child([&](const Node* child) {
      if (child->count(PrefixTree::kFlight) > 0) open.push_back(child);
    });
  }
  return oldest == self ? 0 : oldest;
}

void PrefixCache::Impl::use(CacheEntry& entry, CacheTime now) {
  ++entry.hits;
  ++entry.leases;
  ++counted.leases;
  refresh(entry, now);
}

// -- flights

FlightId PrefixCache::begin_flight(std::string_view name_space, Tokens prompt, CacheTime) {
  CacheNamespace& space = impl_->namespaces.find_or_add(name_space);
  Node* node = impl_->tree.walk(space.root, prompt, ++impl_->clock);
  const FlightId flight = ++impl_->last_id;
  impl_->tree.add_flight(node, flight);
  impl_->flights.emplace(flight, Impl::Flight{&space, node});
  impl_->settle(space);
  return flight;
}

void PrefixCache::end_flight(FlightId flight) {
  const auto at = impl_->flights.find(flight);
  REPRISE_CHECK(at != impl_->flights.end(), "a flight ended that is not registered");
  const Impl::Flight ended = at->second;
  impl_->flights.erase(at);
  impl_->tree.remove_flight(ended.node, flight);
  impl_->settle(*ended.space);
}

std::optional<Leader> PrefixCache::lead(std::string_view name_space, Tokens prompt) const {
  return lead(name_space, prompt, 0, {});
}

std::optional<Leader> PrefixCache::lead(std::string_view name_space, Tokens prompt, FlightId self,
                                        std::span<const FlightId> passed) const {
  const CacheNamespace* space = impl_->namespaces.find(name_space);
  if (space == nullptr) return std::nullopt;
  Position position = impl_->tree.match(space->root, prompt);
  const std::uint32_t have = impl_->best_for(position, prompt.size()).at;
  for (;;) {
    const Position shared = PrefixTree::deepest_with(position, PrefixTree::kFlight);
    const std::uint32_t at = impl_->restorable(shared.depth, prompt.size());
    if (at <= have || at - have < impl_->options.worth_waiting) return std::nullopt;
    if (self == 0) {
      return Leader{PrefixTree::find_below(shared.node, PrefixTree::kFlight)->flights().front(), at};
    }
    if (const FlightId flight = Impl::older_flight(shared.node, self, passed)) return Leader{flight, at};
    const Node* parent = shared.node->parent();
    if (parent == nullptr) return std::nullopt;
    position = PrefixTree::above(shared, parent->depth());
  }
}

// -- lookup

Sighting PrefixCache::peek(std::string_view name_space, Tokens prompt) const {
  const CacheNamespace* space = impl_->namespaces.find(name_space);
  if (space == nullptr) return {};
  const Position position = impl_->tree.match(space->root, prompt);
  Sighting seen{
      .known = position.depth, .restorable = impl_->best_for(position, prompt.size()).at, .branch = {}};
  const std::uint32_t branch = impl_->restorable(position.depth, prompt.size());
  if (PrefixTree::continues(position) && branch > seen.restorable) seen.branch = branch;
  seen.diverges = PrefixTree::continues(position) && position.depth < prompt.size();
  if (seen.diverges && position.node->count(PrefixTree::kEntry) > 0) {
    const std::uint32_t depth = PrefixTree::find_below(position.node, PrefixTree::kEntry)->depth();
    seen.tokens_after = depth - std::min(depth, position.depth);
  }
  return seen;
}

Found PrefixCache::lookup(std::string_view name_space, Tokens prompt, std::uint32_t min_tokens, CacheTime now,
                          std::uint32_t known, std::uint64_t request) {
  PrefixCacheStats& counted = impl_->counted;
  Found found;
  found.reason = MissReason::kNeverSeen;
  if (CacheNamespace* space = impl_->namespaces.find(name_space)) {
    Position position = impl_->tree.match(space->root, prompt);
    impl_->tree.touch(position, ++impl_->clock);
    const Impl::Best best = impl_->best_for(position, prompt.size());
    const bool in_flight = known != UINT32_MAX;
    known = std::max(known, best.at);  // a leading flight may have progressed since
    if (known < position.depth) position = PrefixTree::above(position, known);
    found.known = position.depth;
    const std::uint32_t branch = impl_->restorable(position.depth, prompt.size());
    if (!in_flight && PrefixTree::continues(position) && branch > best.at) found.branch = branch;
    if (best.entry != nullptr && best.at < min_tokens) {
      found.reason = MissReason::kBelowMinimum;
    } else {
      found.reason = impl_->explain(position, prompt.size(), best.at);
      impl_->see_return(position, prompt.size(), best.at, now);
      if (best.entry != nullptr) {
        CacheEntry& entry = *best.entry;
        found.restore = Found::Restore{entry.id, entry.snapshot, best.at, entry.origin, entry.conversation};
        // An entry of which only a short beginning is used has not returned.
        if (best.at >= entry.length / 2) impl_->policy->returned(entry.kind, now - entry.last_use);
        impl_->use(entry, now);
        const auto length = static_cast<std::uint32_t>(prompt.size());
        if (request != 0 && entry.length == impl_->restorable(length, length)) entry.request = request;
        counted.restored_tokens += best.at;
        ++counted.hits_by_origin[static_cast<std::size_t>(entry.origin)];
      }
    }
    impl_->settle(*space);
  }
  ++counted.lookups;
  counted.prompt_tokens += prompt.size();
  ++counted.by_reason[static_cast<std::size_t>(found.reason)];
  return found;
}

std::optional<std::uint64_t> PrefixCache::release(EntryId id) {
  const auto at = impl_->entries.find(id);
  if (at == impl_->entries.end()) return std::nullopt;  // clear() ended the lease
  CacheEntry& entry = at->second;
  REPRISE_CHECK(entry.leases > 0, "a lease was released more often than it was taken");
  --impl_->counted.leases;
  if (--entry.leases > 0) return std::nullopt;
  if (entry.node != nullptr) {
    impl_->enqueue(entry);
    return std::nullopt;
  }
  const std::uint64_t snapshot = entry.snapshot;
  impl_->entries.erase(at);
  return snapshot;
}

}  // namespace reprise::actors
