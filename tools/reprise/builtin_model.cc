#include "tools/reprise/builtin_model.h"

#include <cstdlib>

#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

namespace {

namespace fs = std::filesystem;

bool has_config(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.json", error);
}

}  // namespace

std::optional<fs::path> find_builtin_model() {
  if (const char* named = std::getenv("REPRISE_BUILTIN_MODEL"); named != nullptr && *named != '\0') {
    return fs::path(named);
  }
  const fs::path in_source = REPRISE_BUILTIN_IN_SOURCE;
  if (has_config(in_source)) return in_source;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return std::nullopt;
  const fs::path installed = program.parent_path().parent_path() / REPRISE_BUILTIN_INSTALLED;
  if (has_config(installed)) return installed;
  return std::nullopt;
}

std::string model_or_builtin(const std::string& given) {
  if (!given.empty()) return given;
  const std::optional<fs::path> found = find_builtin_model();
  if (!found) {
    throw UsageError(
        "--model is missing, and the built-in model was not found; REPRISE_BUILTIN_MODEL can name its "
        "folder");
  }
  return found->string();
}

}  // namespace reprise::tools
