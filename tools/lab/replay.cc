#include "tools/lab/lab.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "actors/cache/prefix_cache.h"
#include "base/check.h"
#include "base/json.h"
#include "tools/lab/replay_policies.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/trace_file.h"

namespace reprise::tools {
namespace {

using actors::MissReason;
using actors::Origin;

struct ReplayResult {
  std::uint64_t requests = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_entries = 0;
  std::vector<std::uint64_t> restored_by_tier{};  // tokens; index 0: the device
  std::uint64_t evicted_at_once = 0;              // entries evicted as soon as they were created
  double seconds = 0;                             // spent in the cache
  actors::PrefixCacheStats stats;

  double hit_rate() const {
    return input_tokens == 0 ? 0 : static_cast<double>(restored_tokens()) / static_cast<double>(input_tokens);
  }
  std::uint64_t restored_tokens() const {
    return std::accumulate(restored_by_tier.begin(), restored_by_tier.end(), std::uint64_t{0});
  }
};

// -- rivals
//
// Published eviction policies, and one that knows the future, for comparison with the cache's own. They
// choose victims from outside, so that the server's cache contains only what it uses.
//
//   belady    the entry whose next use is farthest, known from the trace: optimal if all entries cost the
//             same, nearly so if sizes differ or pages are shared
//   lfu       the fewest uses, with a half-life of ten minutes
//   sieve     SIEVE (NSDI'24): in order of creation; entries used since the hand passed are spared once
//   s3fifo    S3-FIFO (SOSP'23): a tenth is on probation; entries used there move to the main queue, where
//             recently evicted ones are inserted directly
//   flops     Marconi (MLSys'25): recency and saved computation per byte, equally weighted

struct RivalEntry {
  std::uint64_t id = 0;
  std::uint64_t place = 0;   // equal for all entries ever created at this prefix
  std::uint32_t tokens = 0;  // length of the prefix
  std::uint32_t own = 0;     // tokens beyond the parent entry
  double bytes = 0;          // bytes not shared with other entries
  std::chrono::nanoseconds last_use{0};
  std::uint32_t uses = 0;
};

class Rival {
 public:
  using Time = std::chrono::nanoseconds;
  virtual ~Rival() = default;
  virtual void made(const RivalEntry& entry) = 0;
  virtual void used(std::uint64_t id, Time now) = 0;
  /// Returns the entry to evict and forgets it. Requires an entry.
  virtual std::uint64_t victim(Time now) = 0;
};

/// The future uses of prefixes: next_use() returns the number of the next request that can use one;
/// UINT64_MAX: none.
class Future {
 public:
  virtual ~Future() = default;
  virtual std::uint64_t next_use(std::uint64_t place) const = 0;
};

using Id = std::uint64_t;

/// Policies that scan all entries and evict the one with the lowest score.
class ScoringRival : public Rival {
 public:
  void made(const RivalEntry& entry) override { entries_[entry.id] = entry; }
  void used(Id id, Time now) override {
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    count_use(found->second, now);
    found->second.last_use = now;
  }
  Id victim(Time now) override {
    REPRISE_CHECK(!entries_.empty(), "the policy was asked to evict and has no entries");
    prepare(now);
    const RivalEntry* least = nullptr;
    double min_score = 0;
    for (const auto& [id, entry] : entries_) {
      const double score = value(entry, now);
      const bool before =
          least == nullptr || score < min_score ||
          (score == min_score && std::pair(entry.last_use, id) < std::pair(least->last_use, least->id));
      if (!before) continue;
      least = &entry;
      min_score = score;
    }
    const Id id = least->id;
    entries_.erase(id);
    return id;
  }

 protected:
  virtual void prepare(Time) {}
  virtual void count_use(RivalEntry& entry, Time) { ++entry.uses; }
  virtual double value(const RivalEntry& entry, Time now) const = 0;

  std::unordered_map<Id, RivalEntry> entries_;
};

class Belady : public ScoringRival {
 public:
  explicit Belady(const Future& future) : future_(future) {}

 private:
  double value(const RivalEntry& entry, Time) const override {
    return -static_cast<double>(future_.next_use(entry.place));
  }
  const Future& future_;
};

class DecayingLfu : public ScoringRival {
 public:
  void made(const RivalEntry& entry) override {
    ScoringRival::made(entry);
    weight_[entry.id] = 1;
  }

 private:
  static double left_after(Time time) {
    return std::exp2(-std::chrono::duration<double>(time).count() / 600);
  }
  void count_use(RivalEntry& entry, Time now) override {
    double& weight = weight_[entry.id];
    weight = weight * left_after(now - entry.last_use) + 1;
  }
  double value(const RivalEntry& entry, Time now) const override {
    return weight_.at(entry.id) * left_after(now - entry.last_use);
  }
  std::unordered_map<Id, double> weight_;
};

class FlopAware : public ScoringRival {
 private:
  // For a 7B model: the weights once per token, and attention to all earlier tokens.
  static double efficiency(const RivalEntry& entry) {
    constexpr double kWeights = 14e9, kAttention = 2.6e5;
    const double from = entry.tokens - entry.own;
    const double flops = kWeights * entry.own + kAttention * entry.own * (from + entry.tokens) / 2;
    return flops / entry.bytes;
  }
  void prepare(Time now) override {
    oldest_ = Time(1);
    best_ = 1e-9;
    for (const auto& [id, entry] : entries_) {
      oldest_ = std::max(oldest_, now - entry.last_use);
      best_ = std::max(best_, efficiency(entry));
    }
  }
  double value(const RivalEntry& entry, Time now) const override {
    const double recency =
        1 - static_cast<double>((now - entry.last_use).count()) / static_cast<double>(oldest_.count());
    return recency + efficiency(entry) / best_;
  }
  Time oldest_{1};
  double best_ = 1;
};

class Sieve : public Rival {
 public:
  void made(const RivalEntry& entry) override {
    queue_.push_front({entry.id, false}), where_[entry.id] = queue_.begin();
  }
  void used(Id id, Time) override {
    if (const auto found = where_.find(id); found != where_.end()) found->second->visited = true;
  }
  Id victim(Time) override {
    REPRISE_CHECK(!queue_.empty(), "the policy was asked to evict and has no entries");
    const auto step = [this] { hand_ = hand_ == queue_.begin() ? queue_.end() : std::prev(hand_); };
    for (;;) {
      if (hand_ == queue_.end()) hand_ = std::prev(queue_.end());
      if (!hand_->visited) break;
      hand_->visited = false;
      step();
    }
    const Id id = hand_->id;
    const auto gone = hand_;
    step();
    queue_.erase(gone);
    where_.erase(id);
    return id;
  }

 private:
  struct Seat {
    Id id;
    bool visited;
  };
  std::list<Seat> queue_;  // newest first
  std::list<Seat>::iterator hand_ = queue_.end();
  std::unordered_map<Id, std::list<Seat>::iterator> where_;
};

class S3Fifo : public Rival {
 public:
  void made(const RivalEntry& entry) override {
    all_[entry.id] = {entry.place, 0};
    (ghosts_.count(entry.place) > 0 ? main_ : small_).push_back(entry.id);
  }
  void used(Id id, Time) override {
    if (const auto found = all_.find(id); found != all_.end())
      found->second.uses = std::min(found->second.uses + 1, 3);
  }
  Id victim(Time) override {
    REPRISE_CHECK(!all_.empty(), "the policy was asked to evict and has no entries");
    for (;;) {
      if (!small_.empty() && (small_.size() * 10 > all_.size() || main_.empty())) {
        const Id id = take(small_);
        if (all_[id].uses > 0) {
          all_[id].uses = 0;
          main_.push_back(id);
          continue;
        }
        remember(all_[id].place);
        all_.erase(id);
        return id;
      }
      const Id id = take(main_);
      if (all_[id].uses > 0) {
        --all_[id].uses;
        main_.push_back(id);
        continue;
      }
      all_.erase(id);
      return id;
    }
  }

 private:
  struct Known {
    std::uint64_t place;
    int uses;
  };
  static Id take(std::deque<Id>& queue) {
    const Id id = queue.front();
    queue.pop_front();
    return id;
  }
  void remember(std::uint64_t place) {
    if (!ghosts_.insert(place).second) return;
    ghost_order_.push_back(place);
    while (ghost_order_.size() > std::max<std::size_t>(all_.size(), 16)) {
      ghosts_.erase(ghost_order_.front());
      ghost_order_.pop_front();
    }
  }
  std::unordered_map<Id, Known> all_;
  std::deque<Id> small_, main_;
  std::unordered_set<std::uint64_t> ghosts_;
  std::deque<std::uint64_t> ghost_order_;
};

/// Returns null for an unknown name. `future` must outlive the result.
std::unique_ptr<Rival> make_rival(const std::string& name, const Future& future) {
  if (name == "belady") return std::make_unique<Belady>(future);
  if (name == "lfu") return std::make_unique<DecayingLfu>();
  if (name == "sieve") return std::make_unique<Sieve>();
  if (name == "s3fifo") return std::make_unique<S3Fifo>();
  if (name == "flops") return std::make_unique<FlopAware>();
  return nullptr;
}

const std::vector<std::string>& rival_names() {
  static const std::vector<std::string> kNames = {"lfu", "sieve", "s3fifo", "flops", "belady"};
  return kNames;
}

/// Returns the cache's own policies, then the rivals.
std::vector<std::string> replay_policy_names() {
  std::vector<std::string> names = cache_policy_names();
  names.insert(names.end(), rival_names().begin(), rival_names().end());
  return names;
}

// -- the replay

std::string json_text(std::string_view text) {
  return Json(text).dump();
}

struct Origins {
  bool branch = false;
  bool prompt_end = false;
  bool spaced = false;
};

Origins read_origins(const std::string& list) {
  Origins origins;
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) {
    if (name == "branch") {
      origins.branch = true;
    } else if (name == "prompt_end") {
      origins.prompt_end = true;
    } else if (name == "spaced") {
      origins.spaced = true;
    } else {
      throw UsageError("--origins: " + name + " is none of branch, prompt_end, spaced");
    }
  }
  return origins;
}

actors::PrefixCacheOptions cache_options(const ReplayOptions& options) {
  const auto names = replay_policy_names();
  if (std::find(names.begin(), names.end(), options.policy) == names.end()) {
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw UsageError("--policy: " + options.policy + " is none of " + known);
  }
  if (make_cache_policy(options.lower_policy) == nullptr)
    throw UsageError("--lower-policy: " + options.lower_policy + " is none of the cache's own");
  constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
  actors::PrefixCacheOptions cache;
  cache.max_entries = kNoLimit;
  cache.max_path_tokens = options.max_path_tokens == 0 ? kNoLimit : options.max_path_tokens;
  cache.ttl = std::chrono::nanoseconds(static_cast<std::int64_t>(options.ttl_seconds * 1e9));
  cache.grid = options.block_tokens;
  cache.any_token = options.any_token;
  return cache;
}

/// Returns the cache's internal policy: lru if a rival chooses the victims.
std::unique_ptr<actors::EvictionPolicy> policy_of(const ReplayOptions& options) {
  auto own = make_cache_policy(options.policy);
  return own != nullptr ? std::move(own) : make_cache_policy("lru");
}

/// Future uses known from the trace. A prefix is identified by the id of its last block, because equal ids
/// have equal blocks before them.
class TraceFuture : public Future {
 public:
  void add(const TraceRequest& request, std::uint32_t block_tokens) {
    const std::size_t whole = request.input_tokens == 0 ? 0 : (request.input_tokens - 1) / block_tokens;
    for (std::size_t i = 0; i < std::min(whole, request.blocks.size()); ++i) {
      uses_[static_cast<std::uint64_t>(request.blocks[i])].push_back(requests_);
    }
    ++requests_;
  }
  void advance() { ++now_; }
  std::uint64_t next_use(std::uint64_t place) const override {
    const auto found = uses_.find(place);
    if (found == uses_.end()) return UINT64_MAX;
    const auto next = std::upper_bound(found->second.begin(), found->second.end(), now_);
    return next == found->second.end() ? UINT64_MAX : *next;
  }

 private:
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> uses_;
  std::uint64_t requests_ = 0;
  std::uint64_t now_ = 0;
};

class Replay {
 public:
  Replay(const ReplayOptions& options, TraceFuture& future)
      : options_(options),
        origins_(read_origins(options.origins)),
        cache_(cache_options(options), policy_of(options)),
        future_(future),
        rival_(make_rival(options.policy, future)) {
    for (std::size_t i = 0; i < options.lower_mb.size(); ++i) {
      lower_.push_back(std::make_unique<actors::PrefixCache>(cache_options(options),
                                                             make_cache_policy(options.lower_policy)));
    }
    result_.restored_by_tier.resize(1 + lower_.size());
  }

  void request(const TraceRequest& request) {
    request.expand(options_.block_tokens, prompt_);
    const auto begin = std::chrono::steady_clock::now();
    ++result_.requests;
    result_.input_tokens += prompt_.size();
    cache_.expire(request.time);
    const actors::Found found = cache_.lookup("", prompt_, 0, request.time);
    const actors::FlightId flight = cache_.begin_flight("", prompt_, request.time);
    if (found.restore) (void)cache_.release(found.restore->entry);  // RestoreKv has been answered
    if (found.restore && rival_) rival_->used(found.restore->entry, request.time);
    const Deepest deepest = restore(found, request.time);
    const bool goes_on = found.restore && found.restore->origin == Origin::kPromptEnd;
    const actors::Conversation conversation = !options_.supersede ? 0
                                              : goes_on           ? found.restore->conversation
                                                                  : result_.requests;
    std::map<std::uint32_t, Origin> places = plan(found, deepest.at);
    if (deepest.tier > 0) places[deepest.at] = deepest.origin;  // inserted into the device's cache again
    std::uint32_t above = deepest.tier == 0 ? deepest.at : 0;
    for (const auto& [at, origin] : places) {
      const auto inserted =
          cache_.insert("", prompt_, {++snapshot_, at, origin, conversation, result_.requests}, request.time);
      if (rival_ && !inserted.already_there) {
        const std::uint32_t own = at - std::min(above, at);
        rival_->made({.id = inserted.entry,
                      .place = static_cast<std::uint64_t>(request.blocks[at / options_.block_tokens - 1]),
                      .tokens = at,
                      .own = own,
                      .bytes = static_cast<double>(own * options_.kv_bytes_per_token + options_.state_bytes),
                      .last_use = request.time});
      }
      above = at;
      shrink(inserted.entry, request.time);
      for (std::size_t i = 0; i < lower_.size(); ++i) {
        lower_[i]->insert("", prompt_, {++snapshot_, at, origin, 0, result_.requests}, request.time);
        shrink_lower(i, request.time);
      }
    }
    cache_.end_flight(flight);
    future_.advance();
    result_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  ReplayResult result() {
    result_.stats = cache_.stats();
    return result_;
  }

 private:
  struct Deepest {
    std::uint32_t at = 0;
    std::size_t tier = 0;
    Origin origin = Origin::kPromptEnd;
  };

  // Returns the longest restorable prefix over all tiers; of equals, the nearest tier's.
  Deepest restore(const actors::Found& found, actors::CacheTime now) {
    Deepest deepest{.at = found.restore ? found.restore->at : 0};
    for (std::size_t i = 0; i < lower_.size(); ++i) {
      const actors::Found below = lower_[i]->lookup("", prompt_, 0, now);
      if (!below.restore) continue;
      (void)lower_[i]->release(below.restore->entry);
      if (below.restore->at > deepest.at) deepest = {below.restore->at, i + 1, below.restore->origin};
    }
    result_.restored_by_tier[deepest.tier] += deepest.at;
    return deepest;
  }

  // Returns the checkpoints of this request, by position.
  std::map<std::uint32_t, Origin> plan(const actors::Found& found, std::uint32_t restored) const {
    const auto on_grid = [this](double tokens) {
      return static_cast<std::uint32_t>(tokens) / options_.block_tokens * options_.block_tokens;
    };
    const std::uint32_t last = prompt_.empty() ? 0 : on_grid(prompt_.size() - 1);
    std::map<std::uint32_t, Origin> places;
    if (origins_.spaced) {
      for (double at = 256; at < last; at = at * 4 / 3) {
        if (on_grid(at) > restored) places[on_grid(at)] = Origin::kSpaced;
      }
    }
    if (origins_.prompt_end && last > restored) places[last] = Origin::kPromptEnd;
    if (origins_.branch && found.branch && *found.branch > restored) places[*found.branch] = Origin::kBranch;
    return places;
  }

  std::uint64_t bytes() const {
    return cache_.covered_tokens() * options_.kv_bytes_per_token +
           cache_.stats().entries * options_.state_bytes;
  }

  std::optional<actors::EntryInfo> next_victim(actors::CacheTime now) {
    if (!rival_ || cache_.stats().entries == 0) return cache_.least_valuable(now, true);
    for (;;) {  // the rival may still list superseded or expired entries
      if (const auto victim = cache_.find(rival_->victim(now))) return victim;
    }
  }

  void shrink(actors::EntryId newest, actors::CacheTime now) {
    const auto budget = options_.budget_mb == 0 ? std::numeric_limits<std::uint64_t>::max()
                                                : static_cast<std::uint64_t>(options_.budget_mb * 1e6);
    while (bytes() > budget) {
      const auto victim = next_victim(now);
      if (!victim) break;
      if (victim->id == newest && result_.evicted_at_once++ == 0 && cache_.stats().entries == 1) {
        std::fprintf(stderr, "reprise: an entry of %u tokens had to go as soon as it was made\n",
                     victim->length);
      }
      cache_.remove(victim->id, MissReason::kEvicted);
    }
    result_.peak_bytes = std::max(result_.peak_bytes, bytes());
    result_.peak_entries = std::max(result_.peak_entries, cache_.stats().entries);
  }

  void shrink_lower(std::size_t tier, actors::CacheTime now) {
    actors::PrefixCache& cache = *lower_[tier];
    const double budget = options_.lower_mb[tier] * 1e6;
    const auto bytes = [&] {
      return static_cast<double>(cache.covered_tokens() * options_.kv_bytes_per_token +
                                 cache.stats().entries * options_.state_bytes);
    };
    while (budget > 0 && bytes() > budget) {
      const auto victim = cache.least_valuable(now, true);
      if (!victim) break;
      cache.remove(victim->id, MissReason::kEvicted);
    }
  }

  const ReplayOptions& options_;
  Origins origins_;
  actors::PrefixCache cache_;
  TraceFuture& future_;
  std::unique_ptr<Rival> rival_;  // null: the cache's own policy decides
  std::vector<std::unique_ptr<actors::PrefixCache>> lower_;
  TokenList prompt_;
  std::uint64_t snapshot_ = 0;
  ReplayResult result_;
};

void print_table(const ReplayOptions& options, const ReplayResult& result) {
  std::printf("%-22s %s, %llu requests\n", "trace", options.trace.filename().string().c_str(),
              static_cast<unsigned long long>(result.requests));
  std::printf("%-22s %s, checkpoints %s%s\n", "policy", options.policy.c_str(), options.origins.c_str(),
              options.any_token ? ", cut at any block" : "");
  std::printf("%-22s %.2f %%  (%llu of %llu tokens)\n", "token hit rate", 100 * result.hit_rate(),
              static_cast<unsigned long long>(result.restored_tokens()),
              static_cast<unsigned long long>(result.input_tokens));
  for (std::size_t i = 0; i < result.restored_by_tier.size() && result.restored_by_tier.size() > 1; ++i) {
    std::printf("%-22s %.2f %%\n",
                i == 0 ? "  from the device" : ("  from tier " + std::to_string(i)).c_str(),
                100 * static_cast<double>(result.restored_by_tier[i]) /
                    static_cast<double>(std::max<std::uint64_t>(result.input_tokens, 1)));
  }
  std::printf("%-22s %.1f GB, %llu entries\n", "at most", static_cast<double>(result.peak_bytes) / 1e9,
              static_cast<unsigned long long>(result.peak_entries));
  std::printf("%-22s %llu, of these %llu as soon as made\n", "evicted",
              static_cast<unsigned long long>(result.stats.evicted),
              static_cast<unsigned long long>(result.evicted_at_once));
  for (std::size_t reason = 0; reason < protocol::kMissReasons; ++reason) {
    if (result.stats.by_reason[reason] == 0) continue;
    std::printf("%-22s %llu\n", std::string(name_of(static_cast<MissReason>(reason))).c_str(),
                static_cast<unsigned long long>(result.stats.by_reason[reason]));
  }
  std::printf("%-22s %.2f s\n", "time in the cache", result.seconds);
}

void print_json(const ReplayOptions& options, const ReplayResult& result) {
  std::string reasons;
  for (std::size_t reason = 0; reason < protocol::kMissReasons; ++reason) {
    reasons += (reason == 0 ? "" : ", ") + json_text(name_of(static_cast<MissReason>(reason))) + ": " +
               std::to_string(result.stats.by_reason[reason]);
  }
  std::string tiers;
  for (const std::uint64_t tokens : result.restored_by_tier) {
    tiers += (tiers.empty() ? "" : ", ") + std::to_string(tokens);
  }
  std::printf(
      "{\"trace\": %s, \"policy\": %s, \"budget_mb\": %.9g, \"requests\": %llu, \"input_tokens\": %llu, "
      "\"restored_tokens\": %llu, \"token_hit_rate\": %.9g, \"peak_bytes\": %llu, \"peak_entries\": %llu, "
      "\"evicted\": %llu, \"evicted_at_once\": %llu, \"superseded\": %llu, \"restored_by_tier\": [%s], "
      "\"reasons\": {%s}}\n",
      json_text(options.trace.filename().string()).c_str(), json_text(options.policy).c_str(),
      options.budget_mb, static_cast<unsigned long long>(result.requests),
      static_cast<unsigned long long>(result.input_tokens),
      static_cast<unsigned long long>(result.restored_tokens()), result.hit_rate(),
      static_cast<unsigned long long>(result.peak_bytes),
      static_cast<unsigned long long>(result.peak_entries),
      static_cast<unsigned long long>(result.stats.evicted),
      static_cast<unsigned long long>(result.evicted_at_once),
      static_cast<unsigned long long>(result.stats.superseded), tiers.c_str(), reasons.c_str());
}

ReplayResult replay_trace(const ReplayOptions& options) {
  if (options.block_tokens == 0) throw UsageError("--block-tokens: at least 1");
  std::vector<TraceRequest> requests;
  TraceFuture future;
  TraceFile trace(options.trace, options.block_tokens);
  while (auto request = trace.next()) {
    future.add(*request, options.block_tokens);
    requests.push_back(std::move(*request));
  }
  Replay replay(options, future);
  for (const TraceRequest& request : requests) replay.request(request);
  return replay.result();
}

// -- all policies at several budgets: token hit rates, and their distance from the best possible

using Rates = std::vector<double>;  // one per budget

std::string row_of(const std::string& name, const Rates& rates, const char* format) {
  std::string row = "| " + name + " |";
  for (const double rate : rates) {
    char cell[64];
    std::snprintf(cell, sizeof cell, format, 100 * rate);
    row += std::string(" ") + cell + " |";
  }
  return row + "\n";
}

Rates minus(const Rates& these, const Rates& those) {
  Rates rest(these.size());
  std::transform(these.begin(), these.end(), those.begin(), rest.begin(),
                 [](double a, double b) { return a - b; });
  return rest;
}

Rates larger_of(const Rates& these, const Rates& those) {
  Rates larger(these.size());
  std::transform(these.begin(), these.end(), those.begin(), larger.begin(),
                 [](double a, double b) { return std::max(a, b); });
  return larger;
}

std::string head_of(const std::string& what, const std::vector<double>& budgets_mb) {
  std::string head = "| " + what + " |", rule = "|---|";
  for (const double mb : budgets_mb) {
    char cell[64];
    std::snprintf(cell, sizeof cell, " %.4g GB |", mb / 1000);
    head += cell;
    rule += "---|";
  }
  return head + "\n" + rule + "\n";
}

// Per budget: does the server's policy beat both that it replaced, at the printed precision? If the better of
// these is as good as full knowledge, everything useful fits, and no policy can win.
std::string verdicts_of(const Rates& ahead, const Rates& left_by_others) {
  constexpr double kPrinted = 0.005, kAllFits = 0.05;  // points
  std::string row = "| asked: above both |";
  for (std::size_t i = 0; i < ahead.size(); ++i) {
    row += 100 * ahead[i] >= kPrinted            ? " PASS |"
           : 100 * ahead[i] <= -kPrinted         ? " SHORT, below |"
           : 100 * left_by_others[i] <= kAllFits ? " PASS, all fits |"
                                                 : " SHORT, equal |";
  }
  return row + "\n";
}

/// Prints the table of `compare_mb`, as Markdown or JSON.
int compare_policies(const ReplayOptions& options) {
  std::map<std::string, Rates> rates;
  std::string table = head_of("policy", options.compare_mb), json;
  for (const std::string& policy : replay_policy_names()) {
    Rates& of_policy = rates[policy];
    std::string listed;
    for (const double mb : options.compare_mb) {
      ReplayOptions one = options;
      one.policy = policy;
      one.budget_mb = mb;
      of_policy.push_back(replay_trace(one).hit_rate());
      char cell[64];
      std::snprintf(cell, sizeof cell, "%s%.9g", listed.empty() ? "" : ", ", of_policy.back());
      listed += cell;
    }
    table += row_of(policy, of_policy, "%.2f");
    json += (json.empty() ? "" : ", ") + json_text(policy) + ": [" + listed + "]";
  }
  table += "\n" + head_of("points below belady", options.compare_mb);
  for (const std::string& policy : replay_policy_names()) {
    if (policy != "belady") table += row_of(policy, minus(rates["belady"], rates[policy]), "%.2f");
  }
  const Rates others = larger_of(rates["lru"], rates["forks"]);
  const Rates ahead = minus(rates["returns"], others);
  table += row_of("returns above the better of lru and forks", ahead, "%+.2f") +
           verdicts_of(ahead, minus(rates["belady"], others));
  const std::string out = options.json ? "{\"trace\": " + json_text(options.trace.filename().string()) +
                                             ", \"token_hit_rates\": {" + json + "}}\n"
                                       : table;
  std::fwrite(out.data(), 1, out.size(), stdout);
  return 0;
}

}  // namespace

int replay(const ReplayOptions& options) {
  if (!options.compare_mb.empty()) return compare_policies(options);
  const ReplayResult result = replay_trace(options);
  options.json ? print_json(options, result) : print_table(options, result);
  return 0;
}

}  // namespace reprise::tools
