#pragma once
// The chat template that comes with a model, as text.
//
// Hugging Face folders keep it in chat_template.jinja, in chat_template.json, or in tokenizer_config.json as
// a string or as a list of named ones, of which "default" counts; the first that is there, in this order.
// GGUF files have it in their metadata.
//
// Bound: kMostTemplateBytes; a longer one is refused.
// Threading: a pure function.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace reprise::models {

inline constexpr std::size_t kMostTemplateBytes = 4U << 20;

/// `path` is a Hugging Face folder or a GGUF file. Nothing if the model has none. LoadError for one that
/// cannot be read.
std::optional<std::string> load_chat_template(const std::filesystem::path& path);

}  // namespace reprise::models
