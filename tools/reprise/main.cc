// The reprise program: reads the command line and calls the subcommand.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "gpu/devices.h"
#include "tools/reprise/bench_engine.h"
#include "tools/reprise/serve.h"

namespace {

// One line per GPU on stdout; nothing there when there is none.
int list_devices() {
  const auto devices = reprise::gpu::list_devices();
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  for (const auto& device : devices) {
    std::printf("cuda:%d  %s  compute %d.%d  %.1f of %.1f GiB free\n", device.index, device.name.c_str(),
                device.compute_major, device.compute_minor, device.free_bytes / kGiB,
                device.total_bytes / kGiB);
  }
  if (devices.empty()) std::fputs("reprise: no GPU that this build can use\n", stderr);
  return 0;
}

CLI::App* add_bench(CLI::App& app, reprise::tools::BenchEngineOptions& options) {
  CLI::App* bench = app.add_subcommand("bench", "Measure the speed of a model on this machine");
  bench->add_flag("--engine", options.engine, "The engine alone, without server and actors")->required();
  bench->add_option("--model", options.model, "A Hugging Face folder or a GGUF file")->required();
  bench->add_option("--compute", options.compute, "f32 or auto")->capture_default_str();
  bench->add_option("--kv-dtype", options.kv_dtype, "f32, bf16 or auto")->capture_default_str();
  bench->add_option("--isa", options.isa, "Force a CPU path: plain, neon, avx2, avx512")
      ->capture_default_str();
  bench->add_option("--threads", options.threads, "0: one for each core")->capture_default_str();
  bench->add_option("--prompt", options.prompt, "Tokens of a prefill")->capture_default_str();
  bench->add_option("--decode", options.decode, "Tokens decoded after it")->capture_default_str();
  bench->add_option("--repeat", options.repeat, "Repetitions of every measurement")->capture_default_str();
  bench->add_flag("--json", options.json, "One JSON object instead of a table");
  return bench;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Reprise: an inference server and actor runtime for hybrid language models"};
  app.set_version_flag("--version", "reprise " REPRISE_VERSION);
  app.require_subcommand(1);

  reprise::tools::ServeOptions options;
  int idle_seconds = static_cast<int>(options.idle_timeout.count());
  CLI::App* serve = app.add_subcommand("serve", "Run the HTTP server until SIGINT or SIGTERM");
  serve->add_option("--host", options.host, "Address to listen on")->capture_default_str();
  serve->add_option("--port", options.port, "Port to listen on, 0 for any")->capture_default_str();
  serve->add_option("--idle-timeout", idle_seconds, "Seconds before a silent connection is closed")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  reprise::tools::BenchEngineOptions bench_options;
  CLI::App* bench = add_bench(app, bench_options);
  CLI::App* devices = app.add_subcommand("devices", "List the GPUs that this build can use");

  CLI11_PARSE(app, argc, argv);
  if (devices->parsed()) return list_devices();
  if (bench->parsed()) return reprise::tools::bench_engine(bench_options);
  options.idle_timeout = std::chrono::seconds(idle_seconds);
  return reprise::tools::serve(options);
}
