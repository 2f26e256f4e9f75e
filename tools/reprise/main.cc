// The reprise program: parses the command line and runs the subcommand.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tools/reprise/commands.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/hub.h"
#include "tools/reprise/llama_flags.h"
#include "tools/reprise/suggestion.h"

namespace {

using namespace reprise::tools;

constexpr int kFailed = 1;  // exit status

struct PullOptions {
  std::string model;
  std::string folder;
  std::string revision;
};

int pull_model(const PullOptions& options) {
  HubSettings settings = hub_settings();
  if (!options.folder.empty()) settings.folder = options.folder;
  if (!options.revision.empty()) settings.revision = options.revision;
  if (!is_safe_path(settings.revision))
    throw UsageError("--revision: '" + settings.revision + "' is not a branch, tag or commit");
  std::printf("%s\n", pull(settings, parse_hub_name(options.model)).c_str());
  return 0;
}

Command add_pull(CLI::App& program) {
  const auto given = std::make_shared<PullOptions>();
  PullOptions& options = *given;
  CLI::App* pull = program.add_subcommand("pull", "Download a model from the hub and print its path");
  pull->footer(
      "HF_TOKEN: token for gated models. HF_ENDPOINT: another hub. REPRISE_MODELS: folder of the models\n"
      "(~/.cache/reprise/models). An interrupted pull continues where it ended.");
  pull->add_option(
          "model", options.model,
          "OWNER/MODEL, or OWNER/MODEL:FILE for one of its GGUF files (a part of its name suffices: Q4_K_M)")
      ->required();
  pull->add_option("--out", options.folder, "Folder to keep models in, instead of REPRISE_MODELS");
  pull->add_option("--revision", options.revision, "Branch, tag or commit; default: main");
  return {pull, [given] { return pull_model(*given); }};
}

// Benchmarks are in a separate program, in the same build folder.
constexpr const char* kLabProgram = "reprise-lab";

void add_lab_commands(CLI::App& app) {
  app.add_subcommand("bench", "Measure this machine and the cache; see reprise bench --help");
  app.add_subcommand("replay",
                     "Measure the prefix cache's token hit rate on a trace; see reprise replay --help");
}

bool is_lab_command(int argc, char** argv) {
  return argc > 1 && (std::string_view(argv[1]) == "bench" || std::string_view(argv[1]) == "replay");
}

int run_lab(char** argv) {
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / kLabProgram;
  execv(program.c_str(), argv);
  throw std::runtime_error(std::string(argv[1]) + ": cannot run " + program.string() + ": " +
                           std::strerror(errno) + "; build the CMake target " + kLabProgram);
}

int run(int argc, char** argv) {
  if (is_lab_command(argc, argv)) return run_lab(argv);
  CLI::App app{"Reprise: an inference server and actor runtime for hybrid language models"};
  app.set_version_flag("--version", "reprise " REPRISE_VERSION);
  app.require_subcommand(1);

  std::vector<Command> commands;
  for (Command (*add)(CLI::App&) :
       {add_serve, add_generate, add_chat, add_manual, add_completion, add_doctor, add_pull, add_logits,
        add_tokenize, add_render, add_explain, add_inspect}) {
    commands.push_back(add(app));
  }
  add_lab_commands(app);
  commands.push_back(add_snapshot(app));
  commands.push_back(add_devices(app));

  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "serve") arguments = with_own_flags(arguments);
  try {
    std::vector<const char*> words{argv[0]};
    for (const std::string& argument : arguments) words.push_back(argument.c_str());
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    const std::string unknown = unknown_command(app, arguments);
    if (unknown.empty()) {
      if (app.exit(error) == 0) return 0;
    } else {
      std::fprintf(stderr, "%s\nRun with --help for more information.\n", unknown.c_str());
    }
    const std::string meant = suggestion(app, arguments);
    if (!meant.empty()) std::fprintf(stderr, "%s\n", meant.c_str());
    return kWrongUsage;
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return kWrongUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "reprise: %s\n", error.what());
    return kWrongUsage;
  } catch (const std::bad_alloc& error) {
    std::fprintf(stderr, "reprise: no memory left: %s\n", error.what());
    return kFailed;
  } catch (const std::exception& error) {  // LoadError names file, item and reason
    std::fprintf(stderr, "reprise: %s\n", error.what());
    return kFailed;
  }
}
