#pragma once
// Vocabulary: a model's tokens as a trie of their bytes, independent of the tokenizer.
//
// A token is *plain* if it consists of characters that need no escape in a JSON string (the last may be
// incomplete) and has no U+2028 or U+2029. Most tokens are plain. Where any such character may follow, plain
// tokens need no individual check: children of a trie node whose subtrees are all plain come last, and masks
// of the plain tokens up to each length are precomputed.
//
// Tokens longer than kMaxChars characters, which are rare, are not in the trie, because states with counts
// above that are merged.
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
    std::string bytes{};   // empty: never allowed
    bool special = false;  // matches its text as a whole, only where a grammar says so
  };
  /// `stops`: tokens that end a reply. `size`: number of logits, at least tokens.size().
  Vocabulary(std::vector<Token> tokens, std::vector<TokenId> stops, std::size_t size);

  struct TrieNode {
    std::uint32_t end = 0;    // index after its subtree; the first child is the next node
    TokenId token = -1;       // token that ends here; same_as() lists others with the same bytes
    std::uint32_t plain = 0;  // range of plain_tokens() in its subtree
    std::uint32_t plain_end = 0;
    std::uint8_t byte = 0;
    bool only_plain = false;  // all tokens in its subtree are plain
  };
  std::span<const TrieNode> nodes() const { return nodes_; }
  std::span<const TokenId> plain_tokens() const { return plain_tokens_; }
  /// Returns the mask of plain tokens with at most `chars` characters.
  const TokenMask& plain_up_to(std::uint32_t chars) const { return plain_masks_[chars]; }
  TokenId same_as(TokenId token) const { return same_[static_cast<std::size_t>(token)]; }

  std::span<const TokenId> specials() const { return specials_; }
  std::span<const TokenId> stops() const { return stops_; }
  const Token& token(TokenId id) const { return tokens_[static_cast<std::size_t>(id)]; }
  std::size_t token_count() const { return tokens_.size(); }
  std::size_t size() const { return size_; }

  /// Returns the tokens that are not in the trie.
  std::span<const TokenId> long_tokens() const { return long_tokens_; }

  static constexpr std::uint32_t kMaxChars = Matcher::kManyChars;

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
