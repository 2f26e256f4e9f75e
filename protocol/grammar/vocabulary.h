#pragma once
// Vocabulary: the tokens of a model as a trie of their bytes, whatever tokenizer they are of.
//
// A token is *plain* if it is characters that may stand in a JSON string as they are, the last perhaps not whole, and
// none of the line ends U+2028 and U+2029. Most tokens are. Where any such character may follow, plain tokens need not be looked at one by one: the
// children of a node whose tokens are all plain come last, and masks of plain tokens up to each length are ready.
//
// Tokens of more than kMostChars characters, of which there are hardly any, stand beside the trie: what is in it cannot
// tell two counts apart that are both higher.
//
// Threading: immutable and shared.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_mask.h"
#include "protocol/grammar/matcher.h"

namespace reprise::protocol::grammar {

class Vocabulary {
 public:
  struct Token {
    std::string bytes{};   // empty: it is never chosen
    bool special = false;  // stands for its text as a whole, and only where a grammar says so
  };
  /// `stops`: tokens that end a reply. `size`: of the model's logits; at least the tokens.
  Vocabulary(std::vector<Token> tokens, std::vector<TokenId> stops, std::size_t size);

  struct TrieNode {
    std::uint32_t end = 0;    // behind the last node below it; its first child is the next node
    TokenId token = -1;       // that ends here; `same` has others of the same bytes
    std::uint32_t plain = 0;  // its plain tokens are these of plain_tokens()
    std::uint32_t plain_end = 0;
    std::uint8_t byte = 0;
    bool only_plain = false;  // all tokens here and below are
  };
  std::span<const TrieNode> nodes() const { return nodes_; }
  std::span<const TokenId> plain_tokens() const { return plain_tokens_; }
  /// Plain tokens of at most so many characters.
  const TokenMask& plain_up_to(std::uint32_t chars) const { return plain_masks_[chars]; }
  TokenId same_as(TokenId token) const { return same_[static_cast<std::size_t>(token)]; }

  std::span<const TokenId> specials() const { return specials_; }
  std::span<const TokenId> stops() const { return stops_; }
  const Token& token(TokenId id) const { return tokens_[static_cast<std::size_t>(id)]; }
  std::size_t token_count() const { return tokens_.size(); }
  std::size_t size() const { return size_; }

  /// Tokens that are not in the trie.
  std::span<const TokenId> long_tokens() const { return long_tokens_; }

  static constexpr std::uint32_t kMostChars = Matcher::kManyChars;

 private:
  const std::vector<Token> tokens_;
  const std::vector<TokenId> stops_;
  const std::size_t size_;
  std::vector<TrieNode> nodes_;
  std::vector<TokenId> plain_tokens_;
  std::vector<TokenMask> plain_masks_;
  std::vector<TokenId> same_;
  std::vector<TokenId> specials_;
  std::vector<TokenId> long_tokens_;
};

}  // namespace reprise::protocol::grammar
