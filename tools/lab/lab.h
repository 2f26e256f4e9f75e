#pragma once
// What reprise-lab measures: the options and the entry of `reprise replay` and of each measurement of `reprise bench`.
//
// Each prints a table, or one JSON object, on stdout, adds to the report where it takes one, and returns the exit status of
// the program. All throw UsageError and models::LoadError, and std::runtime_error for a request that failed.
//
// Threading: the calling thread; where an engine is measured, an actor system and device threads of its own.

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
  std::size_t prompt = 512;            // tokens of a prefill
  std::size_t decode = 64;             // tokens that are decoded after it
  std::vector<std::size_t> slices{};   // of a prefill; none: some up to the whole prompt
  std::vector<std::size_t> batches{};  // sequences that decode together; none: some that suit the device
  unsigned repeat = 3;                 // of every measurement; the median is shown
  bool json = false;
};

/// `reprise bench --engine`: how fast a model computes on this machine, without server or actors: prefill by slice size,
/// decode alone and in batches, snapshot and restore.
int bench_engine(const BenchEngineOptions& options, BenchReport& report);

struct BenchCacheOptions {
  EngineFlags engine;
  std::vector<std::uint32_t> lengths = {256, 512, 1024, 2048, 4096, 8192, 16'384};
  std::uint32_t prompt = 1024;      // tokens of a scenario's prompt
  std::uint32_t reply = 4;          // tokens of every answer
  std::uint32_t requests = 100;     // with one instruction
  std::uint32_t at_once = 8;        // of these
  unsigned repeat = 3;              // of every measurement; medians are shown
  double budget_seconds = 600;      // nothing new is begun afterwards
  std::vector<std::string> only{};  // parts by name; empty: all
  bool json = false;
};

/// `reprise bench --cache`: what the snapshot cache is worth on this machine, measured through the whole engine in this
/// process, without HTTP.
///
/// Every answer with the cache is compared with the answer of a cold run of the same prompt: same tokens, same logprobs, or
/// the exit status is 1. Repetitions take cold and warm in turn, in namespaces of their own, so that none sees what another
/// left behind.
int bench_cache(const BenchCacheOptions& options, BenchReport& report);

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

/// `reprise bench --workload chat|rag|batch|mixed|agent`: what the prefix cache does for the work that people give a
/// server, through the whole engine in this process. Scripted and seeded: requests come one after another, each after the
/// idle work of the one before, so that every count of tokens is the same on a fast machine and a slow one. Only the times
/// to the first token are the machine's.
///
///   chat    many users behind one system prompt of 200 tokens, 2 to 10 turns each, in turn
///   rag     three of several documents of 1,000 tokens, in changing combinations and orders, and a question
///   batch   one instruction of 50 tokens, and one of 1,024, before a hundred inputs each
///   agent   tools, 30 steps with a tool's result each, sub-agents that begin alike, steps that are taken back
///   mixed   all of these in one memory, in turn
///
/// Some requests are asked again without the cache: the answers must be the same, tokens and logprobs, or the exit status
/// is 1; and their times are what "cold" means.
int bench_workload(const WorkloadOptions& options, BenchReport& report);

struct ConcurrencyOptions {
  EngineFlags engine;
  std::vector<std::uint32_t> conversations{};  // at once
  std::uint32_t shared_tokens = 1024;
};

/// `reprise bench --concurrency 10,25,50,100`: what a device's memory holds at once, through the whole engine.
///
///   sharing   so many conversations at once, all behind one beginning of 1,024 tokens, in the memory that ten of them need
///             by themselves: how many sequences were open at once with the cache, and how many without
///   waits     conversations of their own, a few at a time, in a memory 64 times as large, which their snapshots fill: how many requests
///             found no room when they came, with snapshots evicted ahead of need and without
///
/// How many run at once follows from prices, not from the machine's speed. Waits depend a little on who is quicker. One
/// thread for each client.
int bench_concurrency(const ConcurrencyOptions& options);

struct LookupOptions {
  std::vector<std::uint32_t> lengths = {256, 1024, 8192, 32'768};  // tokens of a prompt
  std::uint32_t conversations = 200;
  unsigned repeat = 5;
};

/// `reprise bench --lookup`: how a prompt's known beginning is found, by the radix tree that the prefix cache has, and by a
/// hash of blocks as others have it. Both are told the same prompts and asked for the same ones, in turn.
///
/// A hash of blocks knows whole blocks alone, trusts 64 bits of hash, and keeps one record for every block; a tree compares
/// every token and keeps one record for every place where prompts part. No model is needed.
int bench_lookup(const LookupOptions& options);

struct ReplayOptions {
  std::filesystem::path trace;
  std::string policy = "lru";  // the cache's, or a rival's (replay.cc)
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

/// `reprise replay`: the token hit rate of the real prefix cache on a recorded trace, without a model.
///
/// Requests are replayed one after another, at the times of the trace. Each is looked up, takes the checkpoints that
/// `origins` asks for beyond what was restored, and then entries are evicted until
///     covered tokens x kv_bytes_per_token + entries x state_bytes <= budget.
/// A trace knows prompts by blocks alone, so checkpoints stand at block boundaries: that of the end of a prompt at its last
/// whole block. Whose conversation a prompt continues is not in the trace either: with `supersede`, it is that of the prompt
/// end it was restored from.
///
/// Tiers below the device, with `lower_mb`: each gets every checkpoint, keeps what `lower_policy` says within its budget, and
/// is asked for what the tiers above it cannot restore as far. What it brings stands above again.
int replay(const ReplayOptions& options);

}  // namespace reprise::tools
