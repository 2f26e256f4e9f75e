#pragma once
// Tokenizer: converts text to token ids and back.
//
// Malformed UTF-8 is never an error. A byte-level model encodes malformed bytes as they are; each run of them
// is a piece of its own that is neither normalized nor matched. Other models replace each maximal malformed
// subpart by U+FFFD. decode_bytes() returns exactly the tokens' bytes; decode() replaces what is not UTF-8 by
// U+FFFD.
//
// Encoding takes O(n log n) in the length of the text for the patterns of word_scanner.h. Other patterns use
// PCRE2, which throws RegexError if a text takes too many steps.
//
// Threading: immutable once built; any thread.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/text/encode_work.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

struct EncodeOptions {
  bool parse_special = true;   // recognize special tokens in the text; other added tokens always are
  EncodeWork* work = nullptr;  // if set, incremented by the work done
};

struct DecodeOptions {
  bool skip_special = false;  // leave special tokens out
  /// The ids follow others: keep the leading space that encode() may have added.
  bool continuation = false;
};

class Tokenizer {
 public:
  /// Throws LoadError, naming spec.source, for an invalid spec.
  explicit Tokenizer(TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Returns the ids of `text`, without adding BOS or EOS. Throws RegexError (see above), and
  /// std::length_error past 1 GiB.
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;

  /// Returns the text of `ids`, always valid UTF-8. Ids without a token are skipped.
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  /// Like decode(), but returns the tokens' bytes unchanged.
  std::string decode_bytes(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  /// Upper bound of all ids; some ids below it may have no token.
  std::size_t vocab_size() const;

  /// The token as written in the vocabulary ("Ġthe", "<|im_end|>"); empty for an id without a token.
  std::string_view token_text(TokenId id) const;

  /// The bytes the token decodes to (" the"); empty for an id without a token.
  std::string_view token_bytes(TokenId id) const;

  /// The id of the token with this token_text().
  std::optional<TokenId> find(std::string_view token_text) const;

  /// True for control tokens, the unknown token and added tokens marked special.
  bool is_special(TokenId id) const;

  /// False if some text cannot be encoded and would be lost, as with placeholder vocabularies of models used
  /// by token id alone.
  bool covers_all_text() const;

  /// Settings in the file; encode() does not act on them.
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> pad() const;
  std::optional<TokenId> unk() const;
  bool adds_bos() const;
  bool adds_eos() const;

 private:
  friend class TextStream;

  // State of incremental decoding: how many leading spaces may still be stripped.
  struct DecodeState {
    std::size_t strippable = 0;  // spaces
    bool is_first = true;
  };
  DecodeState begin_decode(DecodeOptions options) const;
  void decode_next(TokenId id, DecodeOptions options, DecodeState& state, std::string& out) const;

  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace reprise::models
