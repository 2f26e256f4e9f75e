#pragma once
// Fixture: a model on the first GPU with a store for its sequences. Without a GPU the tests skip. Prefill
// slices begin at multiples of the grid.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/devices.h"
#include "models/device.h"
#include "models/gpu_plan.h"
#include "models/model_files.h"
#include "tests/models/family_table.h"
#include "tests/models/model_runs.h"
#include "tests/require.h"
#include "tests/source_folder.h"
#include "tests/temp_dir.h"
#include "tools/lab/random_model/write.h"

namespace reprise::models {

inline constexpr std::size_t kGrid = gpu::kPageTokens;

inline std::vector<std::string> samples_on_gpu() {
  std::vector<std::string> names;
  for (const test::FamilySample& row : test::family_samples()) {
    const ModelFiles sample = ModelFiles::open(test::sample_checkpoint(row));
    if (!gpu_refusal(sample.config())) names.push_back(row.sample);
  }
  return names;
}

/// Weight types of random GGUF files: kept in their size on a GPU, widened, and mixed; and some with experts.
inline const std::vector<std::string>& quantized_on_gpu() {
  static const std::vector<std::string> kTypes = {"Q8_0",     "Q4_0",     "Q4_K",      "Q5_K",
                                                  "Q6_K",     "IQ4_XS",   "Q5_1",      "Q4_K_M",
                                                  "moe_BF16", "moe_Q8_0", "moe_Q4_K_M"};
  return kTypes;
}

/// Samples, the built-in model, quantized models, and mixtures with experts on the host.
inline std::vector<std::string> models_on_gpu() {
  std::vector<std::string> names = samples_on_gpu();
  names.emplace_back("builtin");
  names.insert(names.end(), quantized_on_gpu().begin(), quantized_on_gpu().end());
  for (const std::string& name : samples_on_gpu()) {
    const ModelFiles sample = ModelFiles::open(test::sample_checkpoint({.family = {}, .sample = name}));
    if (!parts_of<MoeSpec>(sample.config().layers).empty()) names.push_back(name + "-on_host");
  }
  for (const char* name : {"moe_BF16-on_host", "moe_Q4_K_M-on_host", "moe_Q8_0-first_on_host"}) {
    names.emplace_back(name);
  }
  return names;
}

/// Created on first use.
inline std::filesystem::path quantized_file(const std::string& type) {
  static const reprise::test::TempDir kFolder;
  const std::filesystem::path file = kFolder.path() / (type + ".gguf");
  if (std::filesystem::exists(file)) return file;
  const bool has_experts = type.starts_with("moe_");
  tools::RandomShape shape = *tools::shape_named(has_experts ? "qwen3_5_moe-tiny" : "qwen3_5-tiny");
  shape.hidden = 256;
  if (has_experts) {
    shape.experts = 20;
    shape.experts_per_token = 3;
    shape.expert_intermediate = shape.shared_intermediate = 256;
  } else {
    shape.intermediate = 768;
  }
  shape.head_dim = 64;
  shape.key_head_dim = shape.value_head_dim = 64;
  shape.vocab = 203;  // the last block of outputs is partial
  tools::write_random_gguf(shape, tools::GgufTypes(has_experts ? type.substr(4) : type), 5, file);
  return file;
}

inline std::filesystem::path model_folder(const std::string& name) {
  if (name == "builtin") return source_folder() / "models" / name;
  const std::vector<std::string>& types = quantized_on_gpu();
  if (std::find(types.begin(), types.end(), name) != types.end()) return quantized_file(name);
  return test::sample_checkpoint({.family = {}, .sample = name});
}

/// The lowest index among equal maxima.
inline TokenId argmax(std::span<const float> row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

class ModelRig : public test::ModelRuns {
 public:
  ModelRig(const std::filesystem::path& path, const std::string& device_name, const ComputeOptions& options,
           std::uint32_t cpu_experts = 0)
      : ModelRig(Device::open(device_name, {.arena_bytes = 1ULL << 30, .cpu_experts = cpu_experts}), path,
                 options) {}

 private:
  ModelRig(const std::shared_ptr<Device>& device, const std::filesystem::path& path,
           const ComputeOptions& options)
      : ModelRuns(device, device->load(path, options),
                  {.pages = 1200, .slots = 160, .memory = &device->memory()}, kGrid, device->prefill_rows()) {
  }
};

/// Parses a test parameter: a model's name, with bf16 compute unless a suffix says otherwise. "-int8",
/// "-int4": block-quantized keys and values; "-on_host", "-first_on_host": the experts of all layers, or of
/// the first, are on the host; "-precise": compute setting precise.
struct NamedModel {
  std::string model;
  ComputeOptions options;
  std::uint32_t cpu_experts = 0;  // as in DeviceOptions

  explicit NamedModel(const std::string& name) : model(name.substr(0, name.find('-'))) {
    const std::string how = name.substr(std::min(name.size(), model.size() + 1));
    options.compute = gpu::Compute::kBf16;
    if (how == "precise") {
      options = compute_options("precise", "auto", "");
    } else if (how.ends_with("on_host")) {
      cpu_experts = how == "on_host" ? kAllLayers : 1;
    } else if (!how.empty()) {
      options.kv = gpu::kv_named(how).value();
    }
  }
};

/// Turns a parameter into a valid test name.
inline std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Models with block-quantized keys and values: attention only, attention with recurrent layers, and other KV
/// layouts.
inline std::vector<std::string> models_with_blocks() {
  return {"llama-int8",   "llama-int4",       "qwen3_5_text-int8",   "qwen3_5_text-int4",
          "builtin-int8", "kimi_linear-int8", "recurrent_gemma-int8"};
}

/// Models that support compute setting precise, with that suffix.
inline std::vector<std::string> precise_models() {
  std::vector<std::string> names = samples_on_gpu();
  for (const char* more : {"builtin", "moe_BF16"}) names.emplace_back(more);
  for (std::string& name : names) name += "-precise";
  return names;
}

/// Parametrized by a NamedModel.
class CudaModelTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (gpu::list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
    const NamedModel named(GetParam());
    rig_ = std::make_unique<ModelRig>(model_folder(named.model), "cuda:0", named.options, named.cpu_experts);
  }

  std::unique_ptr<ModelRig> rig_;
};

}  // namespace reprise::models
