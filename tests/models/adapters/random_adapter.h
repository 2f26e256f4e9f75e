#pragma once
// Writes a random adapter of a model on disk, as a PEFT folder.

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "models/model_files.h"
#include "tests/models/files/checkpoint_files.h"

namespace reprise::models::test {

/// Adapts the layers' matrices whose names contain one of `targets`; the changes are large enough to affect
/// outputs.
inline void write_random_adapter(const std::filesystem::path& folder, const ModelFiles& model,
                                 const std::vector<std::string>& targets, std::size_t rank,
                                 std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.15F);
  const auto numbers = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return raw_f32(values);
  };
  SafetensorsWriter out;
  for (const std::string& name : model.names()) {
    const Shape& shape = model.shape(name);
    if (shape.size() != 2 || !name.starts_with("layers.") || !name.ends_with("_proj.weight")) continue;
    for (const std::string& target : targets) {
      if (name.find(target) == name.npos) continue;
      const std::string module = "base_model.model.model." + name.substr(0, name.size() - 7);
      out.tensor(module + ".lora_A.weight", "F32", {rank, shape[1]}, numbers(rank * shape[1]));
      out.tensor(module + ".lora_B.weight", "F32", {shape[0], rank}, numbers(rank * shape[0]));
      break;
    }
  }
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), std::streamsize(bytes.size()));
  };
  write("adapter_config.json", R"({"peft_type":"LORA","lora_alpha":)" + std::to_string(2 * rank) +
                                   R"(,"r":)" + std::to_string(rank) + "}");
  write("adapter_model.safetensors", out.bytes());
}

}  // namespace reprise::models::test
