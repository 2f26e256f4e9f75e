#pragma once
// What `reprise bench --cache` measures, and how it is shown.
//
// Threading: plain values; pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "tools/lab/bench_times.h"

namespace reprise::tools {

class BenchReport;

/// One prompt, with the cache and without.
struct CacheRow {
  std::string name;
  std::string kind;  // "length", "raw" or "chat"
  Times warm{};      // to the first token
  Times cold{};
  std::uint32_t prompt_tokens = 0;
  std::uint32_t shared_tokens = 0;    // with what was sent before
  std::uint32_t asked_tokens = 0;     // that the design promises to restore
  std::uint32_t restored_tokens = 0;  // the least of all repetitions
  std::string reason{};               // why it was not more, in the cache's words
  double asked_speedup = 0;           // 0: none is promised
  std::uint32_t differences = 0;      // repetitions in which warm and cold answered differently
  std::string skipped{};              // why nothing was measured; else empty

  double speedup() const { return cold.median() / warm.median(); }
  bool enough() const { return restored_tokens >= asked_tokens; }
};

/// Many requests with one instruction, several at a time.
struct CrowdResult {
  std::uint32_t requests = 0;
  std::uint32_t at_once = 0;
  std::uint32_t instruction_tokens = 0;
  std::uint32_t cold_requests = 0;  // that were really run cold; their time is scaled to all
  double warm_seconds = 0;
  double cold_seconds = 0;  // scaled
  std::uint64_t asked_tokens = 0;
  std::uint64_t restored_tokens = 0;
  std::uint32_t differences = 0;

  double speedup() const { return cold_seconds / warm_seconds; }
};

/// Prompts that nobody has sent before: with the cache, and on an engine without one.
struct MissResult {
  std::uint32_t prompt_tokens = 0;
  Times with_cache{};
  Times refused{};  // the same engine, told not to use its cache
  Times without{};
  Times wall_ratios{};  // with_cache / without, of each round
  Times cpu_ratios{};   // the same of the processor's time, which other programs disturb less
  /// refused / without. Neither has anything to do with a cache: what is not 1 here comes from the two
  /// engines or from the machine, and no smaller cost can be told.
  Times control_ratios{};
  Times own_ratios{};  // with_cache / refused: within one engine

  bool certain() const;
};

/// Rounds below which the cost of a miss is not judged.
inline constexpr unsigned kLeastMissRounds = 5;

struct CacheBenchResult {
  std::string model;
  std::string architecture;
  std::string device;
  unsigned threads = 0;
  unsigned repeat = 0;
  std::uint32_t reply_tokens = 0;
  std::vector<CacheRow> rows{};
  std::optional<SnapshotTimes> snapshots{};
  std::optional<CrowdResult> crowd{};
  std::optional<MissResult> miss{};
  std::vector<std::string> differences{};  // one line each
};

/// A promise and what was found.
struct CacheGoal {
  std::string name;
  std::string asked;
  std::string found;
  bool reached = false;
  bool certain = true;  // false: the measurement is too coarse to tell
};

/// Those that the result can tell something about.
std::vector<CacheGoal> cache_goals(const CacheBenchResult& result);
/// What llama.cpp restores in like cases, for comparison.
const std::vector<std::string>& cache_bench_remarks();

std::string cache_bench_table(const CacheBenchResult& result);
Json cache_bench_json(const CacheBenchResult& result);
void report_cache(const CacheBenchResult& result, BenchReport& report);

}  // namespace reprise::tools
