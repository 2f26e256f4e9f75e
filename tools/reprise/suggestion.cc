#include "tools/reprise/suggestion.h"

#include <algorithm>
#include <numeric>

namespace reprise::tools {
namespace {

constexpr std::size_t kMaxNameLength = 64;

/// Edit distance: substitutions, deletions, insertions, and swaps of neighbors.
std::size_t letters_apart(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> apart(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  std::iota(apart[0].begin(), apart[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    apart[i][0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      apart[i][j] = std::min(
          {apart[i - 1][j] + 1, apart[i][j - 1] + 1, apart[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) apart[i][j] = std::min(apart[i][j], apart[i - 2][j - 2] + 1);
    }
  }
  return apart[a.size()][b.size()];
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

const CLI::App* command_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // a removed option
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string did_you_mean(const std::string& name) {
  return name.empty() ? std::string() : "Did you mean `" + name + "`?";
}

}  // namespace

std::string nearest_name(std::string_view given, const std::vector<std::string>& names) {
  std::string nearest;
  std::size_t fewest = std::max<std::size_t>(1, given.size() / 3) + 1;
  if (given.size() > kMaxNameLength) return nearest;
  for (const std::string& name : names) {
    if (name.size() > kMaxNameLength) continue;
    // A prefix of a name counts as distance 1.
    const bool begins = given.size() >= 3 && name.starts_with(given);
    const std::size_t apart = begins ? 1 : letters_apart(given, name);
    if (apart >= fewest) continue;
    fewest = apart;
    nearest = name;
  }
  return nearest;
}

std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (const std::string& argument : arguments) {
    if (argument.starts_with('-') || commands_of(*command).empty()) break;
    const CLI::App* next = command_named(*command, argument);
    if (next == nullptr) return "There is no command `" + argument + "`.";
    command = next;
  }
  return {};
}

std::string suggestion(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (const std::string& argument : arguments) {
    if (argument.size() > 2 && argument.starts_with("--")) {
      const std::string name = argument.substr(0, argument.find('='));
      const std::vector<std::string> known = options_of(*command);
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return did_you_mean(nearest_name(name, known));
      }
    } else if (!argument.starts_with('-') && !commands_of(*command).empty()) {
      const CLI::App* next = command_named(*command, argument);
      if (next == nullptr) return did_you_mean(nearest_name(argument, commands_of(*command)));
      command = next;
    }
  }
  return {};
}

}  // namespace reprise::tools
