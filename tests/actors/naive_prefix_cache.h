#pragma once
// A reference implementation of the rules of actors/cache/prefix_cache.h: every known prefix is a map key,
// and every question is answered by scanning all. Slow, but simple.

#include <map>
#include <string>
#include <vector>

#include "actors/cache/prefix_cache.h"
#include "tests/actors/token_lists.h"

namespace reprise::actors {

class NaivePrefixCache {
 public:
  /// `forks`: use that policy of tools/lab/replay_policies.h instead of LRU.
  NaivePrefixCache(PrefixCacheOptions options, bool forks) : options_(std::move(options)), forks_(forks) {}

  FlightId begin_flight(const std::string& name, const List& prompt);
  void end_flight(FlightId flight);
  std::optional<Leader> lead(const std::string& name, const List& prompt) const;
  Sighting peek(const std::string& name, const List& prompt) const;
  Found lookup(const std::string& name, const List& prompt, std::uint32_t min_tokens, CacheTime now,
               std::uint32_t known, std::uint64_t request = 0);
  std::optional<std::uint64_t> release(EntryId entry);
  Inserted insert(const std::string& name, const List& tokens, const NewEntry& entry, CacheTime now);
  void note_unhealthy(const std::string& name, const List& tokens);
  std::optional<EntryId> least_valuable(CacheTime now, bool allow_pinned) const;
  bool remove(EntryId entry, MissReason why);
  std::vector<std::uint64_t> remove_from(const std::string& name, const List& tokens, MissReason why);
  std::vector<std::uint64_t> expire(CacheTime now);
  bool over_entry_limit() const { return stats().entries > options_.max_entries; }
  void clear();
  std::optional<EntryInfo> find(EntryId entry) const;
  PrefixCacheStats stats() const;
  std::uint64_t covered_tokens() const;

 private:
  enum Kind { kEntry, kFlight, kTombstone };

  /// A known prefix, by its tokens; the empty one represents the namespace.
  struct Prefix {
    EntryId entry = 0;
    MissReason tombstone = MissReason::kNone;
    std::vector<FlightId> flights;
    std::uint64_t walked = 0;
    std::uint64_t entry_used = 0;    // here or below
    std::uint64_t flying_since = 0;  // here or below
    std::uint64_t buried = 0;        // here or below
  };
  using Prefixes = std::map<List, Prefix>;

  struct Entry {
    EntryInfo info;
    std::string name;
    List tokens;
    std::uint64_t request;
    std::uint64_t order;
    bool superseded;
    int patience = 1;
  };

  static bool carries(const Prefix& prefix, Kind kind);
  static bool any_below(const Prefixes& prefixes, const List& top, Kind kind);
  static List find_below(const Prefixes& prefixes, const List& top, Kind kind);
  static bool leaf(const Prefixes& prefixes, const List& top);

  std::uint32_t known(const Prefixes& prefixes, const List& prompt) const;
  std::uint32_t floor(std::uint32_t tokens, const List& prompt) const;
  std::uint32_t deepest_with(const Prefixes& prefixes, const List& prompt, std::uint32_t known,
                             Kind kind) const;
  std::pair<EntryId, std::uint32_t> best(const Prefixes& prefixes, const List& prompt) const;
  MissReason explain(const Prefixes& prefixes, const List& prompt, std::uint32_t known,
                     std::uint32_t restored) const;
  Prefixes& walk(const std::string& name, const List& tokens);
  void use(Entry& entry, CacheTime now);
  void judge(Entry& entry);
  void take_out(Entry& entry, MissReason why);
  void forget(EntryId id);
  Entry* entry(EntryId id);
  void enforce_limits();
  bool drop_namespace_if_bare(const std::string& name);
  void bury(Prefixes& prefixes, const List& tokens, MissReason why);

  PrefixCacheOptions options_;
  bool forks_;
  std::map<std::string, Prefixes> spaces_;
  std::vector<Entry> entries_;
  std::map<FlightId, std::pair<std::string, List>> flights_;
  std::uint64_t clock_ = 0;
  std::uint64_t last_id_ = 0;
  PrefixCacheStats counted_;
};

}  // namespace reprise::actors
