#pragma once
// The subcommands of the program, one source file each; main.cc lists them in the order of --help.
//
// Threading: the main thread, before other threads are started.

#include <functional>

namespace CLI {
class App;
}

namespace reprise::tools {

/// A subcommand. `run` returns the exit status: 0 success, 1 failure, 2 invalid usage. It throws UsageError,
/// models::LoadError, or another std::exception with the reason.
struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run{};
};

inline constexpr int kWrongUsage = 2;

Command add_serve(CLI::App& program);
Command add_generate(CLI::App& program);
Command add_chat(CLI::App& program);
Command add_manual(CLI::App& program);
Command add_completion(CLI::App& program);
Command add_doctor(CLI::App& program);
Command add_logits(CLI::App& program);
Command add_tokenize(CLI::App& program);
Command add_render(CLI::App& program);
Command add_explain(CLI::App& program);
Command add_inspect(CLI::App& program);
Command add_snapshot(CLI::App& program);
Command add_devices(CLI::App& program);

}  // namespace reprise::tools
