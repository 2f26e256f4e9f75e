#include "tools/reprise/engine_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "models/builtin_model.h"
#include "models/compute_options.h"
#include "models/gpu_plan.h"
#include "tools/reprise/hub.h"

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

void add_engine_flags(CLI::App& command, EngineFlags& flags, const std::string& devices) {
  command.add_option("--model,-m", flags.model, kModelHelp);
  command.parse_complete_callback([&flags] { flags.model = model_or_builtin(flags.model); });
  command.add_option("--device", flags.device, "Where to compute: " + devices)->capture_default_str();
  command
      .add_option("--compute", flags.compute,
                  "Arithmetic: auto (the fastest), precise, bf16, or f32 (the reference, on a CPU)")
      ->capture_default_str();
  command
      .add_option("--kv-dtype", flags.kv_dtype,
                  "Type of keys and values in memory: auto, f32, bf16, int8 or int4")
      ->capture_default_str();
  command.add_option("--isa", flags.isa,
                     "CPU kernels to use: plain, neon, neon-dotprod, neon-i8mm, avx2, avx2-vnni, avx512, "
                     "avx512-vnni or avx512-amx; default: the best");
  command.add_option("--gpu-mb", flags.gpu_mb, "Memory of a GPU to use, in MiB; 0: all that is free")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40))
      ->capture_default_str();
  command
      .add_option("--cpu-experts", flags.cpu_experts,
                  "With a GPU: experts of the first N layers, or of 'all', stay in the host's memory and are "
                  "computed by the CPU")
      ->capture_default_str();
  command.add_option("--threads,-t", flags.threads, "CPU threads to compute with; 0: one per core")
      ->check(CLI::Range(0U, 1024U))
      ->capture_default_str();
}

void add_adapter_flag(CLI::App& command, EngineFlags& flags) {
  command.add_option("--adapter", flags.adapter, "LoRA adapter for the model: a PEFT folder or a GGUF file");
}

}  // namespace reprise::tools
