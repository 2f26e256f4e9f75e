#pragma once
// TokenizerSpec from SentencePiece's own file, tokenizer.model: a protobuf message with the pieces, their scores and
// types, and how text is normalised. Read where a folder has no tokenizer.json.
//
// Read are models of type BPE and unigram. What is not supported (words, characters, a table of characters to replace, a
// space behind words instead of before them) ends in a LoadError that names it; so does whatever is no such message.
//
// Threading: pure functions.

#include <optional>
#include <string>
#include <string_view>

#include "models/files/json_place.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

/// `file` names it in errors. `config` is tokenizer_config.json, which may add special tokens, and says which of them
/// begin and end a text.
TokenizerSpec spec_of_sentencepiece(std::string_view bytes, const std::string& file,
                                    const std::optional<JsonPlace>& config = std::nullopt);

}  // namespace reprise::models
