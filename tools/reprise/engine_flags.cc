#include "tools/reprise/engine_flags.h"

#include "models/compute_options.h"

namespace reprise::tools {

models::ComputeOptions compute_options(const EngineFlags& flags) {
  if (flags.device != "cpu") throw UsageError("--device: '" + flags.device + "' is not one of cpu");
  try {
    return models::compute_options(flags.compute, flags.kv_dtype, flags.isa);
  } catch (const models::SettingError& error) {
    throw UsageError(std::string("--") + error.what());
  }
}

}  // namespace reprise::tools
