#pragma once
// Unigram encoding, as SentencePiece and Hugging Face's tokenizers have it: of all ways to write a piece in tokens the
// one whose logarithms of probability add up to the most; at equal sums the one that was found first, going from left to
// right and from short tokens to long ones. A character that no token of its own covers may be unknown, at ten less than
// the least token. O(n) for a piece of n bytes: no token is longer than kLongestToken.
//
// Unknown characters become byte tokens ("<0x..>") where all are there, else, a run of them, the unknown token once.
//
// Threading: encode() may be called from many threads at once, each with a Scratch of its own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/text/byte_trie.h"
#include "models/text/encode_work.h"
#include "models/text/string_table.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

class Unigram {
 public:
  static constexpr std::size_t kLongestToken = 4096;  // bytes

  /// `tokens` are the model's own, by id. LoadError, naming spec.source, unless every token has a number, or for a
  /// token that is too long.
  Unigram(const TokenizerSpec& spec, const StringTable& tokens);

  /// The best way to a place in the piece.
  struct Node {
    double score = 0;
    std::size_t begin = kNowhere;  // of its last token
    TokenId id = 0;                // of its last token; kUnknown: no token
  };
  struct Scratch {
    std::vector<Node> nodes;          // by the place they lead to
    std::vector<std::size_t> places;  // where the tokens of the best way end
  };

  /// Appends the tokens of `piece`, which is valid UTF-8.
  void encode(std::string_view piece, Scratch& scratch, EncodeWork& work, std::vector<TokenId>& out) const;

  /// Whether every byte has a token, so that no text is lost.
  bool covers_all_bytes() const { return covers_all_bytes_; }

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  static constexpr TokenId kUnknown = -1;

  void add_unknown(std::string_view text, std::vector<TokenId>& out) const;

  ByteTrie trie_;
  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  bool single_precision_;
  std::array<TokenId, 256> byte_tokens_;
  std::optional<TokenId> unk_;
  bool covers_all_bytes_;
};

}  // namespace reprise::models
