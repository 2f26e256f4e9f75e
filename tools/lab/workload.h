#pragma once
// `reprise bench --workload chat|rag|batch|mixed|agent`: what the prefix cache does for the work that people give a
// server, through the whole engine in this process. Scripted and seeded: requests come one after another, each after the
// idle work of the one before, so that every count of tokens is the same on a fast machine and a slow one. Only the times
// to the first token are the machine's.
//
//   chat    many users behind one system prompt of 200 tokens, 2 to 10 turns each, in turn
//   rag     three of several documents of 1,000 tokens, in changing combinations and orders, and a question
//   batch   one instruction of 50 tokens, and one of 1,024, before a hundred inputs each
//   agent   tools, 30 steps with a tool's result each, sub-agents that begin alike, steps that are taken back
//   mixed   all of these in one memory, in turn
//
// Some requests are asked again without the cache: the answers must be the same, tokens and logprobs, or the exit status
// is 1; and their times are what "cold" means.
//
// Threading: the calling thread, an actor system and device threads of its own.

#include <cstdint>
#include <string>
#include <vector>

#include "tools/lab/bench_report.h"
#include "tools/lab/bench_times.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

struct WorkloadOptions {
  EngineFlags engine;
  std::vector<std::string> names{};     // of workloads; "all": all of them
  std::vector<double> memory_mb = {0};  // for snapshots, one run each; 0: all of the state memory
  bool whole_memory = false;            // memory_mb are those of sequences and snapshots together
  bool ahead_cost = false;  // every run once more without evicting ahead of need, and a table of both
  std::uint64_t seed = 1;
  double scale = 1;        // of the number of users, questions, inputs and steps
  unsigned cold_runs = 8;  // of a workload's requests are asked without the cache, too
  bool json = false;
};

/// What one workload did in one memory.
struct WorkloadResult {
  std::string name;
  double memory_mb = 0;  // 0: no limit but the machine's
  std::uint64_t requests = 0, exact = 0, partial = 0, missed = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t possible_tokens =
      0;  // that stand at the beginning of an earlier prompt: what a cache of prefixes can give
  std::uint64_t movable_tokens = 0;  // that a cache could give which finds a document wherever it stands
  std::uint64_t restored_tokens = 0;
  std::uint64_t possible_requests = 0;  // that share something with an earlier one,
  std::uint64_t possible_hits = 0;      // and of these, that were restored in part or wholly
  std::uint64_t inserts = 0, evicted = 0, thrashed = 0, superseded = 0, capped = 0;
  std::uint64_t peak_bytes = 0, peak_entries = 0, index_bytes = 0;
  Times cold{}, warm{};  // to the first token, of the same requests
  std::uint64_t differences = 0;

  double token_rate() const { return share(restored_tokens, prompt_tokens); }
  double possible_rate() const { return share(possible_tokens, prompt_tokens); }
  double of_possible() const { return share(restored_tokens, possible_tokens); }
  double request_rate() const { return share(exact + partial, requests); }
  double of_possible_requests() const { return share(possible_hits, possible_requests); }
  double eviction_rate() const { return share(evicted, inserts); }

  static double share(std::uint64_t part, std::uint64_t all) {
    return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
  }
};

/// "chat", "rag", ...
const std::vector<std::string>& workload_names();

std::string workload_table(const std::vector<WorkloadResult>& results);
std::string workload_json(const std::vector<WorkloadResult>& results);
/// What evicting ahead of need costs: each result beside that of the same run without it.
std::string ahead_cost_table(const std::vector<WorkloadResult>& with_ahead,
                             const std::vector<WorkloadResult>& without);

/// What share was restored in which memory.
void report_workloads(const WorkloadOptions& options, const std::vector<WorkloadResult>& results,
                      BenchReport& report);

/// Prints a table, or one JSON object, and adds to the report; returns the exit status. Throws UsageError, models::LoadError,
/// std::runtime_error for a request that failed.
int bench_workload(const WorkloadOptions& options, BenchReport& report);

}  // namespace reprise::tools
