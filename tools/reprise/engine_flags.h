#pragma once
// The flags that all commands with a model share: which model, and how it is computed.
//
// Threading: pure functions; what adds flags to a command line, and what finds a model, the main thread.

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

/// A flag that makes no sense; what() names it. Ends the command with exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct EngineFlags {
  std::string model;
  std::string device = "auto";
  std::string compute = "auto";
  std::string kv_dtype = "auto";
  std::string isa;                // empty: the best
  unsigned threads = 0;           // 0: one for each core
  std::uint64_t gpu_mb = 0;       // MiB of a GPU, as if it had no more; 0: all that is free
  std::string cpu_experts = "0";  // layers whose experts stay on the host beside a GPU, or all
  std::string adapter{};          // of the commands that take one; empty: none
};

/// Throws UsageError.
models::ComputeOptions compute_options(const EngineFlags& flags);

/// Throws UsageError for a device that is not there.
void check_device(const std::string& device);

/// As DeviceOptions has it. Throws UsageError.
std::uint32_t cpu_experts(const EngineFlags& flags);

/// Throws UsageError where experts are to stay on the host, and none of the devices that models are computed on is a GPU.
/// A GPU that is named need not be there.
void check_cpu_experts(const EngineFlags& flags, const std::vector<std::string>& devices);

/// How the device is opened. Throws UsageError.
models::DeviceOptions device_options(const EngineFlags& flags);

/// For the commands that have a model to themselves. Throws UsageError.
std::unique_ptr<models::Device> open_device(const EngineFlags& flags);

/// `given`; the built-in model's folder where it is empty; and where it is one of the hub's (hf:OWNER/MODEL[:FILE],
/// tools/reprise/hub.h), the path that it was pulled to, which may take long. Throws UsageError, std::runtime_error.
std::string model_or_builtin(const std::string& given);

/// What a command's help says of --model.
inline constexpr const char* kModelHelp =
    "Model: a Hugging Face folder, a GGUF file, or hf:OWNER/MODEL[:FILE]; default: the built-in model";

/// The flags on a command line. Where no model is given, `flags` name the built-in one; parsing throws UsageError if
/// there is none. `flags` must outlive the command. `devices`: what the help says that there is.
void add_engine_flags(CLI::App& command, EngineFlags& flags,
                      const std::string& devices = "cpu, cuda:N, or auto: a GPU if there is one");

/// --adapter, for a command that computes with it.
void add_adapter_flag(CLI::App& command, EngineFlags& flags);

}  // namespace reprise::tools
