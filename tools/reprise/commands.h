#pragma once
// The commands of the program. Each is a source that has its options, its flags and what it does; main.cc lists them in the
// order of --help.
//
// Threading: the main thread, before any other was started.

#include <functional>

namespace CLI {
class App;
}

namespace reprise::tools {

/// A command on the command line. `run` returns the exit status of the program: 0 done, 1 failed, 2 asked for something that
/// makes no sense. It throws UsageError, models::LoadError, or another std::exception that says what failed.
struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run{};
};

/// Exit status of a command line that makes no sense.
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
