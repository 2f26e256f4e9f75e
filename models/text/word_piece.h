#pragma once
// WordPiece, as BERT's vocabularies have it: text is cleaned, lower-cased and stripped of accents, cut at
// white space, punctuation and Chinese characters, and each word is the longest tokens that it begins with,
// one after the other. A word that cannot be made of tokens is the unknown token.
//
// Tokens that begin a word are written with U+2581 in front.
//
// Threading: const access from any thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/text/byte_trie.h"
#include "models/text/encode_work.h"
#include "models/text/string_table.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

class WordPiece {
 public:
  WordPiece(const TokenizerSpec& spec, const StringTable& tokens);

  /// Appends the tokens of `text`, which is valid UTF-8.
  void encode(std::string_view text, EncodeWork& work, std::vector<TokenId>& out) const;

 private:
  void add_word(std::string_view word, EncodeWork& work, std::vector<TokenId>& out) const;

  ByteTrie trie_;
  std::optional<TokenId> unk_;
  bool lower_case_;
};

}  // namespace reprise::models
