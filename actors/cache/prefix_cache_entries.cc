// What is kept, and what goes.

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/cache/prefix_cache_parts.h"
#include "base/check.h"

namespace reprise::actors {
namespace {

using Node = PrefixTree::Node;
using Place = PrefixTree::Place;
using Tokens = std::span<const TokenId>;

// Those that stand for a conversation as it is now: the next one makes them useless.
bool moves_on(Origin origin) {
  return origin == Origin::kHistory || origin == Origin::kPromptEnd || origin == Origin::kTurnEnd ||
         origin == Origin::kCall;
}

}  // namespace

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
  constexpr std::uint32_t kMaxHeader = 32;  // tokens of a template between the last message and the reply
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
    give_way(*old, dropped);
  }
}

void PrefixCache::Impl::thin_replies(const CacheEntry& newest, std::vector<std::uint64_t>& dropped) {
  if (newest.origin != Origin::kReply || options.max_in_replies == 0) return;
  // Also where states can be cut: the newest is not the caller's yet, and may never be, if its sequence ends first.
  while (conversations.count(newest, Origin::kReply) > options.max_in_replies) {
    CacheEntry* old = conversations.closest_to_others(newest, Origin::kReply);
    if (old == nullptr) return;
    give_way(*old, dropped);
  }
}

void PrefixCache::Impl::give_way(CacheEntry& entry, std::vector<std::uint64_t>& dropped) {
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
  // Of two wishes the longer life counts.
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
  const Place place = impl_->tree.match(space->root, tokens);
  if (place.depth < tokens.size()) return;
  if (place.depth == place.node->depth() && place.node->entry() != 0) return;
  impl_->tree.bury(place, MissReason::kUnhealthy, ++impl_->clock);
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
  const Place place = impl_->tree.match(space->root, tokens);
  if (place.depth < tokens.size()) return dropped;
  std::vector<EntryId> wrong;
  std::vector<const Node*> below = {place.node};
  while (!below.empty()) {
    const Node* node = below.back();
    below.pop_back();
    if (node->entry() != 0) wrong.push_back(node->entry());
    node->for_each_child([&](const Node* child) {
      if (child->count(PrefixTree::kEntry) > 0) below.push_back(child);
    });
  }
  std::sort(wrong.begin(), wrong.end());  // so that a replay always gives the same
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
  const Place place = impl_->tree.match(space->root, tokens);
  const Node* node = place.node;
  while (node != nullptr && (node->depth() > place.depth || node->entry() == 0)) node = node->parent();
  if (node == nullptr) return nothing();
  if (held != pins.end()) {
    const EntryId former = held->entry;
    pins.erase(held);
    if (!impl_->has_timed_pin(former)) impl_->change_pin(impl_->entries.at(former), false);
  }
  CacheEntry& entry = impl_->before_reply(node);
  if (entry.pinned && !impl_->has_timed_pin(entry.id)) return {.tokens = entry.length};  // for ever
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
  std::map<EntryId, CacheEntry*> in_order;  // so that a replay always gives the same
  for (auto& [id, entry] : impl_->entries) {
    if (entry.node != nullptr) in_order.emplace(id, &entry);
  }
  std::map<std::uint64_t, CacheNamespace*> touched;  // by last walk, for the oldest may have to go
  for (const auto& [id, entry] : in_order) {
    impl_->detach(*entry, MissReason::kLost);
    touched.emplace(entry->home->root->last_walk(), entry->home);
  }
  impl_->entries.clear();
  impl_->counted.leases = 0;
  for (const auto& [walk, space] : touched) impl_->namespaces.update(*space);
  impl_->trim_paths();
}

}  // namespace reprise::actors
