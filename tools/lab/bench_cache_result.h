#pragma once
// Results of `reprise bench --cache`, and their output.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "tools/lab/bench_times.h"

namespace reprise::tools {

class BenchReport;

/// Results of one prompt, with and without the cache.
struct CacheRow {
  std::string name;
  std::string kind;  // "length", "raw" or "chat"
  Times warm{};      // TTFT
  Times cold{};
  std::uint32_t prompt_tokens = 0;
  std::uint32_t shared_tokens = 0;    // in common with earlier prompts
  std::uint32_t asked_tokens = 0;     // expected to be restored
  std::uint32_t restored_tokens = 0;  // minimum over the repetitions
  std::string reason{};               // the cache's reason for restoring no more
  double asked_speedup = 0;           // 0: no goal
  std::uint32_t differences = 0;      // repetitions whose warm and cold answers differ
  std::string skipped{};              // why the prompt was not measured; empty: it was

  double speedup() const { return cold.median() / warm.median(); }
  bool enough() const { return restored_tokens >= asked_tokens; }
};

/// Results of many concurrent requests with one instruction.
struct CrowdResult {
  std::uint32_t requests = 0;
  std::uint32_t at_once = 0;
  std::uint32_t instruction_tokens = 0;
  std::uint32_t cold_requests = 0;  // actually run cold; their time is scaled to all requests
  double warm_seconds = 0;
  double cold_seconds = 0;  // scaled
  std::uint64_t asked_tokens = 0;
  std::uint64_t restored_tokens = 0;
  std::uint32_t differences = 0;

  double speedup() const { return cold_seconds / warm_seconds; }
};

/// Cost of a cache miss: new prompts with the cache, and on an engine without one.
struct MissResult {
  std::uint32_t prompt_tokens = 0;
  Times with_cache{};
  Times refused{};  // same engine, requests that bypass the cache
  Times without{};
  Times wall_ratios{};  // with_cache / without, per round
  Times cpu_ratios{};   // the same for CPU time, which other programs disturb less
  /// refused / without, which involves no cache: its deviation from 1 is measurement error, so smaller costs
  /// cannot be measured.
  Times control_ratios{};
  Times own_ratios{};  // with_cache / refused, within one engine

  bool certain() const;
};

/// Min rounds for a verdict on the cost of a miss.
inline constexpr unsigned kMinMissRounds = 5;

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

struct CacheGoal {
  std::string name;
  std::string asked;
  std::string found;
  bool reached = false;
  bool certain = true;  // false: the measurement is too imprecise
};

std::vector<CacheGoal> cache_goals(const CacheBenchResult& result);
/// Returns notes on llama.cpp's behavior in similar cases.
const std::vector<std::string>& cache_bench_remarks();

std::string cache_bench_table(const CacheBenchResult& result);
Json cache_bench_json(const CacheBenchResult& result);
void report_cache(const CacheBenchResult& result, BenchReport& report);

}  // namespace reprise::tools
