// `reprise manual` and `reprise completion`: generates the manual page and the completions of bash, zsh and
// fish from the command-line definition. The build writes them to files for installation.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/reprise/commands.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

namespace {

std::vector<const CLI::App*> commands_in(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Returns the named options that have a group: positional ones have no name, removed ones no group.
std::vector<const CLI::Option*> options_in(const CLI::App& app) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_lnames().empty() && !option->get_group().empty()) options.push_back(option);
  }
  return options;
}

bool takes_value(const CLI::Option& option) {
  return option.get_expected_max() > 0 && option.get_type_size() != 0;
}

// -- the manual

std::string in_troff(const std::string& text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

void append_options(std::string& out, const CLI::App& command) {
  for (const CLI::Option* option : options_in(command)) {
    out += ".TP\n";
    std::string names;
    for (const std::string& name : option->get_snames()) names += (names.empty() ? "" : ", ") + ("-" + name);
    for (const std::string& name : option->get_lnames()) names += (names.empty() ? "" : ", ") + ("--" + name);
    out += ".B " + in_troff(names) + (takes_value(*option) ? " \\fIVALUE\\fR" : "") + "\n";
    out += in_troff(option->get_description());
    if (!option->get_default_str().empty()) out += " [" + in_troff(option->get_default_str()) + "]";
    if (!option->get_envname().empty()) out += " (" + in_troff(option->get_envname()) + ")";
    out += "\n";
  }
}

void append_command(std::string& out, const CLI::App& command, const std::string& path) {
  out += ".SS " + in_troff(path) + "\n" + in_troff(command.get_description()) + ".\n";
  append_options(out, command);
  if (!command.get_footer().empty()) out += ".PP\n" + in_troff(command.get_footer()) + "\n";
  for (const CLI::App* inner : commands_in(command))
    append_command(out, *inner, path + " " + inner->get_name());
}

// -- completions

std::string for_shell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c == '\n' ? ' ' : c;
    }
  }
  return out;
}

/// Also escapes brackets and colons, which are special in _arguments.
std::string for_zsh(const std::string& text) {
  std::string out;
  for (const char c : for_shell(text)) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string names_in(const std::vector<const CLI::App*>& commands) {
  std::string names;
  for (const CLI::App* command : commands) names += (names.empty() ? "" : " ") + command->get_name();
  return names;
}

std::string flags_in(const CLI::App& command) {
  std::string flags;
  for (const CLI::Option* option : options_in(command)) {
    for (const std::string& name : option->get_lnames()) flags += " --" + name;
  }
  for (const CLI::App* inner : commands_in(command)) flags += " " + inner->get_name() + flags_in(*inner);
  return flags;
}

std::string for_bash(const CLI::App& app) {
  std::string out =
      "# bash completion of reprise, made by `reprise completion bash`.\n"
      "_reprise() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} words\n"
      "  case ${COMP_CWORD}:${COMP_WORDS[1]} in\n"
      "    1:*) words='" +
      names_in(commands_in(app)) + " --help --version' ;;\n";
  for (const CLI::App* command : commands_in(app)) {
    out += "    *:" + command->get_name() + ") words='" + flags_in(*command).substr(1) + "' ;;\n";
  }
  return out +
         "    *) words='' ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  if [[ $COMP_CWORD -gt 1 && $current != -* ]]; then\n"
         "    COMPREPLY+=($(compgen -f -- \"$current\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _reprise reprise\n";
}

std::string for_zsh_shell(const CLI::App& app) {
  std::string out =
      "#compdef reprise\n"
      "# zsh completion of reprise, made by `reprise completion zsh`.\n"
      "local -a commands\n"
      "commands=(\n";
  for (const CLI::App* command : commands_in(app)) {
    out += "  '" + command->get_name() + ":" + for_shell(command->get_description()) + "'\n";
  }
  out +=
      ")\n"
      "if (( CURRENT == 2 )); then\n"
      "  _describe command commands\n"
      "  return\n"
      "fi\n"
      "case $words[2] in\n";
  for (const CLI::App* command : commands_in(app)) {
    out += "  " + command->get_name() + ")\n    _arguments";
    for (const CLI::Option* option : options_in(*command)) {
      for (const std::string& name : option->get_lnames()) {
        out += " \\\n      '--" + name + "[" + for_zsh(option->get_description()) + "]" +
               (takes_value(*option) ? ":value:_files" : "") + "'";
      }
    }
    out += " \\\n      '*:file:_files'\n    ;;\n";
  }
  return out + "esac\n";
}

std::string for_fish(const CLI::App& app) {
  std::string out = "# fish completion of reprise, made by `reprise completion fish`.\n";
  for (const CLI::App* command : commands_in(app)) {
    out += "complete -c reprise -n __fish_use_subcommand -f -a " + command->get_name() + " -d '" +
           for_shell(command->get_description()) + "'\n";
    for (const CLI::Option* option : options_in(*command)) {
      for (const std::string& name : option->get_lnames()) {
        out += "complete -c reprise -n '__fish_seen_subcommand_from " + command->get_name() + "' -l " + name +
               (takes_value(*option) ? " -r" : "") + " -d '" + for_shell(option->get_description()) + "'\n";
      }
    }
  }
  return out;
}

std::string manual_page(const CLI::App& app) {
  std::string out =
      ".TH REPRISE 1 \"\" \"reprise " REPRISE_VERSION
      "\" \"User Commands\"\n"
      ".SH NAME\nreprise \\- " +
      in_troff("inference server for hybrid language models") +
      "\n"
      ".SH SYNOPSIS\n.B reprise\n.I COMMAND\n[\\fIOPTION\\fR ...]\n"
      ".SH DESCRIPTION\n" +
      in_troff(
          "An inference server in which no prefix is computed twice: a prompt that begins with tokens it has "
          "seen is\n"
          "restored from a snapshot and computed only from there on, with the same answer to the bit.\n") +
      ".SH COMMANDS\n";
  for (const CLI::App* command : commands_in(app)) append_command(out, *command, command->get_name());
  out += ".SH EXIT STATUS\n" +
         in_troff("0: done. 1: failed. 2: wrong usage: an unknown command, option or value.\n") +
         ".SH ENVIRONMENT\n" +
         in_troff(
             "Every setting of serve is also a variable: http.port is REPRISE_HTTP_PORT. REPRISE_API_KEYS "
             "holds keys,\n"
             "REPRISE_BUILTIN_MODEL names the folder of the built-in model, REPRISE_MODELS the one that "
             "models are pulled into;\n"
             "HF_TOKEN and HF_ENDPOINT are for the hub.\n") +
         ".SH FILES\n" +
         in_troff(
             "/etc/reprise/reprise.toml: settings of the service, as `reprise serve --print-config` prints "
             "them.\n");
  return out;
}

/// Returns the script for "bash", "zsh" or "fish". Throws UsageError for other shells.
std::string completion_script(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return for_bash(app);
  if (shell == "zsh") return for_zsh_shell(app);
  if (shell == "fish") return for_fish(app);
  throw UsageError("completion: '" + shell + "' is not one of bash, zsh, fish");
}

}  // namespace

Command add_manual(CLI::App& program) {
  return {program.add_subcommand("manual", "Print the manual page, for man(1)"),
          [&program] { return static_cast<int>(std::fputs(manual_page(program).c_str(), stdout) < 0); }};
}

Command add_completion(CLI::App& program) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command =
      program.add_subcommand("completion", "Print the completions of these commands for a shell");
  command->add_option("shell", *shell, "bash, zsh or fish")->required();
  return {command, [&program, shell] {
            return static_cast<int>(std::fputs(completion_script(program, *shell).c_str(), stdout) < 0);
          }};
}

}  // namespace reprise::tools
