#include "tools/reprise/engine_flags.h"

#include <algorithm>

#include "models/compute_options.h"
#include "models/gpu_plan.h"

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

std::uint32_t cpu_experts(const EngineFlags& flags) {
  try {
    return models::cpu_experts_named(flags.cpu_experts);
  } catch (const models::SettingError& error) {
    throw UsageError(std::string("--") + error.what());
  }
}

void check_cpu_experts(const EngineFlags& flags, const std::vector<std::string>& devices) {
  if (cpu_experts(flags) == 0) return;
  const auto is_gpu = [](const std::string& device) {
    return device.starts_with("cuda:") || models::Device::resolve(device).starts_with("cuda:");
  };
  if (std::any_of(devices.begin(), devices.end(), is_gpu)) return;
  throw UsageError("--cpu-experts: applies only to a GPU; the device is " +
                   models::Device::resolve(devices.front()));
}

models::DeviceOptions device_options(const EngineFlags& flags) {
  return {.threads = flags.threads, .memory_bytes = flags.gpu_mb << 20, .cpu_experts = cpu_experts(flags)};
}

std::unique_ptr<models::Device> open_device(const EngineFlags& flags) {
  try {
    check_cpu_experts(flags, {flags.device});
    return models::Device::open(flags.device, device_options(flags));
  } catch (const models::SettingError& error) {
    throw UsageError(std::string("--") + error.what());
  }
}

}  // namespace reprise::tools
