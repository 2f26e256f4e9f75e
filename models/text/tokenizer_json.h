#pragma once
// Reads a TokenizerSpec from Hugging Face's tokenizer.json and tokenizer_config.json.
//
// Supports BPE and Unigram models with the normalizers, pre-tokenizers and decoders that such models are
// published with. Throws a LoadError that names anything else (WordPiece, a lower-casing normalizer, …),
// because a tokenizer that is almost right gives wrong answers.

#include <optional>

#include "models/files/json_location.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

/// `config` is tokenizer_config.json, which may add special tokens and says which begin and end a text.
TokenizerSpec spec_of_json(const JsonLocation& tokenizer,
                           const std::optional<JsonLocation>& config = std::nullopt);

/// Adds the settings of tokenizer_config.json.
void add_tokenizer_config(const JsonLocation& config, TokenizerSpec& spec);

/// Parse the members "normalizer", "pre_tokenizer" and "decoder" of tokenizer.json.
std::vector<NormalizerStep> normalizer_of_json(const JsonLocation& normalizer);
std::vector<PreTokenizerStep> pre_tokenizer_of_json(const JsonLocation& pre_tokenizer);
DecoderSpec decoder_of_json(const JsonLocation& decoder);

}  // namespace reprise::models
