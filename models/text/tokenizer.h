#pragma once
// Tokenizer: text to token ids and back.
//
// Immutable once built, from a TokenizerSpec; everything here may be called from many threads at once.
//
// Malformed UTF-8 never fails. A byte-level model encodes the malformed bytes as they are, each run of them a
// piece of its own that nothing matches or normalises; any other model sees U+FFFD in their place, one for
// each maximal subpart. Decoding is the same the other way round: decode_bytes() gives exactly the bytes of
// the tokens, decode() the same with U+FFFD for what is not UTF-8.
//
// Time is O(n log n) in the length of the text for the patterns of word_scanner.h, whatever the text is.
// Other patterns go to PCRE2, which gives up with a RegexError when a text makes it take too many steps.

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
  bool parse_special = true;   // recognise special tokens in the text; other added tokens always are
  EncodeWork* work = nullptr;  // if set, what it took is added here
};

struct DecodeOptions {
  bool skip_special = false;  // leave special tokens out
  bool continuation =
      false;  // the ids go on from others: keep the space in front that encode() may have added
};

class Tokenizer {
 public:
  /// LoadError, naming spec.source, for a spec that makes no tokenizer.
  explicit Tokenizer(TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// The ids of `text`. Adds no BOS or EOS. RegexError see above; std::length_error past 1 GiB.
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The text of `ids`, always valid UTF-8. An id without a token stands for nothing.
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  /// The same, byte for byte.
  std::string decode_bytes(std::span<const TokenId> ids, DecodeOptions options = {}) const;

  /// Ids are below this; not every one need have a token.
  std::size_t vocab_size() const;

  /// The token as the vocabulary writes it ("Ġthe", "<|im_end|>"); empty for an id without a token.
  std::string_view token_text(TokenId id) const;

  /// The bytes it decodes to (" the"); empty for an id without a token.
  std::string_view token_bytes(TokenId id) const;

  /// The id of a token, by token_text.
  std::optional<TokenId> find(std::string_view token_text) const;

  /// Control tokens, the unknown token and added tokens marked special.
  bool is_special(TokenId id) const;

  /// False if some text cannot be written in this vocabulary and would be lost, as with the placeholder
  /// vocabularies of models that are meant for token ids alone.
  bool covers_all_text() const;

  /// What the file says about these; encode() does not act on it.
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> pad() const;
  std::optional<TokenId> unk() const;
  bool adds_bos() const;
  bool adds_eos() const;

 private:
  friend class TextStream;

  // How far decoding has come: what the next token's leading spaces mean.
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
