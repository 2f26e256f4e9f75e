#include "tools/lab/replay.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "tools/lab/replay_policies.h"
#include "tools/lab/replay_rivals.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/json_text.h"
#include "tools/reprise/trace_file.h"

namespace reprise::tools {
namespace {

using actors::MissReason;
using actors::Origin;

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

/// What the cache itself has where a rival chooses, too.
std::unique_ptr<actors::EvictionPolicy> policy_of(const ReplayOptions& options) {
  auto own = make_cache_policy(options.policy);
  return own != nullptr ? std::move(own) : make_cache_policy("lru");
}

/// Which requests can use a place: known by the id of its last block, for equal ids have equal blocks before them.
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
    if (deepest.tier > 0) places[deepest.at] = deepest.origin;  // it stands above again
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

  // What is restored, by whichever tier has most of it; among equals by the nearest.
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

  // Where this request takes checkpoints, first to last.
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
    for (;;) {  // what was superseded or has expired is still in a rival's books
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
  std::unique_ptr<Rival> rival_;  // null: the cache decides
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
    reasons += (reason == 0 ? "" : ", ") + json_string(name_of(static_cast<MissReason>(reason))) + ": " +
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
      json_string(options.trace.filename().string()).c_str(), json_string(options.policy).c_str(),
      options.budget_mb, static_cast<unsigned long long>(result.requests),
      static_cast<unsigned long long>(result.input_tokens),
      static_cast<unsigned long long>(result.restored_tokens()), result.hit_rate(),
      static_cast<unsigned long long>(result.peak_bytes),
      static_cast<unsigned long long>(result.peak_entries),
      static_cast<unsigned long long>(result.stats.evicted),
      static_cast<unsigned long long>(result.evicted_at_once),
      static_cast<unsigned long long>(result.stats.superseded), tiers.c_str(), reasons.c_str());
}

}  // namespace

std::vector<std::string> replay_policy_names() {
  std::vector<std::string> names = cache_policy_names();
  names.insert(names.end(), rival_names().begin(), rival_names().end());
  return names;
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

int replay(const ReplayOptions& options) {
  if (!options.compare_mb.empty()) return compare_policies(options);
  const ReplayResult result = replay_trace(options);
  options.json ? print_json(options, result) : print_table(options, result);
  return 0;
}

}  // namespace reprise::tools
