#pragma once
// What somebody meant who misspelt a command or an option.
//
// Threading: pure functions.

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::tools {

/// The name with the fewest letters to change, take or leave, if these are few beside its length; empty: none is near.
std::string nearest_name(std::string_view given, const std::vector<std::string>& names);

/// "There is no command `serv`." where a command should stand and none of the app's does; empty where that is not so.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments);

/// "Did you mean `serve`?" for arguments that the app could not read; empty where nothing in them is near to what the
/// app knows.
std::string suggestion(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace reprise::tools
