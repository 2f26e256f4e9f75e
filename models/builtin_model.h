#pragma once
// Where the model lies that comes with Reprise, so that a bare machine has something to run.
//
// Looked for in this order: the folder that REPRISE_BUILTIN_MODEL names in the environment; models/builtin of the
// source tree that this was built in; share/reprise/builtin of the package that the program was built with, as
// find_package(reprise) knows it; ../share/reprise/builtin beside the program, where that is installed, or
// ../../share/reprise/builtin. A folder counts if it has a config.json; one that the environment names is taken as it is.
//
// Threading: reads the environment; call it before other threads change that.

#include <filesystem>
#include <optional>
#include <string>

namespace reprise::models {

#ifdef REPRISE_PACKAGED_BUILTIN_MODEL  // from the package's CMake file
inline constexpr const char* kPackagedBuiltinModel = REPRISE_PACKAGED_BUILTIN_MODEL;
#else
inline constexpr const char* kPackagedBuiltinModel = "";
#endif

/// Nothing if there is none. `packaged` is the package's folder; empty: not known.
std::optional<std::filesystem::path> find_builtin_model(const std::string& packaged = kPackagedBuiltinModel);

}  // namespace reprise::models
