#pragma once
// TokenizerSpec from the files of Hugging Face: tokenizer.json, and tokenizer_config.json beside it.
//
// Read are BPE and Unigram models with every normalizer, pre-tokenizer and decoder that such models are published with.
// What is not supported (WordPiece, a normalizer that lowers case, …) ends in a LoadError that names
// it: a tokenizer that is nearly right is wrong.
//
// Threading: pure functions.

#include <optional>

#include "models/files/json_place.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

/// `config` is tokenizer_config.json, which adds special tokens and says which of them begin and end a text.
TokenizerSpec spec_of_json(const JsonPlace& tokenizer, const std::optional<JsonPlace>& config = std::nullopt);

/// What tokenizer_config.json has to add.
void add_tokenizer_config(const JsonPlace& config, TokenizerSpec& spec);

/// The members "normalizer", "pre_tokenizer" and "decoder" of tokenizer.json.
std::vector<NormalizerStep> normalizer_of_json(const JsonPlace& normalizer);
std::vector<PreTokenizerStep> pre_tokenizer_of_json(const JsonPlace& pre_tokenizer);
DecoderSpec decoder_of_json(const JsonPlace& decoder);

}  // namespace reprise::models
