#pragma once
// Entry points and options of reprise-lab: `reprise replay` and the benchmarks of `reprise bench`.
//
// Each prints a table or a JSON object on stdout, adds to the report if it takes one, and returns the exit
// status. All throw UsageError and models::LoadError, and std::runtime_error if a request fails.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

class BenchReport;

struct BenchEngineOptions {
  EngineFlags engine;
  std::size_t prompt = 512;            // prefill tokens
  std::size_t decode = 64;             // tokens decoded after the prefill
  std::vector<std::size_t> slices{};   // prefill slice sizes; empty: several up to the whole prompt
  std::vector<std::size_t> batches{};  // sequences decoded together; empty: chosen for the device
  unsigned repeat = 3;                 // per measurement; the median is shown
  bool json = false;
};

/// `reprise bench --engine`: measures the model without server or actors: prefill by slice size, single and
/// batched decode, snapshot and restore.
int bench_engine(const BenchEngineOptions& options, BenchReport& report);

struct BenchCacheOptions {
  EngineFlags engine;
  std::vector<std::uint32_t> lengths = {256, 512, 1024, 2048, 4096, 8192, 16'384};
  std::uint32_t prompt = 1024;      // tokens per scenario prompt
  std::uint32_t reply = 4;          // tokens per answer
  std::uint32_t requests = 100;     // with the same instruction
  std::uint32_t at_once = 8;        // concurrent requests
  unsigned repeat = 3;              // per measurement; medians are shown
  double budget_seconds = 600;      // no measurement starts after this
  std::vector<std::string> only{};  // names of parts; empty: all
  bool json = false;
};

/// `reprise bench --cache`: measures the benefit of the snapshot cache, through the whole engine in this
/// process, without HTTP.
///
/// Every answer with the cache is compared with that of a cold run of the same prompt: if tokens or logprobs
/// differ, the exit status is 1. Cold and warm repetitions alternate, each in its own namespace.
int bench_cache(const BenchCacheOptions& options, BenchReport& report);

struct WorkloadOptions {
  EngineFlags engine;
  std::vector<std::string> names{};     // of workloads; "all": all of them
  std::vector<double> memory_mb = {0};  // for snapshots, one run each; 0: all of the state memory
  bool whole_memory = false;            // memory_mb are those of sequences and snapshots together
  bool ahead_cost = false;  // every run once more without evicting ahead of need, and a table of both
  std::uint64_t seed = 1;
  double scale = 1;        // multiplies users, questions, inputs and steps
  unsigned cold_runs = 8;  // requests per workload that are repeated without the cache
  bool json = false;
};

/// `reprise bench --workload chat|rag|batch|mixed|agent`: measures the prefix cache on typical workloads,
/// through the whole engine in this process. Scripted and seeded: each request follows the idle-time work of
/// the previous one, so token counts do not depend on the machine's speed; only TTFT does.
///
///   chat    many users with one system prompt of 200 tokens, 2 to 10 turns each, interleaved
///   rag     three of several documents of 1,000 tokens, in changing combinations and orders, and a question
///   batch   an instruction of 50 tokens, and one of 1,024, each followed by a hundred inputs
///   agent   tools, 30 steps with tool results, sub-agents with a common prefix, steps that are taken back
///   mixed   all of these interleaved in one memory
///
/// Some requests are repeated without the cache: if tokens or logprobs differ, the exit status is 1. Their
/// TTFT is reported as "cold".
int bench_workload(const WorkloadOptions& options, BenchReport& report);

struct ConcurrencyOptions {
  EngineFlags engine;
  std::vector<std::uint32_t> conversations{};  // concurrent
  std::uint32_t shared_tokens = 1024;
};

/// `reprise bench --concurrency 10,25,50,100`: measures how much a device's memory holds, through the whole
/// engine.
///
///   sharing   N concurrent conversations with a common prefix of 1,024 tokens, in the memory of ten separate
///             ones: how many sequences were open at once with and without the cache
///   waits     separate conversations, a few at a time, in the same memory, filled by their snapshots: how
///             many requests had to wait for memory with and without pressure marks
///
/// Concurrency depends on memory sizes, not on speed; waits vary slightly. One thread per client.
int bench_concurrency(const ConcurrencyOptions& options);

struct LookupOptions {
  std::vector<std::uint32_t> lengths = {256, 1024, 8192, 32'768};  // tokens per prompt
  std::uint32_t conversations = 200;
  unsigned repeat = 5;
};

/// `reprise bench --lookup`: compares prefix lookup in the prefix cache's radix tree with a hash table of
/// blocks, on the same prompts in turn. Needs no model.
///
/// A block hash finds only whole blocks, trusts a 64-bit hash, and stores a record per block; the tree
/// compares every token and stores a record per branch point.
int bench_lookup(const LookupOptions& options);

struct ReplayOptions {
  std::filesystem::path trace;
  std::string policy = "lru";  // of the cache (replay_policies.h), or a rival (replay.cc)
  double budget_mb = 0;        // 10^6 bytes; 0: unlimited
  std::uint64_t kv_bytes_per_token = 65'536;
  std::uint64_t state_bytes = 26'787'840;
  std::uint32_t block_tokens = 512;
  std::string origins = "branch,prompt_end";  // also possible: spaced
  bool any_token = false;                     // attention-only model: states can be truncated at any block
  bool supersede = false;
  std::string lower_policy = "lru";   // of the lower tiers, from replay_policies.h
  std::vector<double> lower_mb{};     // 10^6 bytes per lower tier, nearest first; 0: unlimited
  double ttl_seconds = 0;             // 0: unlimited
  std::uint64_t max_path_tokens = 0;  // 0: unlimited
  bool json = false;
  /// If not empty: prints a table of all policies at these budgets, in MB, instead.
  std::vector<double> compare_mb{};
};

/// `reprise replay`: token hit rate of the real prefix cache on a recorded trace, without a model.
///
/// Replays requests one after another at the trace's times. Each is looked up and takes the checkpoints that
/// `origins` requests beyond the restored position; then entries are evicted until
///     covered tokens x kv_bytes_per_token + entries x state_bytes <= budget.
/// A trace knows only blocks, so checkpoints are at block boundaries: the end of a prompt is its last whole
/// block. Nor does it know which conversation a prompt continues: `supersede` assumes that of the prompt end
/// it was restored from.
///
/// With `lower_mb` there are tiers below the device: each receives every checkpoint, keeps what
/// `lower_policy` selects within its budget, and is asked for prefixes longer than the upper tiers can
/// restore. Checkpoints it restores are inserted into the device's cache again.
int replay(const ReplayOptions& options);

}  // namespace reprise::tools
