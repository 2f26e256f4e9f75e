#pragma once
// Suggestions for misspelled commands and options.

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::tools {

/// Returns the closest name by edit distance, if the distance is small for its length; else an empty string.
std::string nearest_name(std::string_view given, const std::vector<std::string>& names);

/// Returns "There is no command `serv`." if the first argument should be a command but is not; else an empty
/// string.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments);

/// Returns "Did you mean `serve`?" for arguments that the app could not parse; empty if no name is similar.
std::string suggestion(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace reprise::tools
