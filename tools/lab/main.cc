// reprise-lab: the commands of `reprise` that measure, which runs this program for them.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/lab/bench_command.h"
#include "tools/lab/replay.h"

namespace {

using namespace reprise::tools;

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

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
