#include "models/builtin_model.h"

#include <cstdlib>

namespace reprise::models {
namespace {

namespace fs = std::filesystem;

bool has_config(const fs::path& folder) {
  std::error_code error;
  return !folder.empty() && fs::exists(folder / "config.json", error);
}

}  // namespace

std::optional<fs::path> find_builtin_model(const std::string& packaged) {
  if (const char* named = std::getenv("REPRISE_BUILTIN_MODEL"); named != nullptr && *named != '\0') {
    return fs::path(named);
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path above = program.parent_path().parent_path();  // parent of bin; in vcpkg, of tools/reprise
  for (const fs::path& folder : {fs::path(REPRISE_BUILTIN_IN_SOURCE), fs::path(packaged),
                                 error ? fs::path() : above / REPRISE_BUILTIN_INSTALLED,
                                 error ? fs::path() : above.parent_path() / REPRISE_BUILTIN_INSTALLED}) {
    if (has_config(folder)) return folder;
  }
  return std::nullopt;
}

}  // namespace reprise::models
