#pragma once
// The families that are tested all in the same way, one row each: what they compute against outside answers
// (model_oracle_test.cc), to the bit however it is cut, batched and restored (exactness_test.cc), with everything that
// is not state made NaN (poison_test.cc), and what the README says of them (family_support_test.cc).
//
// A new family is a row here and its sample, a tiny checkpoint with outside answers, in tests/data/models/<sample>:
// config.json and model.safetensors, or model.gguf for a family that has no other files; cases.json, logits.safetensors.
// The same model in llama.cpp's layout is looked for in the reference answers, gguf/<sample>.gguf or gguf/<sample>-bf16.gguf.
//
// Threading: constants, pure functions.

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
  std::string family;  // as families() names it
  std::string sample;
  bool gguf = true;  // llama.cpp has written the sample, too

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

/// The folder of a sample.
inline std::filesystem::path sample_folder(const FamilySample& row) {
  return source_folder() / "tests" / "data" / "models" / row.sample;
}

/// What is loaded: the folder, or the one GGUF file in it.
inline std::filesystem::path sample_checkpoint(const FamilySample& row) {
  const std::filesystem::path alone = sample_folder(row) / "model.gguf";
  return std::filesystem::exists(alone) ? alone : sample_folder(row);
}

/// The same model in llama.cpp's layout; it need not be there.
inline std::filesystem::path sample_gguf(const FamilySample& row) {
  const std::filesystem::path alone = sample_folder(row) / "model.gguf";
  if (std::filesystem::exists(alone)) return alone;
  const std::filesystem::path wide = oracle("gguf/" + row.sample + ".gguf");
  const std::filesystem::path narrow = oracle("gguf/" + row.sample + "-bf16.gguf");
  return !std::filesystem::exists(wide) && std::filesystem::exists(narrow) ? narrow : wide;
}

/// The set that one is apart from its products of quantised weights.
inline gpu::Isa without_quantised_products(gpu::Isa isa) {
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

/// Those that this machine can run, the best one first; under a sanitizer it alone. Of those that differ in products of
/// quantised weights alone the samples here see nothing; quant_exactness_test runs them all.
inline std::vector<gpu::Isa> different_isas() {
  std::vector<gpu::Isa> out{gpu::best_isa()};
  if (kSanitized) return out;
  for (const gpu::Isa isa : {gpu::Isa::kPlain, gpu::Isa::kNeon, gpu::Isa::kAvx2, gpu::Isa::kAvx512}) {
    if (isa != without_quantised_products(gpu::best_isa()) && gpu::is_available(isa)) out.push_back(isa);
  }
  return out;
}

}  // namespace reprise::models::test
