#pragma once
// A random adapter of a TinyModel in both formats, and the model with it merged. The tiny model's own writers
// arrange fused and reordered rows, with the adapter's halves in place of the matrices.

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "models/files/gguf.h"
#include "tests/models/tiny_model.h"

namespace reprise::models::test {

struct TinyChange {
  TinyTensor a;  // [rank, inputs]
  TinyTensor b;  // [outputs, rank]
};

class TinyAdapter {
 public:
  /// Adapts the matrices whose names contain one of `targets`, except experts.
  TinyAdapter(const TinyModel& model, const std::vector<std::string>& targets, std::size_t rank, float alpha,
              std::uint64_t seed)
      : model_(model), rank(rank), alpha(alpha) {
    std::mt19937_64 random(seed);
    for (const auto& [name, tensor] : model.tensors) {
      if (tensor.shape.size() != 2 || name == "embed_tokens.weight" || name.find("mlp.gate.") != name.npos ||
          name.find("expert") != name.npos) {
        continue;
      }
      for (const std::string& target : targets) {
        if (name.find(target) == name.npos) continue;
        TinyChange& change = changes[name];
        // Matrices that are fused in files share their A.
        const TinyTensor* shared = model.is_next() ? shared_a(name) : nullptr;
        change.a = shared != nullptr ? *shared : random_tensor(random, rank, tensor.shape[1]);
        change.b = random_tensor(random, tensor.shape[0], rank);
        break;
      }
    }
  }

  const TinyModel& model_;
  std::size_t rank;
  float alpha;
  std::map<std::string, TinyChange> changes;  // by the matrix's canonical name

  double scale() const { return static_cast<double>(alpha) / static_cast<double>(rank); }

  std::string config_json(const std::string& extra = "") const {
    return "{\"peft_type\":\"LORA\",\"r\":" + std::to_string(rank) +
           ",\"lora_alpha\":" + std::to_string(alpha) +
           ",\"bias\":\"none\",\"target_modules\":null,\"use_dora\":false,\"modules_to_save\":null,"
           "\"fan_in_fan_out\":false,\"rank_pattern\":{},\"alpha_pattern\":{}" +
           extra + "}";
  }

  /// The folder's tensors, two per module.
  SafetensorsWriter safetensors(const std::string& prefix = "base_model.model.model.") const {
    SafetensorsWriter out;
    for (const auto& [name, b] : halves_b().hf_tensors()) {
      const std::string module = name.substr(0, name.size() - 7);
      const std::string before = name == "lm_head.weight" ? "base_model.model." : prefix;
      const TinyTensor& a = a_of(name);
      out.tensor(before + module + ".lora_A.weight", "F32", a.shape, raw_f32(a.values));
      out.tensor(before + module + ".lora_B.weight", "F32", b.shape, raw_f32(b.values));
    }
    return out;
  }
  void write_peft(const std::filesystem::path& folder, const std::string& extra = "") const {
    std::filesystem::create_directories(folder);
    write(folder / "adapter_config.json", config_json(extra));
    write(folder / "adapter_model.safetensors", safetensors().bytes());
  }

  /// The GGUF file as llama.cpp's converter writes it; `scratch` is a temporary file.
  GgufWriter gguf(const std::filesystem::path& scratch) const {
    GgufWriter out;
    const bool moe = model_.o.type.starts_with("qwen3_5_moe");
    out.text("general.type", "adapter");
    out.text("general.architecture", model_.is_next()  ? "qwen3next"
                                     : moe             ? "qwen35moe"
                                     : model_.hybrid() ? "qwen35"
                                                       : model_.o.type);
    out.text("adapter.type", "lora");
    out.f32("adapter.lora.alpha", alpha);
    add_half(out, halves_a(), ".lora_a", scratch);
    add_half(out, halves_b(), ".lora_b", scratch);
    return out;
  }
  void write_gguf(const std::filesystem::path& file) const {
    write(file, gguf(file.string() + ".half").bytes());
  }

  /// Writes the model with weights W + scale * B A in f32.
  void write_merged(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    TinyModel merged = model_;
    for (const auto& [name, change] : changes) {
      TinyTensor& w = merged.tensors.at(name);
      for (std::size_t row = 0; row < w.shape[0]; ++row) {
        for (std::size_t column = 0; column < w.shape[1]; ++column) {
          double sum = 0;
          for (std::size_t k = 0; k < rank; ++k) {
            sum += static_cast<double>(change.b.values[row * rank + k]) *
                   static_cast<double>(change.a.values[k * w.shape[1] + column]);
          }
          float& value = w.values[row * w.shape[1] + column];
          value = static_cast<float>(static_cast<double>(value) + scale() * sum);
        }
      }
    }
    SafetensorsWriter out;
    for (const auto& [name, tensor] : merged.hf_tensors()) {
      out.tensor(name == "lm_head.weight" ? name : "model." + name, "F32", tensor.shape,
                 raw_f32(tensor.values));
    }
    write(folder / "config.json", merged.config_json());
    write(folder / "model.safetensors", out.bytes());
  }

  static void write(const std::filesystem::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), std::streamsize(bytes.size()));
  }

 private:
  static TinyTensor random_tensor(std::mt19937_64& random, std::size_t rows, std::size_t columns) {
    std::normal_distribution<float> normal(0, 0.3f);
    TinyTensor out{{rows, columns}, std::vector<float>(rows * columns)};
    for (float& value : out.values) value = normal(random);
    return out;
  }
  /// The A of another matrix that files fuse with this one; null if none.
  const TinyTensor* shared_a(const std::string& name) const {
    for (const auto& [one, other] :
         {std::pair{"in_proj_z", "in_proj_qkv"}, std::pair{"in_proj_b", "in_proj_a"}}) {
      std::string first = name;
      const std::size_t at = first.find(one);
      if (at == first.npos) continue;
      first.replace(at, std::string(one).size(), other);
      if (const auto found = changes.find(first); found != changes.end()) return &found->second.a;
    }
    return nullptr;
  }
  /// The A of a stored matrix, which may be fused.
  const TinyTensor& a_of(const std::string& stored) const {
    std::string name = stored;
    for (const auto& [fused, part] :
         {std::pair{"in_proj_qkvz", "in_proj_qkv"}, std::pair{"in_proj_ba", "in_proj_a"}}) {
      if (const std::size_t at = name.find(fused); at != name.npos)
        name.replace(at, std::string(fused).size(), part);
    }
    return changes.at(name).a;
  }

  TinyModel halves_b() const {
    TinyModel out = model_;
    out.tensors.clear();
    for (const auto& [name, change] : changes) out.tensors[name] = change.b;
    return out;
  }
  TinyModel halves_a() const {
    TinyModel out = model_;
    out.tensors.clear();
    for (const auto& [name, change] : changes) out.tensors[name] = change.a;
    return out;
  }

  /// Uses the tiny model's writer to reorder rows of B and columns of A as the converter does; the other half
  /// must stay as it is.
  void add_half(GgufWriter& out, TinyModel halves, const std::string& mark,
                const std::filesystem::path& scratch) const {
    const bool is_a = mark == ".lora_a";
    TinyModel moved = halves;
    TinyModel others = halves;
    others.o.type = "qwen3";                    // a family without reordering,
    others.o.value_heads = others.o.key_heads;  // also of heads
    std::erase_if(moved.tensors, [&](const auto& one) { return moves_columns(one.first) != is_a; });
    std::erase_if(others.tensors, [&](const auto& one) { return moves_columns(one.first) == is_a; });
    if (is_a && model_.is_next()) {  // fused matrices share one A
      std::erase_if(others.tensors,
                    [](const auto& one) { return one.first.find("in_proj_b") != one.first.npos; });
    }
    for (TinyModel* part : {&moved, &others}) {
      if (part->tensors.empty()) continue;
      GgufWriter file;
      file.text("general.architecture", "tiny");
      part->gguf_tensors(file, false);
      write(scratch, file.bytes());
      const Gguf written = Gguf::open(scratch);
      for (const StoredTensor& tensor : written.tensors().tensors()) {
        std::string name = tensor.name;
        if (is_a && model_.is_next()) {
          if (const std::size_t at = name.find("ssm_alpha"); at != name.npos) name.replace(at, 9, "ssm_ba");
        }
        out.tensor(name + mark, 0, tensor.shape,
                   {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
      }
    }
    std::filesystem::remove(scratch);
  }
  bool moves_columns(const std::string& name) const {
    return name.find("linear_attn.out_proj") != name.npos && !model_.is_next();
  }
};

}  // namespace reprise::models::test
