#pragma once
// Reads a TokenizerSpec from the metadata of a GGUF file (tokenizer.ggml.*): byte-level BPE ("gpt2"),
// SentencePiece ("llama"), WordPiece ("bert") and RWKV's longest match ("rwkv"). Throws a LoadError that
// names any other model or an unknown pre-tokenizer.
//
// As in llama.cpp, no Unicode normalization is applied, because the file does not specify any. Control,
// user-defined and unknown tokens are recognized in the text.
//
// GGUF files name their pre-tokenizer (tokenizer.ggml.pre) instead of describing it. Each name selects the
// patterns of the tokenizer.json that such a vocabulary was published with.

#include <optional>
#include <string_view>
#include <vector>

#include "models/files/gguf.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

TokenizerSpec spec_of_gguf(const GgufMetadata& metadata);

struct NamedPreTokenizer {
  std::vector<PreTokenizerStep> steps;
  bool ignore_merges = false;  // a piece that is a token is that token
};

/// Returns nullopt for an unknown name.
std::optional<NamedPreTokenizer> find_pre_tokenizer(std::string_view name);

}  // namespace reprise::models
