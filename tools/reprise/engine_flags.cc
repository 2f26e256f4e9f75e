#include "tools/reprise/engine_flags.h"

#include "models/compute_options.h"

namespace reprise::tools {

models::ComputeOptions compute_options(const EngineFlags& flags) {
  try {
    return models::compute_options(flags.compute, flags.kv_dtype, flags.isa);
  } catch (const models::SettingError& error) {
    throw UsageError(std::string("--") + error.what());
  }
}

void check_device(const std::string& device) {
  try {
    static_cast<void>(models::Device::resolve(device));
  } catch (const models::SettingError& error) {
    throw UsageError(std::string("--") + error.what());
  }
}

models::DeviceOptions device_options(const EngineFlags& flags) {
  return {.threads = flags.threads, .memory_bytes = flags.gpu_mb << 20};
}

std::unique_ptr<models::Device> open_device(const EngineFlags& flags) {
  try {
    return models::Device::open(flags.device, device_options(flags));
  } catch (const models::SettingError& error) {
    throw UsageError(std::string("--") + error.what());
  }
}

}  // namespace reprise::tools
