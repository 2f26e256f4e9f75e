// The reprise program: reads the command line and calls the subcommand.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "gpu/devices.h"
#include "tools/reprise/builtin_model.h"
#include "tools/reprise/chat.h"
#include "tools/reprise/doctor.h"
#include "tools/reprise/explain.h"
#include "tools/reprise/generate.h"
#include "tools/reprise/hub.h"
#include "tools/reprise/inspect.h"
#include "tools/reprise/llama_flags.h"
#include "tools/reprise/logits.h"
#include "tools/reprise/make_service.h"
#include "tools/reprise/manual.h"
#include "tools/reprise/model_flags.h"
#include "tools/reprise/render.h"
#include "tools/reprise/serve_command.h"
#include "tools/reprise/snapshot_command.h"
#include "tools/reprise/suggestion.h"
#include "tools/reprise/tokenize.h"

namespace {

using namespace reprise::tools;

/// Exit statuses: 0 done, 1 failed, 2 asked for something that makes no sense.
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

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

CLI::App& add_generate(CLI::App& app, GenerateOptions& options) {
  CLI::App* generate = app.add_subcommand("generate", "Continue one prompt");
  add_engine_flags(*generate, options.engine);
  add_adapter_flag(*generate, options.engine);
  generate->add_option("--prompt", options.prompt, "Text to continue");
  generate->add_flag("--chat", options.chat,
                     "Send the prompt as a user message in the model's chat template");
  generate->add_option("--system", options.system, "System message; needs --chat");
  generate->add_option("--tokens", options.tokens, "Token ids to continue, instead of a text: \"1 2 3\"");
  generate->add_option("--max-tokens", options.max_tokens, "Maximum number of tokens to generate")
      ->check(CLI::Range(1UL, 10'000'000UL))
      ->capture_default_str();
  generate->add_option("--temperature", options.sampling.temperature, "Sampling temperature; 0: greedy")
      ->capture_default_str();
  generate->add_option("--top-k", options.sampling.top_k, "Sample among this many most likely tokens; 0: all")
      ->capture_default_str();
  generate
      ->add_option("--top-p", options.sampling.top_p,
                   "Sample among the most likely tokens with this share of the probability")
      ->capture_default_str();
  generate
      ->add_option("--min-p", options.sampling.min_p,
                   "Sample among tokens at least this likely relative to the most likely one")
      ->capture_default_str();
  generate->add_option("--seed", options.sampling.seed, "Sampling seed; the same seed gives the same text")
      ->capture_default_str();
  generate->add_option("--stop", options.stop, "End the text before this string; may be given several times");
  generate->add_flag("--ignore-eos", options.ignore_eos, "Continue after an end-of-text token");
  generate->add_flag("--json", options.json, "Print one JSON object at the end");
  return *generate;
}

CLI::App& add_chat(CLI::App& app, ChatOptions& options) {
  CLI::App* chat = app.add_subcommand("chat", "Talk to a model in the terminal");
  add_engine_flags(*chat, options.engine, "cpu, cuda:N, auto (a GPU if there is one), or cpu-grid for tests");
  chat->add_option(
      "--url", options.url,
      "Talk to a running server, such as http://127.0.0.1:8080; --model is then its name of the model");
  chat->add_option("--api-key", options.api_key, "API key of the server at --url")
      ->envname("REPRISE_API_KEY");
  chat->parse_complete_callback([&options] {
    if (options.url.empty()) options.engine.model = model_or_builtin(options.engine.model);
  });
  chat->add_option("--system", options.system, "System message");
  chat->add_option("--temperature", options.temperature,
                   "Sampling temperature; 0: greedy; default: the model's");
  chat->add_option(
      "--top-p", options.top_p,
      "Sample among the most likely tokens with this share of the probability; default: the model's");
  chat->add_option("--seed", options.seed, "Sampling seed; the same seed gives the same replies");
  chat->add_option("--max-tokens", options.max_tokens, "Maximum length of a reply in tokens")
      ->check(CLI::Range(1U, 10'000'000U))
      ->capture_default_str();
  chat->add_flag("--no-think", options.no_think, "Ask for replies without reasoning");
  chat->add_flag("--no-cache", options.no_cache,
                 "Compute every prompt from its start, without the prefix cache");
  return *chat;
}

struct PullOptions {
  std::string model;
  std::string folder;
  std::string revision;
};

CLI::App& add_pull(CLI::App& app, PullOptions& options) {
  CLI::App* pull = app.add_subcommand("pull", "Download a model from the hub and print its path");
  pull->footer(
      "HF_TOKEN: token for gated models. HF_ENDPOINT: another hub. REPRISE_MODELS: folder of the models\n"
      "(~/.cache/reprise/models). An interrupted pull continues where it ended.");
  pull->add_option(
          "model", options.model,
          "OWNER/MODEL, or OWNER/MODEL:FILE for one of its GGUF files (a part of its name suffices: Q4_K_M)")
      ->required();
  pull->add_option("--out", options.folder, "Folder to keep models in, instead of REPRISE_MODELS");
  pull->add_option("--revision", options.revision, "Branch, tag or commit; default: main");
  return *pull;
}

int pull_model(const PullOptions& options) {
  HubSettings settings = hub_settings();
  if (!options.folder.empty()) settings.folder = options.folder;
  if (!options.revision.empty()) settings.revision = options.revision;
  if (!is_safe_path(settings.revision))
    throw UsageError("--revision: '" + settings.revision + "' is not a branch, tag or commit");
  std::printf("%s\n", pull(settings, parse_hub_name(options.model)).c_str());
  return 0;
}

CLI::App& add_logits(CLI::App& app, LogitsOptions& options) {
  CLI::App* logits = app.add_subcommand("logits", "Print the float32 logits after a prompt");
  add_engine_flags(*logits, options.engine);
  add_adapter_flag(*logits, options.engine);
  logits->add_option("--tokens", options.tokens, "Token ids of the prompt: \"1 2 3\"")->required();
  logits->add_flag("--all", options.all, "Print the logits after every token, not only the last");
  logits->add_flag("--json", options.json, "Print one JSON object");
  return *logits;
}

// What measures is a program of its own, which lies beside this one where it was built.
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

  ServeCommand serve_command(app);
  GenerateOptions generate_options;
  const CLI::App& generate_command = add_generate(app, generate_options);
  ChatOptions chat_options;
  const CLI::App& chat_command = add_chat(app, chat_options);
  const CLI::App* manual_command = app.add_subcommand("manual", "Print the manual page, for man(1)");
  std::string shell;
  CLI::App* completion_command =
      app.add_subcommand("completion", "Print the completions of these commands for a shell");
  completion_command->add_option("shell", shell, "bash, zsh or fish")->required();
  DoctorOptions doctor_options;
  CLI::App* doctor_command =
      app.add_subcommand("doctor", "Check this machine: what will be used and what is missing");
  doctor_command->add_option("--model", doctor_options.model, kModelHelp);
  doctor_command->add_option("--host", doctor_options.host, "Address to listen on")->capture_default_str();
  doctor_command->add_option("--port", doctor_options.port, "Port to listen on")->capture_default_str();
  PullOptions pull_options;
  const CLI::App& pull_command = add_pull(app, pull_options);
  LogitsOptions logits_options;
  const CLI::App& logits_command = add_logits(app, logits_options);
  TokenizeOptions tokenize_options;
  CLI::App* tokenize_command = app.add_subcommand(
      "tokenize", "Read JSON strings, one per line, and write their token ids as JSON arrays");
  std::string tokenize_model;
  tokenize_command->add_option("--model", tokenize_model, kModelHelp);
  RenderOptions render_options;
  CLI::App* render_command = app.add_subcommand(
      "render", "Read a JSON context and write the prompt that a chat template makes of it");
  render_command->add_option("--template", render_options.template_file, "The chat template, a Jinja file")
      ->required();
  render_command->add_option("--now", render_options.now,
                             "Time that templates see, such as 2026-11-14T12:00:00Z");
  ExplainOptions explain_options;
  CLI::App* explain_command =
      app.add_subcommand("explain", "Show where the prompts of two requests differ, in tokens and in text");
  explain_command->add_option("requests", explain_options.requests, "Two files with JSON bodies")
      ->required()
      ->expected(2);
  explain_command->add_option("--model", explain_options.model, kModelHelp);
  explain_command->add_option(
      "--path", explain_options.path,
      "Path that the requests are sent to, such as /v1/messages; default: detected from their fields");
  InspectOptions inspect_options;
  CLI::App* inspect_command = app.add_subcommand("inspect", "Show a model's sizes and the memory it needs");
  add_engine_flags(*inspect_command, inspect_options.engine);
  add_adapter_flag(*inspect_command, inspect_options.engine);
  inspect_command
      ->add_option("--limit-gb", inspect_options.limit_gb,
                   "Plan for a device with this much memory, in GiB; a GPU need not be present")
      ->check(CLI::Range(0.001, 1e6));
  inspect_command
      ->add_option("--tokens", inspect_options.tokens,
                   "Show the memory of a prompt of this many tokens; several values are allowed")
      ->check(CLI::Range(1, 100'000'000));
  inspect_command
      ->add_option("--kv-budget", inspect_options.kv.tokens,
                   "With --tokens: tokens that prompts are compacted to; 0: all are kept")
      ->check(CLI::Range(0, 100'000'000));
  add_lab_commands(app);
  const SnapshotCommand snapshot_command(app);
  const CLI::App* devices_command = app.add_subcommand("devices", "List the GPUs that this build can use");

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
  if (devices_command->parsed()) return list_devices();
  if (snapshot_command.parsed()) return snapshot_command.run();
  if (inspect_command->parsed()) return inspect(inspect_options);
  if (chat_command.parsed()) return chat(chat_options);
  if (pull_command.parsed()) return pull_model(pull_options);
  if (doctor_command->parsed()) return doctor(doctor_options);
  if (manual_command->parsed()) return std::fputs(manual_page(app, REPRISE_VERSION).c_str(), stdout) < 0;
  if (completion_command->parsed()) return std::fputs(completion_script(app, shell).c_str(), stdout) < 0;
  if (generate_command.parsed()) return generate(generate_options);
  if (logits_command.parsed()) return print_logits(logits_options);
  if (tokenize_command->parsed()) {
    tokenize_options.model = model_or_builtin(tokenize_model);
    std::ios::sync_with_stdio(false);
    return tokenize(tokenize_options, std::cin, std::cout, std::cerr);
  }
  if (render_command->parsed()) return render(render_options, std::cin, std::cout, std::cerr);
  if (explain_command->parsed()) {
    explain_options.model = model_or_builtin(explain_options.model);
    return explain(explain_options);
  }
  if (!serve_command.parsed()) return kWrongUsage;
  return serve_command.run(make_service);
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
