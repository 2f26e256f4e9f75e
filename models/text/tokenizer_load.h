#pragma once
// A Tokenizer from what a user names as the model.
//
// Threading: a pure function.

#include <filesystem>

#include "models/text/tokenizer.h"

namespace reprise::models {

/// `path` is a Hugging Face folder (tokenizer.json or else tokenizer.model, and tokenizer_config.json if it is there) or a GGUF file.
/// Weights need not be there. LoadError if it makes no tokenizer.
Tokenizer load_tokenizer(const std::filesystem::path& path);

}  // namespace reprise::models
