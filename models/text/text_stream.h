#pragma once
// TextStream: the text of tokens as they come.
//
// Text comes out in whole UTF-8 characters: bytes of an unfinished one are held until it is complete or
// cannot become so. All that push() and flush() return, put together, is Tokenizer::decode() of the ids, up
// to the first stop string.
//
// Threading: one thread at a time. The Tokenizer must outlive the stream.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "models/text/stop_strings.h"
#include "models/text/tokenizer.h"

namespace reprise::models {

class TextStream {
 public:
  /// Generated text goes on from the prompt's, so it wants `options.continuation`.
  explicit TextStream(const Tokenizer& tokenizer, DecodeOptions options = {},
                      std::vector<std::string> stops = {});

  /// The text that has become certain with this token; often empty.
  std::string push(TokenId id);

  /// The rest, when no more tokens come. Call it once.
  std::string flush();

  /// Set once a stop string has come up; after that there is no more text. Its position counts in the bytes
  /// of the text that came out.
  const std::optional<StopMatch>& stop() const { return stops_.match(); }

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  Tokenizer::DecodeState state_;
  std::string pending_;  // bytes that are no characters yet
  StopStrings stops_;
};

}  // namespace reprise::models
