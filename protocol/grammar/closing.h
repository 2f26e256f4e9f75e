#pragma once
// Closing: how many tokens a reply needs to come to its end, and masks that bring it there before its limit.
//
// A state's ending is a short text (endings.h), spelled with the fewest tokens. Near the limit a mask has the tokens alone
// behind which what is left suffices for the ending of the next state; where it just suffices for one text the reply
// becomes that text. Masks depend on the tokens of the reply and on its limit, and on nothing else.
//
// Threading: one thread at a time.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/grammar/endings.h"
#include "protocol/grammar/vocabulary.h"

namespace reprise::protocol::grammar {

/// A text that the rest of a reply becomes.
struct ClosingText {
  Ending ending{};
  std::vector<std::uint32_t> tokens_left{};  // from each offset to the end, at least
};

class Closing {
 public:
  static constexpr std::uint32_t kNever = UINT32_MAX;  // tokens
  static constexpr std::uint32_t kMaxTokens = 256;     // longer endings are not looked for
  static constexpr std::uint32_t kMaxWindow = 256;
  static constexpr std::size_t kFarthest =
      kMaxTokens + kMaxWindow;  // from the limit: nothing is done earlier

  Closing(const Program& program, const Vocabulary& vocabulary);

  /// The state's ending; nothing: none is known, or not of these tokens.
  std::optional<ClosingText> text(Matcher& matcher, Matcher::State state) const;
  /// Its tokens, or kNever.
  std::uint32_t tokens_to_end(Matcher& matcher, Matcher::State state) const;
  /// An upper bound of tokens_to_end() behind any token that stays in this string or key.
  std::uint32_t tokens_within(Matcher& matcher, Matcher::State state, const Matcher::Within& within) const;
  /// By how much one token can bring the end farther away, about.
  std::uint32_t window() const { return window_; }

  std::size_t bytes() const { return sizeof *this + endings_.bytes(); }

  /// The tokens that go on with the text from an offset and leave enough of `left` for the rest of it.
  SharedMask mask(const ClosingText& text, std::size_t offset, std::size_t left) const;

 private:
  template <class Visit>
  void for_each_token(const Ending& ending, std::size_t offset, const Visit& visit) const;

  const Vocabulary& vocabulary_;
  const Endings endings_;
  const std::uint32_t window_;
  std::array<std::uint32_t, 256> first_nodes_{};               // of the trie, by byte; 0: none
  std::map<std::string, std::vector<TokenId>> special_texts_;  // special tokens by their bytes
};

}  // namespace reprise::protocol::grammar
