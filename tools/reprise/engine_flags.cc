#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

namespace {

[[noreturn]] void refuse(const std::string& flag, const std::string& value, const std::string& allowed) {
  throw UsageError(flag + ": '" + value + "' is not one of " + allowed);
}

}  // namespace

models::ComputeOptions compute_options(const EngineFlags& flags) {
  models::ComputeOptions options;
  if (flags.device != "cpu") refuse("--device", flags.device, "cpu");
  if (flags.compute == "f32") {
    options.compute = gpu::Compute::kF32;
  } else if (flags.compute == "auto") {
    options.compute = gpu::Compute::kAuto;
  } else {
    refuse("--compute", flags.compute, "f32, auto");
  }
  if (flags.kv_dtype == "f32") {
    options.kv = gpu::KvType::kF32;
  } else if (flags.kv_dtype == "bf16") {
    options.kv = gpu::KvType::kBF16;
  } else if (flags.kv_dtype == "auto") {
    options.kv = options.compute == gpu::Compute::kF32 ? gpu::KvType::kF32 : gpu::KvType::kBF16;
  } else {
    refuse("--kv-dtype", flags.kv_dtype, "f32, bf16, auto");
  }
  if (!flags.isa.empty()) {
    const std::optional<gpu::Isa> isa = gpu::isa_named(flags.isa);
    if (!isa) refuse("--isa", flags.isa, "plain, neon, avx2, avx512");
    if (!gpu::is_available(*isa)) throw UsageError("--isa: this processor or build has no " + flags.isa);
    options.isa = *isa;
  }
  return options;
}

}  // namespace reprise::tools
