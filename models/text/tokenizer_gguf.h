#pragma once
// TokenizerSpec from the metadata of a GGUF file (tokenizer.ggml.*): byte-level BPE ("gpt2"), SentencePiece
// ("llama"), WordPiece ("bert") and RWKV's longest match ("rwkv"). Another model or an unknown pre-tokenizer
// ends in a LoadError that names it.
//
// As in llama.cpp no text is put into a normal form, whatever the tokenizer.json of the model says: the file
// does not tell. Control, user-defined and unknown tokens are recognised in the text.
//
// GGUF files name their pre-tokenizer (tokenizer.ggml.pre) instead of describing it. The names stand for the patterns of
// the tokenizer.json that a vocabulary with this name was published with.
//
// Threading: pure functions.

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

/// Nothing for a name that is not known.
std::optional<NamedPreTokenizer> find_pre_tokenizer(std::string_view name);

}  // namespace reprise::models
