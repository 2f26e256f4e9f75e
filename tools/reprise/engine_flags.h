#pragma once
// Flags shared by all commands that use a model: the model, and how it is computed.
//
// Threading: add_..._flags() and model_or_builtin() on the main thread, the rest on any.

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/device.h"

namespace CLI {
class App;
}

namespace reprise::tools {

/// Invalid usage; what() names the flag. The command exits with status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct EngineFlags {
  std::string model;
  std::string device = "auto";
  std::string compute = "auto";
  std::string kv_dtype = "auto";
  std::string isa;                // empty: the best available
  unsigned threads = 0;           // 0: one per core
  std::uint64_t gpu_mb = 0;       // MiB; limits the GPU memory used; 0: all that is free
  std::string cpu_experts = "0";  // number of layers whose experts stay on the host, or "all"
  std::string adapter{};          // empty: none; only for some commands
};

models::ComputeOptions compute_options(const EngineFlags& flags);

/// Throws UsageError if the device does not exist.
void check_device(const std::string& device);

/// Parses the flag for DeviceOptions. Throws UsageError.
std::uint32_t cpu_experts(const EngineFlags& flags);

/// Throws UsageError if experts are to stay on the host but no device is a GPU. A named GPU need not exist.
void check_cpu_experts(const EngineFlags& flags, const std::vector<std::string>& devices);

/// Returns the options to open the device with. Throws UsageError.
models::DeviceOptions device_options(const EngineFlags& flags);

/// Opens the device for a command that runs one model. Throws UsageError.
std::unique_ptr<models::Device> open_device(const EngineFlags& flags);

/// Returns `given`; if empty, the built-in model's folder; for a hub name (hf:OWNER/MODEL[:FILE],
/// tools/reprise/hub.h), the path after pulling it, which may take long. Throws UsageError,
/// std::runtime_error.
std::string model_or_builtin(const std::string& given);

inline constexpr const char* kModelHelp =
    "Model: a Hugging Face folder, a GGUF file, or hf:OWNER/MODEL[:FILE]; default: the built-in model";

/// Adds the flags to a command. Without --model, the built-in model is used; parsing throws UsageError if
/// there is none. `flags` must outlive the command. `devices` is shown in the help.
void add_engine_flags(CLI::App& command, EngineFlags& flags,
                      const std::string& devices = "cpu, cuda:N, or auto: a GPU if there is one");

void add_adapter_flag(CLI::App& command, EngineFlags& flags);

}  // namespace reprise::tools
