#pragma once
// What people and shells read of the command line, made from its own definition so that it is never out of date: the manual
// page, and the completions of bash, zsh and fish. The build writes them into files, which are installed.
//
// Threading: pure functions.

#include <CLI/CLI.hpp>
#include <string>

namespace reprise::tools {

/// reprise(1) as troff.
std::string manual_page(const CLI::App& app, const std::string& version);

/// A script for "bash", "zsh" or "fish". Throws UsageError for another.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace reprise::tools
