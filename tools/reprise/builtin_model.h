#pragma once
// Where the model lies that comes with the program: used by every command that is given no --model.
//
// Looked for in this order: the folder that REPRISE_BUILTIN_MODEL names in the environment; models/builtin of
// the source tree that the program was built in; ../share/reprise/builtin beside the program, where it is
// installed. A folder counts if it has a config.json; one that the environment names is taken as it is.
//
// Threading: reads the environment; call it before other threads change that.

#include <filesystem>
#include <optional>
#include <string>

namespace reprise::tools {

/// Nothing if there is none.
std::optional<std::filesystem::path> find_builtin_model();

/// `given`, or the built-in model's folder where it is empty. Throws UsageError if there is none.
std::string model_or_builtin(const std::string& given);

}  // namespace reprise::tools
