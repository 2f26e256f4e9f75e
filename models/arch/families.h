#pragma once
// The supported model families. Everything specific to a family is in its file or a relative's: keys,
// tensors, layers. No other code depends on a family's name.

#include <span>
#include <string_view>
#include <vector>

namespace reprise::models {

class ConfigSource;
struct ModelConfig;

struct Family {
  std::string_view name;                     // for messages
  std::vector<std::string_view> hf_types{};  // model_type of the text model
  // model_type of a wrapper with the text model in `text_config`
  std::vector<std::string_view> hf_wrapper_types{};
  std::vector<std::string_view> gguf_names{};  // general.architecture

  /// Describes the model: everything in ModelConfig except name, tokens and sampling. Throws LoadError.
  ModelConfig (*read)(const ConfigSource& source) = nullptr;
};

// Each is defined in the file of its name or of a relative.
Family llama_family();
Family qwen3_family();
Family qwen3_5_family();
Family qwen3_5_moe_family();
Family qwen3_next_family();
Family recurrent_gemma_family();
Family rwkv7_family();
Family mamba_family();
Family falcon_mamba_family();
Family jamba_family();
Family kimi_linear_family();
Family longcat_flash_family();
Family mamba2_family();
Family falcon_h1_family();
Family nemotron_h_family();

/// All families, in the order shown to users.
std::span<const Family> families();

}  // namespace reprise::models
