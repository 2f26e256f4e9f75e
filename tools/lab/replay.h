#pragma once
// `reprise replay`: the token hit rate of the real prefix cache on a recorded trace, without a model.
//
// Requests are replayed one after another, at the times of the trace. Each is looked up, takes the
// checkpoints that `origins` asks for beyond what was restored, and then entries are evicted until
//     covered tokens x kv_bytes_per_token + entries x state_bytes <= budget.
// A trace knows prompts by blocks alone, so checkpoints stand at block boundaries: that of the end of a
// prompt at its last whole block. Whose conversation a prompt continues is not in the trace either: with
// `supersede`, it is that of the prompt end it was restored from.
//
// Tiers below the device, with `lower_mb`: each gets every checkpoint, keeps what `lower_policy` says within its budget, and is
// asked for what the tiers above it cannot restore as far. What it brings stands above again.
//
// Threading: one replay at a time is pure but for stdout.

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "actors/cache/prefix_cache.h"

namespace reprise::tools {

struct ReplayOptions {
  std::filesystem::path trace;
  std::string policy = "lru";  // one of replay_policies.h, or a rival's (replay_rivals.h)
  double budget_mb = 0;        // of 10^6 bytes; 0: no limit
  std::uint64_t kv_bytes_per_token = 65'536;
  std::uint64_t state_bytes = 26'787'840;
  std::uint32_t block_tokens = 512;
  std::string origins = "branch,prompt_end";  // also: spaced
  bool any_token = false;                     // attention alone: states can be cut at every block
  bool supersede = false;
  std::string lower_policy = "lru";   // of the tiers below: one of replay_policies.h
  std::vector<double> lower_mb{};     // budgets of the tiers below, from the nearest; 0: no limit
  double ttl_seconds = 0;             // 0: for ever
  std::uint64_t max_path_tokens = 0;  // 0: no limit
  bool json = false;
  /// A table of all policies at these budgets, in MB, instead; empty: none.
  std::vector<double> compare_mb{};
};

struct ReplayResult {
  std::uint64_t requests = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_entries = 0;
  std::vector<std::uint64_t> restored_by_tier{};  // tokens; the device's first
  std::uint64_t evicted_at_once = 0;              // entries that had to go as soon as they were made
  double seconds = 0;                             // in the cache
  actors::PrefixCacheStats stats;

  double hit_rate() const {
    return input_tokens == 0 ? 0 : static_cast<double>(restored_tokens()) / static_cast<double>(input_tokens);
  }
  std::uint64_t restored_tokens() const {
    return std::accumulate(restored_by_tier.begin(), restored_by_tier.end(), std::uint64_t{0});
  }
};

/// Those of replay_policies.h, then the rivals.
std::vector<std::string> replay_policy_names();

/// Throws UsageError, models::LoadError.
ReplayResult replay_trace(const ReplayOptions& options);

/// Prints the result; returns the exit status. Throws as replay_trace().
int replay(const ReplayOptions& options);

/// The table of `compare_mb`, as Markdown or JSON. Throws as replay_trace().
int compare_policies(const ReplayOptions& options);

}  // namespace reprise::tools
