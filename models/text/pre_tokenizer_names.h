#pragma once
// GGUF files name their pre-tokenizer (tokenizer.ggml.pre) instead of describing it. Here is what the names
// stand for: the patterns of the tokenizer.json that a vocabulary with this name was published with.
//
// Threading: a pure function.

#include <optional>
#include <string_view>
#include <vector>

#include "models/text/tokenizer_spec.h"

namespace reprise::models {

struct NamedPreTokenizer {
  std::vector<PreTokenizerStep> steps;
  bool ignore_merges = false;  // a piece that is a token is that token
};

/// Nothing for a name that is not known.
std::optional<NamedPreTokenizer> find_pre_tokenizer(std::string_view name);

}  // namespace reprise::models
