#include "tools/reprise/model_flags.h"

#include "tools/reprise/builtin_model.h"

namespace reprise::tools {

void add_engine_flags(CLI::App& command, EngineFlags& flags, const std::string& devices) {
  command.add_option("--model,-m", flags.model, kModelHelp);
  command.parse_complete_callback([&flags] { flags.model = model_or_builtin(flags.model); });
  command.add_option("--device", flags.device, "Where to compute: " + devices)->capture_default_str();
  command
      .add_option("--compute", flags.compute,
                  "auto: the fastest; precise; bf16; f32: the reference, on a CPU")
      ->capture_default_str();
  command.add_option("--kv-dtype", flags.kv_dtype, "Keys and values as f32, bf16, int8, int4 or auto")
      ->capture_default_str();
  command.add_option(
      "--isa", flags.isa,
      "Force a set of kernels: plain, neon, neon-i8mm, avx2, avx512, avx512-vnni, avx512-amx, ...");
  command
      .add_option("--gpu-mb", flags.gpu_mb, "MiB of a GPU to use, as if it had no more; 0: all that is free")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40))
      ->capture_default_str();
  command
      .add_option("--cpu-experts", flags.cpu_experts,
                  "Beside a GPU: of the first so many layers, or of all, experts stay on the host and are "
                  "computed there")
      ->capture_default_str();
  command.add_option("--threads,-t", flags.threads, "Threads to compute with, 0 for one a core")
      ->check(CLI::Range(0U, 1024U))
      ->capture_default_str();
}

void add_adapter_flag(CLI::App& command, EngineFlags& flags) {
  command.add_option("--adapter", flags.adapter, "A LoRA adapter to the model: a PEFT folder or a GGUF file");
}

}  // namespace reprise::tools
