#pragma once
// Reads the chat template that comes with a model.
//
// Hugging Face folders have it in chat_template.jinja, chat_template.json or tokenizer_config.json, searched
// in this order; in the last, as a string or a list of named ones, of which "default" is used. GGUF files
// have it in their metadata.
//
// Bounds: templates longer than kMaxTemplateBytes are refused.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace reprise::models {

inline constexpr std::size_t kMaxTemplateBytes = 4U << 20;

/// `path`: a Hugging Face folder or a GGUF file. Returns nullopt if the model has no template. Throws
/// LoadError if it cannot be read.
std::optional<std::string> load_chat_template(const std::filesystem::path& path);

}  // namespace reprise::models
