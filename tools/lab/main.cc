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
  replay->add_option("--trace", options.trace, "JSON lines with timestamp, input_length and hash_ids")
      ->required();
  replay->add_option("--policy", options.policy, "How entries are evicted")->capture_default_str();
  replay->add_option("--budget-mb", options.budget_mb, "Millions of bytes for all entries, 0 for no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  replay
      ->add_option("--lower-mb", options.lower_mb,
                   "Millions of bytes of each tier below the device, from the nearest, 0 for no limit")
      ->delimiter(',');
  replay->add_option("--lower-policy", options.lower_policy, "How these tiers evict: lru, forks or returns")
      ->capture_default_str();
  replay->add_option("--kv-bytes-per-token", options.kv_bytes_per_token, "Of keys and values")
      ->check(CLI::Range(0UL, 1UL << 30))
      ->capture_default_str();
  replay->add_option("--state-bytes", options.state_bytes, "Of recurrent state a checkpoint")
      ->check(CLI::Range(0UL, 1UL << 40))
      ->capture_default_str();
  replay->add_option("--block-tokens", options.block_tokens, "Tokens behind one id of the trace")
      ->check(CLI::Range(1U, 1U << 20))
      ->capture_default_str();
  replay->add_option("--origins", options.origins, "Checkpoints to take: branch, prompt_end, spaced")
      ->capture_default_str();
  replay->add_flag("--any-token", options.any_token, "Attention alone: states can be cut at every block");
  replay->add_flag("--supersede", options.supersede, "A prompt's end replaces the one it was restored from");
  replay->add_option("--ttl", options.ttl_seconds, "Seconds an unused entry lives, 0 for ever")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  replay->add_option("--max-path-tokens", options.max_path_tokens, "Of prompts remembered, 0 for no limit")
      ->capture_default_str();
  replay
      ->add_option("--compare-mb", options.compare_mb,
                   "All policies, those that others published, and one that knows the future, at these "
                   "budgets, 220000,440000,...")
      ->delimiter(',');
  replay->add_flag("--json", options.json, "One JSON object instead of a table");
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
