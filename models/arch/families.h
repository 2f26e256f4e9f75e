#pragma once
// The families of models that are known, one row each. All that is known of a family is in one file, its own or
// that of its relatives: which keys it reads, which tensors it has, which layers. No other code asks for a family's name.
//
// Threading: constants.

#include <span>
#include <string_view>
#include <vector>

namespace reprise::models {

class ConfigSource;
struct ModelConfig;

struct Family {
  std::string_view name;                             // in reports
  std::vector<std::string_view> hf_types{};          // model_type of the text model
  std::vector<std::string_view> hf_wrapper_types{};  // model_type of a model around it, in `text_config`
  std::vector<std::string_view> gguf_names{};        // general.architecture

  /// Describes the model: all of a ModelConfig but name, tokens and sampling. Throws LoadError.
  ModelConfig (*read)(const ConfigSource& source) = nullptr;
};

// Each in the file of its name, or of its relatives.
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

/// All of them, in the order in which they are named to the user.
std::span<const Family> families();

}  // namespace reprise::models
