#pragma once
// The tables that a Tokenizer looks tokens up in, made from its spec.
//
// Threading: pure functions.

#include <string>
#include <string_view>
#include <vector>

#include "models/text/tokenizer_spec.h"

namespace reprise::models {

/// `spec` with the ids that mean something (unk, bos, …) dropped where they are out of range. LoadError,
/// naming spec.source, for tokens or added tokens whose ids are.
TokenizerSpec check_ids(TokenizerSpec spec);

/// These need a spec that check_ids() has seen. By id: how the vocabulary writes the token, the bytes it
/// decodes to, and whether it is special.
std::vector<std::string> texts_by_id(const TokenizerSpec& spec);
std::vector<std::string> bytes_by_id(const TokenizerSpec& spec);
std::vector<bool> specials_by_id(const TokenizerSpec& spec);

/// Whether no token has SentencePiece's space (U+2581) behind another character, and that space is a token
/// itself. Then merges never cross from a word to the next, and words can be encoded one by one.
bool keeps_words_apart(const TokenizerSpec& spec);

/// `text` with every `from` replaced by `to`.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace reprise::models
