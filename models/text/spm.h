#pragma once
// SentencePiece-style encoding: a piece is taken apart into characters, then the neighbouring pair whose
// joined text is the token with the highest score is merged, the leftmost of equals, until no pair makes a
// token. O(n log n) for a piece of n characters.
//
// By the rules of SentencePiece's files (TokenizerSpec::sentencepiece) the longest token of the user's at a place is one
// symbol, which is not merged; control, unknown and byte tokens are not made; a token that is unused is taken apart again
// where it was put together; and a run of unknown characters is one unknown token.
//
// A character that is no token becomes byte tokens ("<0x..>"), else the unknown token, else nothing.
//
// Threading: encode() may be called from many threads at once, each with a Scratch of its own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/text/byte_trie.h"
#include "models/text/encode_work.h"
#include "models/text/merge_queue.h"
#include "models/text/string_table.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

class Spm {
 public:
  /// `tokens` are the model's own, by id; it must outlive this. LoadError, naming spec.source, unless every
  /// token has a score.
  Spm(const TokenizerSpec& spec, const StringTable& tokens);

  struct Scratch {
    std::vector<std::size_t> begin;  // of each symbol, in the piece
    std::vector<std::size_t> end;
    std::vector<std::uint32_t> ranks, previous, next;
    std::vector<bool> is_frozen;  // by symbol; empty: none is
    std::unordered_map<std::string_view, std::size_t>
        seams;  // of unused tokens: how much of each is its left half
    std::vector<std::string_view> to_split;
    MergeQueue queue;
  };

  /// Appends the tokens of `piece`, which is valid UTF-8.
  void encode(std::string_view piece, Scratch& scratch, EncodeWork& work, std::vector<TokenId>& out) const;

  /// Whether every byte has a token, so that no text is lost.
  bool covers_all_bytes() const { return covers_all_bytes_; }

 private:
  static constexpr std::size_t kLongestUserToken = 4096;  // bytes

  TokenId find(std::string_view text) const;
  void add_symbol(std::string_view text, Scratch& scratch, std::size_t first,
                  std::vector<TokenId>& out) const;
  void add_token(std::string_view text, std::size_t first, std::vector<TokenId>& out) const;

  const StringTable& tokens_;
  std::vector<std::uint32_t> ranks_;  // by token: 0 for the highest score; equal scores have equal ranks
  std::array<TokenId, 256> byte_tokens_;
  std::optional<TokenId> unk_;
  bool fuses_unk_;
  std::vector<TokenType> types_;  // by token; empty: all are text
  ByteTrie user_tokens_;
  bool covers_all_bytes_;
};

}  // namespace reprise::models
