#pragma once
// Reads a TokenizerSpec from SentencePiece's tokenizer.model: a protobuf message with pieces, scores, types
// and normalization rules. Used for folders without tokenizer.json.
//
// Supports models of type BPE and unigram. Everything else (word and character models, a character map, a
// space after words instead of before) and malformed messages throw a LoadError that names it.

#include <optional>
#include <string>
#include <string_view>

#include "models/files/json_location.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

/// `file` is named in errors. `config` is tokenizer_config.json, which may add special tokens and says which
/// begin and end a text.
TokenizerSpec spec_of_sentencepiece(std::string_view bytes, const std::string& file,
                                    const std::optional<JsonLocation>& config = std::nullopt);

}  // namespace reprise::models
