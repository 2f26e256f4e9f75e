#pragma once
// Loads the Tokenizer of a model.

#include <filesystem>

#include "models/text/tokenizer.h"

namespace reprise::models {

/// `path`: a GGUF file, or a Hugging Face folder with tokenizer.json or else tokenizer.model, and optionally
/// tokenizer_config.json. Weights are not needed. Throws LoadError.
Tokenizer load_tokenizer(const std::filesystem::path& path);

}  // namespace reprise::models
