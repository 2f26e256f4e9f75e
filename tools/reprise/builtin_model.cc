#include "tools/reprise/builtin_model.h"

#include "models/builtin_model.h"
#include "tools/reprise/engine_flags.h"
#include "tools/reprise/hub.h"

namespace reprise::tools {

std::string model_or_builtin(const std::string& given) {
  if (given.starts_with(kHubPrefix)) return pull(hub_settings(), parse_hub_name(given)).string();
  if (!given.empty()) return given;
  const auto found = models::find_builtin_model();
  if (!found) {
    throw UsageError(
        "--model is not given, and the built-in model was not found; REPRISE_BUILTIN_MODEL can name its "
        "folder");
  }
  return found->string();
}

}  // namespace reprise::tools
