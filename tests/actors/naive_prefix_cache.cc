#include "tests/actors/naive_prefix_cache.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace reprise::actors {
namespace {

bool begins_with(const List& list, const List& start) {
  return list.size() >= start.size() && std::equal(start.begin(), start.end(), list.begin());
}

bool moves_on(Origin origin) {
  return origin == Origin::kHistory || origin == Origin::kPromptEnd || origin == Origin::kTurnEnd ||
         origin == Origin::kCall;
}

}  // namespace

// -- inspection

bool NaivePrefixCache::carries(const Prefix& prefix, Kind kind) {
  if (kind == kEntry) return prefix.entry != 0;
  if (kind == kFlight) return !prefix.flights.empty();
  return prefix.tombstone != MissReason::kNone;
}

bool NaivePrefixCache::any_below(const Prefixes& prefixes, const List& top, Kind kind) {
  for (auto at = prefixes.lower_bound(top); at != prefixes.end() && begins_with(at->first, top); ++at) {
    if (carries(at->second, kind)) return true;
  }
  return false;
}

bool NaivePrefixCache::leaf(const Prefixes& prefixes, const List& top) {
  const auto next = prefixes.upper_bound(top);
  return next == prefixes.end() || !begins_with(next->first, top);
}

List NaivePrefixCache::find_below(const Prefixes& prefixes, const List& top, Kind kind) {
  if (carries(prefixes.at(top), kind)) return top;
  const Prefix* best = nullptr;
  List found;
  for (auto at = prefixes.lower_bound(top); at != prefixes.end() && begins_with(at->first, top); ++at) {
    if (at->first.size() != top.size() + 1 || !any_below(prefixes, at->first, kind)) continue;
    const Prefix& child = at->second;
    const bool better = best == nullptr || (kind == kEntry    ? child.entry_used > best->entry_used
                                            : kind == kFlight ? child.flying_since < best->flying_since
                                                              : child.buried > best->buried);
    if (!better) continue;
    best = &child;
    found = at->first;
  }
  return find_below(prefixes, found, kind);
}

std::uint32_t NaivePrefixCache::known(const Prefixes& prefixes, const List& prompt) const {
  std::uint32_t n = 0;
  while (n < prompt.size() && prefixes.count(first(prompt, n + 1)) > 0) ++n;
  return n;
}

std::uint32_t NaivePrefixCache::floor(std::uint32_t tokens, const List& prompt) const {
  const std::uint32_t most = prompt.empty() ? 0 : std::min<std::uint32_t>(tokens, prompt.size() - 1);
  return most / options_.grid * options_.grid;
}

std::uint32_t NaivePrefixCache::deepest_with(const Prefixes& prefixes, const List& prompt, std::uint32_t n,
                                             Kind kind) const {
  while (n > 0 && !any_below(prefixes, first(prompt, n), kind)) --n;
  return n;
}

std::pair<EntryId, std::uint32_t> NaivePrefixCache::best(const Prefixes& prefixes, const List& prompt) const {
  if (options_.any_token) {
    const std::uint32_t at = floor(deepest_with(prefixes, prompt, known(prefixes, prompt), kEntry), prompt);
    if (at == 0) return {0, 0};
    return {prefixes.at(find_below(prefixes, first(prompt, at), kEntry)).entry, at};
  }
  for (std::uint32_t n = floor(known(prefixes, prompt), prompt); n > 0; --n) {
    const EntryId entry = prefixes.at(first(prompt, n)).entry;
    if (entry != 0) return {entry, n};
  }
  return {0, 0};
}

MissReason NaivePrefixCache::explain(const Prefixes& prefixes, const List& prompt, std::uint32_t known,
                                     std::uint32_t restored) const {
  const std::uint32_t possible = floor(known, prompt);
  if (restored > 0 && restored == possible) return MissReason::kNone;
  if (known < options_.grid) return MissReason::kNeverSeen;
  if (options_.any_token) {
    const std::uint32_t at = deepest_with(prefixes, prompt, known, kTombstone);
    if (floor(at, prompt) <= restored) return MissReason::kNoCheckpoint;
    return prefixes.at(find_below(prefixes, first(prompt, at), kTombstone)).tombstone;
  }
  for (std::uint32_t n = possible; n > restored; --n) {
    const MissReason reason = prefixes.at(first(prompt, n)).tombstone;
    if (reason != MissReason::kNone) return reason;
  }
  return MissReason::kNoCheckpoint;
}

// -- changes

NaivePrefixCache::Prefixes& NaivePrefixCache::walk(const std::string& name, const List& tokens) {
  Prefixes& prefixes = spaces_[name];
  ++clock_;
  for (std::size_t n = 0; n <= tokens.size(); ++n) prefixes[first(tokens, n)].walked = clock_;
  return prefixes;
}

void NaivePrefixCache::bury(Prefixes& prefixes, const List& tokens, MissReason why) {
  prefixes.at(tokens).tombstone = why;
  ++clock_;
  for (std::size_t n = 0; n <= tokens.size(); ++n) prefixes.at(first(tokens, n)).buried = clock_;
}

bool NaivePrefixCache::drop_namespace_if_bare(const std::string& name) {
  const Prefixes& prefixes = spaces_.at(name);
  if (prefixes.size() > 1 || !prefixes.begin()->second.flights.empty()) return false;
  spaces_.erase(name);
  return true;
}

void NaivePrefixCache::enforce_limits() {
  for (auto at = spaces_.begin(); at != spaces_.end();) {
    const std::string name = (at++)->first;
    drop_namespace_if_bare(name);
  }
  while (spaces_.size() > options_.max_namespaces) {
    const std::string* oldest = nullptr;
    for (const auto& [name, prefixes] : spaces_) {
      if (any_below(prefixes, {}, kEntry) || any_below(prefixes, {}, kFlight)) continue;
      if (!oldest || prefixes.at({}).walked < spaces_.at(*oldest).at({}).walked) oldest = &name;
    }
    if (oldest == nullptr) break;
    spaces_.erase(*oldest);
  }
  while (stats().path_tokens > options_.max_path_tokens) {
    Prefixes* home = nullptr;
    std::string name;
    List oldest;
    for (auto& [space, prefixes] : spaces_) {
      for (const auto& [tokens, prefix] : prefixes) {
        if (tokens.empty() || prefix.entry != 0 || !prefix.flights.empty() || !leaf(prefixes, tokens)) {
          continue;
        }
        if (home != nullptr && prefix.walked > home->at(oldest).walked) continue;
        home = &prefixes;
        name = space;
        oldest = tokens;
      }
    }
    if (home == nullptr) break;
    do {  // up to the next prefix that must stay
      home->erase(oldest);
      oldest.pop_back();
      const Prefix& above = home->at(oldest);
      if (above.entry != 0 || !above.flights.empty() || above.tombstone != MissReason::kNone) break;
    } while (!oldest.empty() && leaf(*home, oldest));
    drop_namespace_if_bare(name);
  }
}

// -- flights

FlightId NaivePrefixCache::begin_flight(const std::string& name, const List& prompt) {
  Prefixes& prefixes = walk(name, prompt);
  for (std::size_t n = 0; n <= prompt.size(); ++n) {
    if (!any_below(prefixes, first(prompt, n), kFlight)) prefixes.at(first(prompt, n)).flying_since = clock_;
  }
  prefixes.at(prompt).flights.push_back(++last_id_);
  flights_[last_id_] = {name, prompt};
  enforce_limits();
  return last_id_;
}

void NaivePrefixCache::end_flight(FlightId flight) {
  const auto [name, prompt] = flights_.at(flight);
  flights_.erase(flight);
  auto& flights = spaces_.at(name).at(prompt).flights;
  flights.erase(std::find(flights.begin(), flights.end(), flight));
  enforce_limits();
}

std::optional<Leader> NaivePrefixCache::lead(const std::string& name, const List& prompt) const {
  const auto space = spaces_.find(name);
  if (space == spaces_.end()) return std::nullopt;
  const Prefixes& prefixes = space->second;
  const std::uint32_t shared = deepest_with(prefixes, prompt, known(prefixes, prompt), kFlight);
  const std::uint32_t at = floor(shared, prompt);
  const std::uint32_t have = best(prefixes, prompt).second;
  if (at <= have || at < have + options_.worth_waiting) return std::nullopt;
  return Leader{prefixes.at(find_below(prefixes, first(prompt, shared), kFlight)).flights.front(), at};
}

// -- entries

void NaivePrefixCache::use(Entry& entry, CacheTime now) {
  entry.info.last_use = now;
  entry.order = ++clock_;
  Prefixes& prefixes = spaces_.at(entry.name);
  for (std::size_t n = 0; n <= entry.tokens.size(); ++n) {
    prefixes.at(first(entry.tokens, n)).entry_used = clock_;
  }
  if (entry.info.leases == 0) judge(entry);
}

void NaivePrefixCache::judge(Entry& entry) {
  int ways = 0;
  for (const auto& [tokens, prefix] : spaces_.at(entry.name)) {
    ways += tokens.size() == entry.tokens.size() + 1 && begins_with(tokens, entry.tokens);
  }
  const bool shared = entry.info.origin == Origin::kBranch || ways > 2;
  entry.patience = forks_ ? (shared ? 4 : 1) * (entry.info.hits > 0 ? 2 : 1) : 1;
}

Sighting NaivePrefixCache::peek(const std::string& name, const List& prompt) const {
  const auto space = spaces_.find(name);
  if (space == spaces_.end()) return {};
  Sighting seen;
  seen.known = known(space->second, prompt);
  seen.restorable = best(space->second, prompt).second;
  const std::uint32_t leaves = floor(seen.known, prompt);
  if (!leaf(space->second, first(prompt, seen.known)) && leaves > seen.restorable) seen.branch = leaves;
  return seen;
}

Found NaivePrefixCache::lookup(const std::string& name, const List& prompt, std::uint32_t min_tokens,
                               CacheTime now, std::uint32_t known_before, std::uint64_t request) {
  Found found;
  found.reason = MissReason::kNeverSeen;
  const auto space = spaces_.find(name);
  if (space != spaces_.end()) {
    const Sighting seen = peek(name, prompt);
    if (known_before == UINT32_MAX) found.branch = seen.branch;
    walk(name, first(prompt, seen.known));
    const Prefixes& prefixes = space->second;
    const auto [id, at] = best(prefixes, prompt);
    found.known = std::min(seen.known, std::max(known_before, at));
    found.reason = explain(prefixes, prompt, found.known, at);
    if (id != 0 && at < min_tokens) {
      found.reason = MissReason::kBelowMinimum;
    } else if (id != 0) {
      Entry& used = *entry(id);
      found.restore = {id, used.info.snapshot, at, used.info.origin, used.info.conversation};
      ++used.info.hits;
      ++used.info.leases;
      use(used, now);
      const auto length = static_cast<std::uint32_t>(prompt.size());
      if (request != 0 && used.info.length == floor(length, prompt)) used.request = request;
      counted_.restored_tokens += at;
      ++counted_.hits_by_origin[static_cast<int>(used.info.origin)];
    }
    enforce_limits();
  }
  ++counted_.lookups;
  counted_.prompt_tokens += prompt.size();
  ++counted_.by_reason[static_cast<int>(found.reason)];
  return found;
}

NaivePrefixCache::Entry* NaivePrefixCache::entry(EntryId id) {
  for (Entry& entry : entries_) {
    if (entry.info.id == id) return &entry;
  }
  return nullptr;
}

void NaivePrefixCache::forget(EntryId id) {
  entries_.erase(
      std::find_if(entries_.begin(), entries_.end(), [id](const Entry& e) { return e.info.id == id; }));
}

void NaivePrefixCache::take_out(Entry& entry, MissReason why) {
  Prefixes& prefixes = spaces_.at(entry.name);
  prefixes.at(entry.tokens).entry = 0;
  if (why != MissReason::kNone) bury(prefixes, entry.tokens, why);
  entry.info.pinned = false;
}

std::optional<std::uint64_t> NaivePrefixCache::release(EntryId id) {
  Entry* held = entry(id);
  if (held == nullptr || --held->info.leases > 0) return std::nullopt;
  if (!held->superseded) {
    judge(*held);
    return std::nullopt;
  }
  const std::uint64_t snapshot = held->info.snapshot;
  forget(id);
  return snapshot;
}

Inserted NaivePrefixCache::insert(const std::string& name, const List& tokens, const NewEntry& made,
                                  CacheTime now) {
  const List own = first(tokens, made.length);
  Prefixes& prefixes = walk(name, own);
  Inserted inserted;
  inserted.already_there = prefixes.at(own).entry != 0;
  if (!inserted.already_there) {
    ++counted_.inserts_by_origin[static_cast<int>(made.origin)];
    for (std::size_t n = made.length - 1; n > 0; --n) {
      const EntryId id = prefixes.at(first(own, n)).entry;
      if (id == 0) continue;
      Entry& old = *entry(id);
      const bool origins = options_.any_token || (moves_on(made.origin) && moves_on(old.info.origin));
      if (!origins || made.conversation == 0 || old.info.conversation != made.conversation) continue;
      if (old.request == made.request || old.info.pinned) continue;
      take_out(old, MissReason::kNone);
      old.superseded = true;
      ++counted_.superseded;
      if (old.info.leases > 0) continue;
      inserted.superseded.push_back(old.info.snapshot);
      forget(id);
    }
    prefixes.at(own).entry = ++last_id_;
    prefixes.at(own).tombstone = MissReason::kNone;
    entries_.push_back(
        {{last_id_, made.snapshot, made.length, made.origin, made.conversation, now, 0, 0, false},
         name,
         own,
         made.request,
         0,
         false});
  }
  inserted.entry = prefixes.at(own).entry;
  Entry& there = *entry(inserted.entry);
  if (made.pinned && stats().pinned < options_.max_pinned) there.info.pinned = true;
  use(there, now);
  enforce_limits();
  return inserted;
}

void NaivePrefixCache::note_unhealthy(const std::string& name, const List& tokens) {
  const auto space = spaces_.find(name);
  if (space == spaces_.end() || tokens.empty() || known(space->second, tokens) < tokens.size()) return;
  if (space->second.at(tokens).entry != 0) return;
  walk(name, tokens);
  bury(space->second, tokens, MissReason::kUnhealthy);
  enforce_limits();
}

std::optional<EntryId> NaivePrefixCache::least_valuable(CacheTime now, bool allow_pinned) const {
  std::optional<EntryId> least;
  std::tuple<int, CacheTime, CacheTime, std::uint64_t> lowest;
  for (const Entry& entry : entries_) {
    if (entry.superseded || entry.info.leases > 0 || (entry.info.pinned && !allow_pinned)) continue;
    const bool expired = options_.ttl > CacheTime::zero() && now - entry.info.last_use > options_.ttl;
    const CacheTime age = expired ? CacheTime::zero() : (now - entry.info.last_use) / entry.patience;
    const std::tuple rank{expired ? 0 : entry.info.pinned ? 2 : 1, -age, entry.info.last_use, entry.order};
    if (least && lowest < rank) continue;
    least = entry.info.id;
    lowest = rank;
  }
  return least;
}

bool NaivePrefixCache::remove(EntryId id, MissReason why) {
  Entry* there = entry(id);
  if (there == nullptr || there->info.leases > 0) return false;
  counted_.evicted += why == MissReason::kEvicted;
  counted_.expired += why == MissReason::kExpired;
  take_out(*there, why);
  forget(id);
  enforce_limits();
  return true;
}

std::vector<std::uint64_t> NaivePrefixCache::remove_from(const std::string& name, const List& tokens,
                                                         MissReason why) {
  std::vector<EntryId> wrong;
  for (const Entry& one : entries_) {
    const bool is_below =
        one.tokens.size() >= tokens.size() && std::equal(tokens.begin(), tokens.end(), one.tokens.begin());
    if (!one.superseded && one.name == name && is_below) wrong.push_back(one.info.id);
  }
  std::sort(wrong.begin(), wrong.end());
  std::vector<std::uint64_t> dropped;
  for (const EntryId id : wrong) {
    Entry& one = *entry(id);
    take_out(one, why);
    one.superseded = true;
    if (one.info.leases > 0) continue;
    dropped.push_back(one.info.snapshot);
    forget(id);
  }
  enforce_limits();
  return dropped;
}

std::vector<std::uint64_t> NaivePrefixCache::expire(CacheTime now) {
  std::vector<std::uint64_t> dropped;
  while (const auto id = least_valuable(now, true)) {
    const EntryInfo info = entry(*id)->info;
    if (options_.ttl == CacheTime::zero() || now - info.last_use <= options_.ttl) break;
    dropped.push_back(info.snapshot);
    remove(*id, MissReason::kExpired);
  }
  return dropped;
}

void NaivePrefixCache::clear() {
  for (Entry& entry : entries_) {
    if (!entry.superseded) take_out(entry, MissReason::kLost);
  }
  entries_.clear();
  enforce_limits();
}

std::optional<EntryInfo> NaivePrefixCache::find(EntryId id) const {
  for (const Entry& entry : entries_) {
    if (entry.info.id == id) return entry.info;
  }
  return std::nullopt;
}

PrefixCacheStats NaivePrefixCache::stats() const {
  PrefixCacheStats stats = counted_;
  for (const Entry& entry : entries_) {
    stats.entries += entry.superseded ? 0 : 1;
    stats.leases += entry.info.leases;
    stats.pinned += entry.info.pinned;
  }
  stats.flights = flights_.size();
  stats.namespaces = spaces_.size();
  for (const auto& [name, prefixes] : spaces_) stats.path_tokens += prefixes.size() - 1;
  return stats;
}

std::uint64_t NaivePrefixCache::covered_tokens() const {
  std::set<std::pair<std::string, List>> covered;
  for (const Entry& entry : entries_) {
    if (entry.superseded) continue;
    for (std::size_t n = 1; n <= entry.tokens.size(); ++n)
      covered.emplace(entry.name, first(entry.tokens, n));
  }
  return covered.size();
}

}  // namespace reprise::actors
