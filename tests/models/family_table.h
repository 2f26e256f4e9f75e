#pragma once
// The families, one row each, that share these tests: reference outputs (model_oracle_test.cc), bitwise
// exactness (exactness_test.cc), NaN poisoning of everything that is not state (poison_test.cc), and the
// README's table (family_support_test.cc).
//
// To add a family, add a row here and a sample in tests/data/models/<sample>: a tiny model as config.json and
// model.safetensors, or model.gguf if the family has no folders, with reference outputs in cases.json and
// logits.safetensors. The same model in llama.cpp's layout is optional: gguf/<sample>.gguf or
// gguf/<sample>-bf16.gguf among the reference outputs.

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "gpu/compute.h"
#include "tests/models/oracle_folder.h"
#include "tests/sanitized.h"
#include "tests/source_folder.h"

namespace reprise::models::test {

struct FamilySample {
  std::string family;  // as in families()
  std::string sample;
  bool gguf = true;  // the sample also exists as llama.cpp's converter writes it

  friend std::ostream& operator<<(std::ostream& out, const FamilySample& row) { return out << row.sample; }
};

inline const std::vector<FamilySample>& family_samples() {
  static const std::vector<FamilySample> kRows = {
      {.family = "llama", .sample = "llama"},
      {.family = "qwen3", .sample = "qwen3"},
      {.family = "qwen3_5_text", .sample = "qwen3_5_text"},
      {.family = "qwen3_5_moe_text", .sample = "qwen3_5_moe_text"},
      {.family = "qwen3_next", .sample = "qwen3_next"},
      {.family = "mamba", .sample = "mamba"},
      {.family = "falcon_mamba", .sample = "falcon_mamba"},
      {.family = "jamba", .sample = "jamba"},
      {.family = "mamba2", .sample = "mamba2"},
      {.family = "falcon_h1", .sample = "falcon_h1"},
      {.family = "nemotron_h", .sample = "nemotron_h", .gguf = false},
      {.family = "kimi_linear", .sample = "kimi_linear", .gguf = false},
      {.family = "longcat_flash", .sample = "longcat_flash", .gguf = false},
      {.family = "recurrent_gemma", .sample = "recurrent_gemma", .gguf = false},
      {.family = "rwkv7", .sample = "rwkv7"},
  };
  return kRows;
}

inline std::filesystem::path sample_folder(const FamilySample& row) {
  return source_folder() / "tests" / "data" / "models" / row.sample;
}

/// The path to load: the folder, or the GGUF file in it.
inline std::filesystem::path sample_checkpoint(const FamilySample& row) {
  const std::filesystem::path alone = sample_folder(row) / "model.gguf";
  return std::filesystem::exists(alone) ? alone : sample_folder(row);
}

/// The same model as GGUF; the file may not exist.
inline std::filesystem::path sample_gguf(const FamilySample& row) {
  const std::filesystem::path alone = sample_folder(row) / "model.gguf";
  if (std::filesystem::exists(alone)) return alone;
  const std::filesystem::path wide = oracle("gguf/" + row.sample + ".gguf");
  const std::filesystem::path narrow = oracle("gguf/" + row.sample + "-bf16.gguf");
  return !std::filesystem::exists(wide) && std::filesystem::exists(narrow) ? narrow : wide;
}

/// The ISA with the same kernels except for GEMMs of quantized weights.
inline gpu::Isa without_quantized_products(gpu::Isa isa) {
  switch (isa) {
    case gpu::Isa::kNeonDotprod:
      return gpu::Isa::kNeon;
    case gpu::Isa::kAvx2Vnni:
      return gpu::Isa::kAvx2;
    case gpu::Isa::kAvx512Vnni:
      return gpu::Isa::kAvx512;
    default:
      return isa;
  }
}

/// This machine's ISAs that differ in the kernels the samples use, best first; under a sanitizer only the
/// best. ISAs that differ only in GEMMs of quantized weights are left to quant_exactness_test.
inline std::vector<gpu::Isa> different_isas() {
  std::vector<gpu::Isa> out{gpu::best_isa()};
  if (kSanitized) return out;
  for (const gpu::Isa isa : {gpu::Isa::kPlain, gpu::Isa::kNeon, gpu::Isa::kAvx2, gpu::Isa::kAvx512}) {
    if (isa != without_quantized_products(gpu::best_isa()) && gpu::is_available(isa)) out.push_back(isa);
  }
  return out;
}

}  // namespace reprise::models::test
