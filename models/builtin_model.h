#pragma once
// Finds the folder of the model that comes with Reprise, so that a bare machine has something to run.
//
// Searched in this order:
// 1. the folder named by the environment variable REPRISE_BUILTIN_MODEL, taken unchecked;
// 2. models/builtin of the source tree this was built in;
// 3. share/reprise/builtin of the installed package, as find_package(reprise) knows it;
// 4. ../share/reprise/builtin or ../../share/reprise/builtin relative to the program.
// The last three count only with a config.json.
//
// Threading: reads the environment; call it before other threads change that.

#include <filesystem>
#include <optional>
#include <string>

namespace reprise::models {

#ifdef REPRISE_PACKAGED_BUILTIN_MODEL  // set by the package's CMake file
inline constexpr const char* kPackagedBuiltinModel = REPRISE_PACKAGED_BUILTIN_MODEL;
#else
inline constexpr const char* kPackagedBuiltinModel = "";
#endif

/// Returns the folder, or nullopt if there is none. `packaged` is the package's folder; empty: unknown.
std::optional<std::filesystem::path> find_builtin_model(const std::string& packaged = kPackagedBuiltinModel);

}  // namespace reprise::models
