// reprise-lab: the benchmark commands of `reprise`, which runs this program for them.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "tools/lab/bench_report.h"
#include "tools/lab/lab.h"
#include "tools/reprise/engine_flags.h"

namespace {

using namespace reprise::tools;

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

class BenchCommand {
 public:
  explicit BenchCommand(CLI::App& app);
  BenchCommand(const BenchCommand&) = delete;
  BenchCommand& operator=(const BenchCommand&) = delete;

  bool parsed() const { return command_->parsed(); }
  /// Throws UsageError.
  int run();

 private:
  CLI::App* command_;
  CLI::Option* memory_ = nullptr;
  bool engine_alone_ = false;
  bool cache_ = false;
  EngineFlags flags_;
  std::uint32_t prompt_ = 0;  // 0: the benchmark's default
  unsigned repeat_ = 3;
  bool json_ = false;
  std::string report_;  // path of an HTML report; empty: none
  BenchEngineOptions engine_options_;
  BenchCacheOptions cache_options_;
  WorkloadOptions workload_options_;
  ConcurrencyOptions concurrency_options_;
  bool lookup_ = false;
  LookupOptions lookup_options_;
};

BenchCommand::BenchCommand(CLI::App& app)
    : command_(app.add_subcommand("bench", "Measure the speed of a model on this machine")) {
  CLI::App& bench = *command_;
  CLI::Option_group* what = bench.add_option_group("what", "What to measure");
  what->add_flag("--engine", engine_alone_, "Measure the engine alone, without server and actors");
  what->add_flag("--cache", cache_, "Measure what the prefix cache saves, through the whole engine");
  what->add_option("--workload", workload_options_.names,
                   "Measure the prefix cache on workloads: some of chat,rag,batch,agent,mixed, or all")
      ->delimiter(',');
  what->add_option("--concurrency", concurrency_options_.conversations,
                   "Measure this many concurrent conversations in equal memory, with and without sharing: "
                   "10,25,50,100")
      ->delimiter(',');
  what->add_flag("--lookup", lookup_, "Measure prefix lookups by a tree and by block hashes; needs no model");
  what->require_option(0, 1);
  add_engine_flags(bench, flags_);
  bench.add_option(
      "--prompt", prompt_,
      "Length of a prompt in tokens; default: 512, with --cache 1024, with --concurrency 1024 shared tokens");
  bench.add_option("--repeat", repeat_, "Repetitions of every measurement")->capture_default_str();
  bench.add_flag("--json", json_, "Print one JSON object instead of a table");
  bench.add_option("--slices", engine_options_.slices, "With --engine: tokens per prefill step: 16,512,...")
      ->delimiter(',');
  bench
      .add_option("--batches", engine_options_.batches, "With --engine: sequences decoded together: 1,4,...")
      ->delimiter(',');
  bench.add_option("--decode", engine_options_.decode, "With --engine: tokens decoded after the prompt")
      ->capture_default_str();
  bench.add_option("--lengths", cache_options_.lengths, "With --cache: prompt lengths, 256,1024,...")
      ->delimiter(',')
      ->check(CLI::Range(1U, 1U << 22))
      ->capture_default_str();
  bench.add_option("--reply", cache_options_.reply, "With --cache: tokens of every answer")
      ->capture_default_str();
  bench.add_option("--requests", cache_options_.requests, "With --cache: requests with one instruction")
      ->capture_default_str();
  bench
      .add_option("--at-once", cache_options_.at_once,
                  "With --cache: requests with one instruction that run at once")
      ->capture_default_str();
  bench
      .add_option("--only", cache_options_.only,
                  "With --cache: some of lengths,raw,chat,crowd,miss,snapshots")
      ->delimiter(',');
  bench
      .add_option("--budget-seconds", cache_options_.budget_seconds,
                  "With --cache: seconds after which no new measurement starts")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  memory_ = bench
                .add_option("--memory-mb", workload_options_.memory_mb,
                            "With --workload: memory for snapshots in MiB, one run each: 8,16,...; 0: all")
                ->delimiter(',');
  bench.add_flag("--whole-memory", workload_options_.whole_memory,
                 "With --workload: --memory-mb is for sequences and snapshots together");
  bench.add_flag(
      "--ahead-cost", workload_options_.ahead_cost,
      "With --workload: repeat every run without evicting ahead of need, and print a table of both");
  bench.add_option("--seed", workload_options_.seed, "With --workload: seed for texts and order")
      ->capture_default_str();
  bench
      .add_option("--scale", workload_options_.scale,
                  "With --workload: factor on the usual number of requests")
      ->capture_default_str();
  bench.add_option("--report", report_,
                   "HTML file for a page with plots; without another measurement it has --cache, --workload "
                   "chat and --engine");
}

int BenchCommand::run() {
  const bool concurrency = !concurrency_options_.conversations.empty();
  if ((lookup_ || concurrency) && (json_ || !report_.empty())) {
    throw UsageError("bench: --lookup and --concurrency print tables alone, without --json and --report");
  }
  if (lookup_) return bench_lookup(lookup_options_);
  if (concurrency) {
    concurrency_options_.engine = flags_;
    if (prompt_ != 0) concurrency_options_.shared_tokens = prompt_;
    return bench_concurrency(concurrency_options_);
  }
  const bool workload = !workload_options_.names.empty();
  const bool all = !workload && !cache_ && !engine_alone_;
  if (all && report_.empty()) {
    throw UsageError(
        "bench: say what: --engine, --cache, --workload NAMES, or --report FILE.html for all of these; "
        "--concurrency NUMBERS, --lookup");
  }
  BenchReport report(report_);
  int status = 0;
  if (cache_ || all) {
    cache_options_.engine = flags_;
    if (prompt_ != 0) cache_options_.prompt = prompt_;
    cache_options_.repeat = repeat_;
    cache_options_.json = json_;
    status = std::max(status, bench_cache(cache_options_, report));
  }
  if (workload || all) {
    workload_options_.engine = flags_;
    workload_options_.json = json_;
    if (all) {
      workload_options_.names = {"chat"};
      if (memory_->count() == 0) workload_options_.memory_mb = {4, 8, 16, 32, 64, 0};
    }
    try {
      status = std::max(status, bench_workload(workload_options_, report));
    } catch (const UsageError& error) {  // the model has no chat template; still write the rest of the report
      if (!all) throw;
      std::fprintf(stderr, "reprise: left out: %s\n", error.what());
    }
  }
  if (engine_alone_ || all) {
    engine_options_.engine = flags_;
    if (prompt_ != 0) engine_options_.prompt = prompt_;
    engine_options_.repeat = repeat_;
    engine_options_.json = json_;
    status = std::max(status, bench_engine(engine_options_, report));
  }
  report.write();
  return status;
}

CLI::App& add_replay(CLI::App& app, ReplayOptions& options) {
  CLI::App* replay = app.add_subcommand("replay", "Measure the prefix cache's token hit rate on a trace");
  replay
      ->add_option("--trace", options.trace,
                   "Trace: a file of JSON lines with timestamp, input_length and hash_ids")
      ->required();
  replay->add_option("--policy", options.policy, "Eviction policy")->capture_default_str();
  replay->add_option("--budget-mb", options.budget_mb, "Memory for all entries, in MB; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  replay
      ->add_option("--lower-mb", options.lower_mb,
                   "Size of each cache tier outside the device, in MB, the fastest first; 0: no limit")
      ->delimiter(',');
  replay
      ->add_option("--lower-policy", options.lower_policy,
                   "Eviction policy of the tiers of --lower-mb: lru, forks or returns")
      ->capture_default_str();
  replay->add_option("--kv-bytes-per-token", options.kv_bytes_per_token, "Bytes of keys and values per token")
      ->check(CLI::Range(0UL, 1UL << 30))
      ->capture_default_str();
  replay->add_option("--state-bytes", options.state_bytes, "Bytes of recurrent state per checkpoint")
      ->check(CLI::Range(0UL, 1UL << 40))
      ->capture_default_str();
  replay->add_option("--block-tokens", options.block_tokens, "Tokens for each of the trace's hash_ids")
      ->check(CLI::Range(1U, 1U << 20))
      ->capture_default_str();
  replay->add_option("--origins", options.origins, "Checkpoints to take: branch, prompt_end, spaced")
      ->capture_default_str();
  replay->add_flag("--any-token", options.any_token, "Model without recurrent state: restore at every block");
  replay->add_flag("--supersede", options.supersede,
                   "The checkpoint at a prompt's end replaces the one it was restored from");
  replay->add_option("--ttl", options.ttl_seconds, "Seconds after which an unused entry is evicted; 0: never")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  replay
      ->add_option("--max-path-tokens", options.max_path_tokens,
                   "Maximum tokens in the cache's index; 0: no limit")
      ->capture_default_str();
  replay
      ->add_option("--compare-mb", options.compare_mb,
                   "Compare all policies, published ones and an optimal one that knows the future, at these "
                   "budgets in MB: 220000,440000,...")
      ->delimiter(',');
  replay->add_flag("--json", options.json, "Print one JSON object instead of a table");
  return *replay;
}

int run(int argc, char** argv) {
  CLI::App app{"Reprise: measurements", "reprise"};
  app.require_subcommand(1);
  BenchCommand bench_command(app);
  ReplayOptions replay_options;
  const CLI::App& replay_command = add_replay(app, replay_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return replay_command.parsed() ? replay(replay_options) : bench_command.run();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "reprise: %s\n", error.what());
    return kWrongUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise: %s\n", error.what());
    return kFailed;
  }
}
