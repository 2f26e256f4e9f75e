#pragma once
// AddedTokens: cuts a text at the tokens that are recognised in the text itself.
//
// At each place the longest token that is there counts, and the leftmost place comes first. A token that
// wants to be a single word and is none is passed over together with its text.
//
// Threading: immutable; const access from any thread.

#include <cstddef>
#include <string_view>
#include <vector>

#include "models/text/string_table.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

class AddedTokens {
 public:
  /// Looks for token.content of each; `id` need not be unique.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool is_empty() const { return trie_.is_empty(); }

  struct Segment {
    std::string_view text;  // with the white space that a token swallowed
    TokenId id = -1;        // -1: text between tokens
  };

  /// The segments of `text`, which is valid UTF-8, in order; none is empty. Without `parse_special` special
  /// tokens are text.
  std::vector<Segment> split(std::string_view text, bool parse_special) const;

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // of places in tokens_
};

}  // namespace reprise::models
