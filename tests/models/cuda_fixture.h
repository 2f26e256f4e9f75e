#pragma once
// A model on the first GPU with a store for its sequences, and the calls that its tests make. Without a GPU
// the tests skip.
//
// Prefill slices begin on the grid, as they must on a GPU.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gpu/devices.h"
#include "models/checkpoint.h"
#include "models/device.h"
#include "models/gpu_refusal.h"
#include "models/model.h"
#include "tests/models/family_table.h"
#include "tests/require.h"
#include "tests/source_folder.h"
#include "tools/random_model/write_gguf.h"

namespace reprise::models {

inline constexpr std::size_t kGrid = gpu::kPageTokens;

/// The samples of all families that a GPU takes on.
inline std::vector<std::string> samples_on_gpu() {
  std::vector<std::string> names;
  for (const test::FamilySample& row : test::family_samples()) {
    const Checkpoint sample = Checkpoint::open(test::sample_checkpoint(row));
    if (!gpu_refusal(sample.config())) names.push_back(row.sample);
  }
  return names;
}

/// Types of random GGUF files: those that a GPU keeps in their size, one that it widens, and a mixture; and of experts.
inline const std::vector<std::string>& quantised_on_gpu() {
  static const std::vector<std::string> kTypes = {"Q8_0",     "Q4_0",     "Q4_K",      "Q5_K",
                                                  "Q6_K",     "IQ4_XS",   "Q5_1",      "Q4_K_M",
                                                  "moe_BF16", "moe_Q8_0", "moe_Q4_K_M"};
  return kTypes;
}

/// Those, the built-in model, and quantised ones; and mixtures whose experts are on the host.
inline std::vector<std::string> models_on_gpu() {
  std::vector<std::string> names = samples_on_gpu();
  names.emplace_back("builtin");
  names.insert(names.end(), quantised_on_gpu().begin(), quantised_on_gpu().end());
  for (const std::string& name : samples_on_gpu()) {
    const Checkpoint sample = Checkpoint::open(test::sample_checkpoint({.family = {}, .sample = name}));
    if (!parts_of<MoeSpec>(sample.config().layers).empty()) names.push_back(name + "-on_host");
  }
  for (const char* name : {"moe_BF16-on_host", "moe_Q4_K_M-on_host", "moe_Q8_0-first_on_host"}) {
    names.emplace_back(name);
  }
  return names;
}

/// A file of random weights of this type, made when it is asked for first.
inline std::filesystem::path quantised_file(const std::string& type) {
  static const std::filesystem::path kFolder =
      std::filesystem::path(testing::TempDir()) / ("reprise_cuda_" + std::to_string(::getpid()));
  const std::filesystem::path file = kFolder / (type + ".gguf");
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
  shape.vocab = 203;  // outputs that end inside a block
  tools::write_random_gguf(shape, tools::GgufTypes(has_experts ? type.substr(4) : type), 5, file);
  return file;
}

inline std::filesystem::path model_folder(const std::string& name) {
  if (name == "builtin") return source_folder() / "models" / name;
  const std::vector<std::string>& types = quantised_on_gpu();
  if (std::find(types.begin(), types.end(), name) != types.end()) return quantised_file(name);
  return test::sample_checkpoint({.family = {}, .sample = name});
}

inline std::vector<TokenId> random_tokens(const Model& model, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % model.config().vocab);
  return tokens;
}

/// The lowest id among equals.
inline TokenId argmax(std::span<const float> row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

/// A device, a model on it, and room for sequences.
class ModelRig {
 public:
  ModelRig(const std::filesystem::path& path, const std::string& device_name, const ComputeOptions& options,
           std::uint32_t cpu_experts = 0)
      : device_(Device::open(device_name, {.arena_bytes = 1ULL << 30, .cpu_experts = cpu_experts})),
        model_(device_->load(path, options)),
        store_(std::make_unique<gpu::StateStore>(
            model_->state().sizes(),
            gpu::StateBounds{.pages = 1200, .slots = 160, .memory = &device_->memory()})) {}

  Model& model() { return *model_; }
  gpu::StateStore& store() { return *store_; }
  std::size_t vocab() const { return model_->config().vocab; }

  gpu::Sequence open(std::size_t room) {
    std::optional<gpu::Sequence> sequence = store_->open();
    EXPECT_TRUE(sequence.has_value() && sequence->reserve(room));
    return std::move(*sequence);
  }

  /// In steps as large as the device likes.
  std::vector<float> prefill(gpu::Sequence& sequence, std::span<const TokenId> tokens,
                             Slice::Logits wanted = Slice::Logits::kAll) {
    std::vector<float> all;
    while (!tokens.empty()) {
      const std::size_t count = std::min<std::size_t>(tokens.size(), device_->prefill_rows());
      const bool asks = wanted == Slice::Logits::kAll || count == tokens.size();
      const Slice slice{.sequence = &sequence,
                        .tokens = tokens.first(count),
                        .logits = asks ? wanted : Slice::Logits::kNone};
      const std::span<const float> logits = model_->forward({&slice, 1}, Phase::kPrefill);
      all.insert(all.end(), logits.begin(), logits.end());
      tokens = tokens.subspan(count);
    }
    return all;
  }

  /// One after the other, given beforehand: the logits after each.
  std::vector<float> decode(gpu::Sequence& sequence, std::span<const TokenId> tokens) {
    std::vector<float> all;
    for (const TokenId& token : tokens) {
      const Slice slice{.sequence = &sequence, .tokens = {&token, 1}};
      const std::span<const float> logits = model_->forward({&slice, 1}, Phase::kDecode);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }

  /// The slot, and K and V of every stored token.
  std::vector<std::byte> state_of(const gpu::Sequence& sequence) const {
    const gpu::StateSizes sizes = model_->state().sizes();
    gpu::BlockMemory& memory = store_->memory();
    std::vector<std::byte> bytes(sizes.slot_bytes);
    if (!bytes.empty()) memory.to_host(bytes.data(), sequence.slot_data(), bytes.size());
    if (sizes.page_bytes == 0) return bytes;
    std::vector<std::byte> page(sizes.page_bytes);
    const auto attention = parts_of<AttentionSpec>(model_->config().layers);
    const std::size_t heads = attention.empty() ? 1 : attention.front()->kv_heads;  // latents have one
    for (std::size_t first = 0; first < sequence.stored(); first += gpu::kPageTokens) {
      memory.to_host(page.data(), sequence.page_data(first / gpu::kPageTokens), page.size());
      const std::size_t tokens = std::min(gpu::kPageTokens, sequence.stored() - first);
      for (const StateLayout::Field& field : model_->state().per_token()) {
        const std::size_t head_bytes = field.bytes / heads;
        for (std::size_t head = 0; head < heads; ++head) {
          const std::byte* from = page.data() + field.offset + head * gpu::kPageTokens * head_bytes;
          bytes.insert(bytes.end(), from, from + tokens * head_bytes);
        }
      }
    }
    return bytes;
  }

  /// As if it had been preempted: what it held was given back, used by another, and taken anew.
  gpu::Sequence saved_and_loaded(gpu::Sequence sequence, std::size_t room) {
    const gpu::SavedSequence saved = store_->save(sequence);
    { const gpu::Sequence gone = std::move(sequence); }
    {
      gpu::Sequence other = open(2 * kGrid);
      prefill(other, random_tokens(*model_, 2 * kGrid, 77), Slice::Logits::kNone);
    }
    std::optional<gpu::Sequence> loaded = store_->load(saved);
    EXPECT_TRUE(loaded.has_value() && loaded->reserve(room));
    return std::move(*loaded);
  }

  gpu::Sequence restored(const gpu::Snapshot& snapshot, std::size_t room) {
    std::optional<gpu::Sequence> sequence = store_->restore(snapshot).sequence;
    EXPECT_TRUE(sequence.has_value() && sequence->reserve(room));
    return std::move(*sequence);
  }

  gpu::Snapshot captured(const gpu::Sequence& sequence) {
    std::optional<gpu::Snapshot> snapshot = store_->capture(sequence);
    EXPECT_TRUE(snapshot.has_value());
    return std::move(*snapshot);
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<gpu::StateStore> store_;
};

/// What a test's parameter says: a model's name, which is computed in bf16; or with keys and values in blocks its name, a dash,
/// and how ("llama-int8"); or "-on_host" behind it, or "-first_on_host": the experts of all layers, or of the first, are
/// computed there; or "-precise": as that setting has it.
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

/// As the name of a test may have it.
inline std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// With keys and values in blocks: attention alone, beside recurrent layers, where layers keep them otherwise.
inline std::vector<std::string> models_with_blocks() {
  return {"llama-int8",   "llama-int4",       "qwen3_5_text-int8",   "qwen3_5_text-int4",
          "builtin-int8", "kimi_linear-int8", "recurrent_gemma-int8"};
}

/// Those that can be computed precisely, so computed.
inline std::vector<std::string> precise_models() {
  std::vector<std::string> names = samples_on_gpu();
  for (const char* more : {"builtin", "moe_BF16"}) names.emplace_back(more);
  for (std::string& name : names) name += "-precise";
  return names;
}

/// The parameter is that of a NamedModel.
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
