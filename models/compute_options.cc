#include "models/compute_options.h"

#include <optional>

namespace reprise::models {
namespace {

[[noreturn]] void refuse(const std::string& setting, const std::string& value, const std::string& allowed) {
  throw SettingError(setting + ": '" + value + "' is not one of " + allowed);
}

/// ISAs this processor has, comma-separated.
std::string names_of_isas() {
  std::string names;
  for (const gpu::Isa isa : gpu::available_isas()) {
    names += (names.empty() ? "" : ", ") + std::string(gpu::name_of(isa));
  }
  return names;
}

}  // namespace

ComputeOptions compute_options(const std::string& compute, const std::string& kv_dtype,
                               const std::string& isa) {
  ComputeOptions options;
  if (const auto named = gpu::compute_named(compute)) {
    options.compute = *named;
  } else {
    refuse("compute", compute, "f32, precise, bf16, auto");
  }
  if (const auto named = gpu::kv_named(kv_dtype)) {
    options.kv = *named;
  } else if (kv_dtype == "auto") {
    options.kv = gpu::is_precise(options.compute) ? gpu::KvType::kF32 : gpu::KvType::kBF16;
  } else {
    refuse("kv-dtype", kv_dtype, "f32, bf16, int8, int4, auto");
  }
  if (!isa.empty()) {
    const std::optional<gpu::Isa> named = gpu::isa_named(isa);
    if (!named) refuse("isa", isa, names_of_isas());
    if (!gpu::is_available(*named)) throw SettingError("isa: this processor or build has no " + isa);
    options.isa = *named;
  }
  return options;
}

}  // namespace reprise::models
