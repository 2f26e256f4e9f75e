// The reprise program: reads the command line and calls the subcommand.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "gpu/devices.h"
#include "tools/reprise/serve.h"
#include "tools/reprise/tokenize.h"

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
  reprise::tools::TokenizeOptions tokenize_options;
  CLI::App* tokenize = app.add_subcommand(
      "tokenize", "Read JSON strings, one a line, and write their token ids as JSON arrays");
  tokenize->add_option("--model", tokenize_options.model, "A Hugging Face folder or a GGUF file")->required();
  CLI::App* devices = app.add_subcommand("devices", "List the GPUs that this build can use");

  CLI11_PARSE(app, argc, argv);
  if (devices->parsed()) return list_devices();
  if (tokenize->parsed()) {
    std::ios::sync_with_stdio(false);
    return reprise::tools::tokenize(tokenize_options, std::cin, std::cout, std::cerr);
  }
  options.idle_timeout = std::chrono::seconds(idle_seconds);
  return reprise::tools::serve(options);
}
