#include "tools/reprise/model_flags.h"

#include "tools/reprise/builtin_model.h"

namespace reprise::tools {

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
